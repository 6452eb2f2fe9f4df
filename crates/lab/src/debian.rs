// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Debian suite → its cloud kernel and busybox, unpacked into a folder of ours.
//!
//! apt does the work, with lists, archives and configuration of its own, from the mirror that this
//! machine's apt uses; it verifies with the Debian keyring. Which packages hold image and modules
//! differs between suites: from the meta package on, every `linux-*` package is followed that is
//! wanted in exactly one version. Nothing is installed, and no maintainer script runs.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{At, Error};
use crate::program;

const META: &str = "linux-image-cloud-amd64";
const BUSYBOX: &str = "busybox-static";
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// An apt of its own, below one folder.
struct Apt {
    folder: PathBuf,
}

/// Unpacks kernel and busybox of a suite below `folder/root`; says which packages it took.
pub(crate) fn fetch(
    suite: &str,
    folder: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<String>, Error> {
    program::find("apt-get", "apt")?;
    program::find("dpkg-deb", "dpkg")?;
    let apt = Apt::new(suite, folder.join("apt"))?;
    tell(&format!("{suite}: fetching the lists of packages"));
    apt.run("apt-get", &["--quiet=2", "update"])?;
    let mut packages = apt.kernel_packages()?;
    packages.push(BUSYBOX.to_owned());
    tell(&format!("{suite}: fetching {}", packages.join(", ")));
    apt.run("apt-get", &[&["--quiet=2", "download"][..], &words(&packages)].concat())?;
    tell(&format!("{suite}: unpacking"));
    apt.unpack(&folder.join("root"))
}

impl Apt {
    fn new(suite: &str, folder: PathBuf) -> Result<Self, Error> {
        for part in ["lists/partial", "archives/partial", "empty"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).at(&part)?;
        }
        let apt = Self { folder };
        let source = format!("deb [signed-by={}] {} {suite} main\n", keyring()?, mirror()?);
        for (name, text) in
            [("status", String::new()), ("sources.list", source), ("apt.conf", apt.settings())]
        {
            let path = apt.folder.join(name);
            fs::write(&path, text).at(&path)?;
        }
        Ok(apt)
    }

    /// Every path that apt would take from the system is ours, and nothing is run afterwards.
    fn settings(&self) -> String {
        let user = env::var("USER").unwrap_or_else(|_| "root".to_owned());
        let at = self.folder.display();
        format!(
            "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"{at}/empty\";\n\
             Dir::Etc::preferences \"{at}/empty/none\";\nDir::Etc::preferencesparts \"{at}/empty\";\n\
             Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\n\
             Dir::Cache \"{at}\";\nDir::Cache::archives \"{at}/archives\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\nAPT::Sandbox::User \"{user}\";\n\
             #clear APT::Architectures;\nAPT::Architectures {{ \"amd64\"; }};\n\
             APT::Architecture \"amd64\";\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Post-Invoke;\n\
             #clear DPkg::Pre-Install-Pkgs;\n"
        )
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.folder.join("apt.conf")).args(arguments);
        command.current_dir(self.folder.join("archives")).env("LC_ALL", "C.UTF-8");
        program::output(program, &mut command)
    }

    /// The meta package's kernel, whichever packages it is spread over.
    fn kernel_packages(&self) -> Result<Vec<String>, Error> {
        let mut found: Vec<String> = Vec::new();
        let mut waiting = vec![META.to_owned()];
        while let Some(package) = waiting.pop() {
            let stanza = self.run("apt-cache", &["show", "--no-all-versions", &package])?;
            let exact = exact(&stanza);
            waiting.extend(exact.into_iter().filter(|name| *name != META && !found.contains(name)));
            if package != META && !found.contains(&package) {
                found.push(package);
            }
        }
        Ok(found)
    }

    fn unpack(&self, root: &Path) -> Result<Vec<String>, Error> {
        let archives = self.folder.join("archives");
        let mut taken = BTreeSet::new();
        for entry in fs::read_dir(&archives).at(&archives)? {
            let path = entry.at(&archives)?.path();
            let Some(name) = package(&path) else { continue };
            let mut command = Command::new("dpkg-deb");
            program::output("dpkg-deb", command.arg("--extract").arg(&path).arg(root))?;
            taken.insert(name);
        }
        Ok(taken.into_iter().collect())
    }
}

fn words(text: &[String]) -> Vec<&str> {
    text.iter().map(String::as_str).collect()
}

/// `…/name_version_amd64.deb` → `name_version`.
fn package(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".deb")?;
    name.rsplit_once('_').map(|(name, _)| name.replace("%3a", ":"))
}

/// The kernel's own packages that a stanza wants in exactly one version.
fn exact(stanza: &str) -> Vec<String> {
    let fields = stanza.lines().filter_map(|line| line.strip_prefix("Depends: "));
    let wants = fields.flat_map(|field| field.split(", "));
    let exact = wants.filter_map(|want| want.split_once(" (= ").map(|(name, _)| name));
    exact.filter(|name| name.starts_with("linux-")).map(str::to_owned).collect()
}

fn keyring() -> Result<&'static str, Error> {
    let found = KEYRINGS.into_iter().find(|path| Path::new(path).is_file());
    found.ok_or_else(|| Error::Missing {
        program: "the Debian keyring".to_owned(),
        package: "debian-archive-keyring",
    })
}

/// The first Debian archive among apt's own sources: others have no pools of other suites.
fn mirror() -> Result<String, Error> {
    let mut command = Command::new("apt-get");
    let format = "$(LABEL)\t$(REPO_URI)";
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let found = program::output("apt-get", &mut command)?;
    let mirror = found.lines().find_map(|line| line.strip_prefix("Debian\t"));
    mirror.map(str::to_owned).ok_or_else(|| Error::Failed {
        program: "apt-get".to_owned(),
        said: "no Debian archive among this machine's sources, or no lists yet (apt-get update)"
            .to_owned(),
    })
}

/// Where in the unpacked packages image, modules and configuration are.
pub(crate) struct Places {
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
    pub(crate) busybox: PathBuf,
}

/// Looks for them below the root, wherever this suite puts them.
pub(crate) fn places(root: &Path) -> Option<Places> {
    let modules = ["usr/lib/modules", "lib/modules"].map(|path| root.join(path));
    let modules = modules.iter().find_map(|folder| only(folder, ""))?;
    let image = only(&root.join("boot"), "vmlinuz-").or_else(|| only(&modules, "vmlinuz"))?;
    let busybox = ["bin/busybox", "usr/bin/busybox"].map(|path| root.join(path));
    let busybox = busybox.into_iter().find(|path| path.is_file())?;
    Some(Places { image, modules, busybox })
}

/// The first entry whose name begins so.
fn only(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_packages_are_followed() {
        let old = "Package: linux-image-cloud-amd64\nDepends: linux-image-6.1.0-50 (= 6.1.176-1)\n";
        assert_eq!(exact(old), ["linux-image-6.1.0-50"]);
        let new = "Depends: dracut | initramfs-tools (>= 0.120), linux-base-7 (= 7-1), \
                   linux-modules-7 (= 7-1)\nPre-Depends: linux-base (>= 4.17~)\n";
        assert_eq!(exact(new), ["linux-base-7", "linux-modules-7"]);
    }

    #[test]
    fn packages_are_named_with_their_version() {
        let path = Path::new("/x/busybox-static_1%3a1.35.0-4_amd64.deb");
        assert_eq!(package(path).as_deref(), Some("busybox-static_1:1.35.0-4"));
        assert_eq!(package(Path::new("/x/partial")), None);
    }

    #[test]
    fn both_layouts_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for (root, files) in [
            ("old", ["boot/vmlinuz-6.1", "lib/modules/6.1/kernel/a.ko", "bin/busybox"]),
            ("new", ["usr/lib/modules/7/vmlinuz", "usr/lib/modules/7/kernel/a", "usr/bin/busybox"]),
        ] {
            let root = folder.path().join(root);
            assert!(places(&root).is_none());
            for file in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, b"").unwrap();
            }
            assert!(places(&root).is_some_and(|found| found.image.is_file()));
        }
    }
}
