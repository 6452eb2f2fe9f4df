// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Debian suite → packages of it, below a folder of ours.
//!
//! apt does the work, with lists, archives and configuration of its own, from the mirror that this
//! machine's apt uses; it verifies with the Debian keyring. It believes that nothing is installed.
//! No maintainer script runs, and nothing outside the folder is written.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{At, Error};
use crate::program;

const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// An apt of its own, below one folder.
#[derive(Debug)]
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Its folder, with the suite's lists.
    pub(crate) fn of(suite: &str, folder: PathBuf) -> Result<Self, Error> {
        program::find("apt-get", "apt")?;
        program::find("dpkg-deb", "dpkg")?;
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
        apt.run("apt-get", &["--quiet=2", "update"])?;
        Ok(apt)
    }

    /// Every path that apt would take from the system is ours, and nothing is run afterwards. Lists
    /// that could not be fetched are an error: without a word they would be empty ones.
    fn settings(&self) -> String {
        let user = env::var("USER").unwrap_or_else(|_| "root".to_owned());
        let at = self.folder.display();
        format!(
            "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"{at}/empty\";\n\
             Dir::Etc::preferences \"{at}/empty/none\";\nDir::Etc::preferencesparts \"{at}/empty\";\n\
             Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\n\
             Dir::Cache \"{at}\";\nDir::Cache::archives \"{at}/archives\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n\
             APT::Update::Error-Mode \"any\";\nAPT::Sandbox::User \"{user}\";\n\
             #clear APT::Architectures;\nAPT::Architectures {{ \"amd64\"; }};\n\
             APT::Architecture \"amd64\";\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Post-Invoke;\n\
             #clear DPkg::Pre-Install-Pkgs;\n"
        )
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.folder.join("apt.conf")).args(arguments);
        command.current_dir(self.folder.join("archives")).env("LC_ALL", "C.UTF-8");
        program::output(program, &mut command)
    }

    /// The packages themselves, without what they depend on.
    pub(crate) fn download(&self, packages: &[String]) -> Result<(), Error> {
        self.run("apt-get", &[&["--quiet=2", "download"][..], &words(packages)].concat())?;
        Ok(())
    }

    /// The packages and all they depend on, as an empty machine would need them.
    pub(crate) fn download_closure(&self, packages: &[&str]) -> Result<(), Error> {
        let how = ["--quiet=2", "--yes", "--no-install-recommends", "--download-only", "install"];
        self.run("apt-get", &[&how[..], packages].concat())?;
        Ok(())
    }

    /// What was downloaded: the files, in the order of their names, and `name_version` of each.
    pub(crate) fn archives(&self) -> Result<Vec<(PathBuf, String)>, Error> {
        let folder = self.folder.join("archives");
        let entries = fs::read_dir(&folder).at(&folder)?.flatten().map(|entry| entry.path());
        let mut found: Vec<(PathBuf, String)> =
            entries.filter_map(|path| package(&path).map(|name| (path, name))).collect();
        found.sort();
        Ok(found)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_with_their_version() {
        let path = Path::new("/x/busybox-static_1%3a1.35.0-4_amd64.deb");
        assert_eq!(package(path).as_deref(), Some("busybox-static_1:1.35.0-4"));
        assert_eq!(package(Path::new("/x/partial")), None);
    }
}
