// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages of a Debian suite, fetched into a private folder.
//!
//! apt does the work, with package lists, archives and a configuration of its own, from the mirror
//! that this machine's apt uses. It verifies the lists with the Debian keyring. Its list of
//! installed packages is empty, and it runs no maintainer scripts.
//!
//! If root starts apt, apt downloads as its own user (`_apt`), who cannot reach a folder below
//! /root. In that case apt works in a new folder in /var/tmp that belongs to root; a symbolic link
//! in the private folder points to it, so that the next run finds and removes the folder even after
//! a kill. Files downloaded there are not trusted: each package is copied into the private folder,
//! and the SHA-256 of the copy is compared with the one in the signed lists.

#![expect(
    clippy::disallowed_methods,
    reason = "the command goes to program.rs, which lets it end with its parent"
)]

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use pagewise_model::Name;

use crate::error::{Error, ErrorContext};
use crate::files;
use crate::folder::Folder;
use crate::program;
use crate::user;

const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// An apt with its own configuration, lists and archives below one folder.
#[derive(Debug)]
pub(crate) struct Apt {
    folder: PathBuf,
    /// Folder with the packages whose SHA-256 was compared with the lists.
    compared: PathBuf,
    /// The user that apt's download methods run as.
    fetcher: Fetcher,
}

/// A package as `apt-get --print-uris` prints it from the signed lists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    file: String,
    size: u64,
    sha256: String,
}

/// A downloaded package whose checksum is the one in the signed lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Archive {
    /// Path of the file in the private folder.
    pub(crate) path: PathBuf,
    /// Name and version of the package: `name_version`.
    pub(crate) name: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub(crate) sha256: String,
}

/// The user that apt's download methods run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetcher {
    /// The user of this process: apt changes to its own user only if root starts it.
    Ourselves,
    /// Apt's own user, with this user id.
    Sandboxed(u32),
    /// Root: in this user namespace apt's own user has no uid, so changing to it would fail.
    Root,
}

impl Apt {
    /// Sets up apt below the private folder `ours` and downloads the package lists of the suite.
    pub(crate) fn for_suite(suite: &str, ours: &Path) -> Result<Self, Error> {
        program::find("apt-get", "apt")?;
        program::find("dpkg-deb", "dpkg")?;
        let fetcher = Fetcher::detect()?;
        let folder = match fetcher {
            Fetcher::Sandboxed(_) => make_reachable(ours)?,
            Fetcher::Ourselves | Fetcher::Root => ours.join(NAME),
        };
        let compared = ours.join("archives");
        for part in ["lists/partial", "archives/partial", "empty", "fetched"] {
            let part = folder.join(part);
            DirBuilder::new().recursive(true).mode(0o755).create(&part).with_path(&part)?;
        }
        files::make_folder(&compared)?;
        let fetched = folder.join("fetched");
        if let Fetcher::Sandboxed(user) = fetcher {
            chown(&fetched, Some(user), None).with_path(&fetched)?;
        }
        let apt = Self { folder, compared, fetcher };
        let source =
            format!("deb [signed-by={}] {} {suite} main\n", find_keyring()?, find_mirror()?);
        for (name, text) in [
            ("status", String::new()),
            ("sources.list", source),
            ("apt.conf", apt.render_configuration()),
        ] {
            files::write(&apt.folder.join(name), text.as_bytes(), 0o644)?;
        }
        apt.run("apt-get", &["--quiet=2", "update"])?;
        Ok(apt)
    }

    /// Contents of apt's configuration file. Every path that apt would take from the system is
    /// redirected below the folder, and no hooks run after apt. A list that cannot be fetched is an
    /// error; by default apt would treat it as empty. `ForceHash` makes `install --print-uris`
    /// print SHA-256; otherwise it prints an MD5 sum if the lists have one.
    fn render_configuration(&self) -> String {
        let user = match self.fetcher {
            Fetcher::Root => "APT::Sandbox::User \"root\";\n",
            Fetcher::Ourselves | Fetcher::Sandboxed(_) => "",
        };
        let at = self.folder.display();
        format!(
            "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"{at}/empty\";\n\
             Dir::Etc::preferences \"{at}/empty/none\";\nDir::Etc::preferencesparts \"{at}/empty\";\n\
             Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\n\
             Dir::Cache \"{at}\";\nDir::Cache::archives \"{at}/archives\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n\
             Acquire::ForceHash \"SHA256\";\n\
             APT::Update::Error-Mode \"any\";\n{user}\
             #clear APT::Architectures;\nAPT::Architectures {{ \"amd64\"; }};\n\
             APT::Architecture \"amd64\";\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Post-Invoke;\n\
             #clear DPkg::Pre-Install-Pkgs;\n"
        )
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(self.folder.join("apt.conf")).args(arguments);
        command.current_dir(self.folder.join("fetched")).env("LC_ALL", "C.UTF-8");
        program::output(program, &mut command)
    }

    /// Downloads these packages without their dependencies, sorted by name.
    pub(crate) fn download(&self, packages: &[String]) -> Result<Vec<Archive>, Error> {
        let names = packages.iter().map(String::as_str);
        let words: Vec<&str> = ["--quiet=2", "download"].into_iter().chain(names).collect();
        self.run_download(&words, "fetched")
    }

    /// Downloads these packages and everything they depend on, as for a system on which no package
    /// is installed.
    pub(crate) fn download_closure(&self, packages: &[&str]) -> Result<Vec<Archive>, Error> {
        let how = ["--quiet=2", "--yes", "--no-install-recommends", "--download-only", "install"];
        self.run_download(&[&how[..], packages].concat(), "archives")
    }

    fn run_download(&self, words: &[&str], folder: &str) -> Result<Vec<Archive>, Error> {
        let listed = self.run("apt-get", &[&["--print-uris"], words].concat())?;
        let listed = parse_listed(&listed)?;
        self.run("apt-get", words)?;
        let folder = self.folder.join(folder);
        let mut archives = Vec::new();
        for one in &listed {
            archives.push(self.compare(&folder, one)?);
        }
        archives.sort();
        Ok(archives)
    }

    /// Copies a downloaded package into the private folder. Fails if its size or SHA-256 is not the
    /// listed one.
    fn compare(&self, folder: &Path, listed: &Listed) -> Result<Archive, Error> {
        let (from, to) = (folder.join(&listed.file), self.compared.join(&listed.file));
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
        let source = File::options().read(true).custom_flags(flags).open(&from).with_path(&from)?;
        let mut copy = Copy { to: File::create_new(&to).with_path(&to)?, hash: Sha256::new() };
        // Reading one byte more than the listed size is enough to notice a file that is too long.
        let size = std::io::copy(&mut source.take(listed.size.saturating_add(1)), &mut copy)
            .with_path(&to)?;
        let sha256 = files::hex_digits(&copy.hash.finalize());
        let name = package_name(&from).filter(|_| size == listed.size && sha256 == listed.sha256);
        let name = name.ok_or_else(|| Error::Unusable {
            path: from,
            what: format!(
                "not the package of the signed lists: expected {} bytes with SHA-256 {}, found {sha256}",
                listed.size, listed.sha256
            ),
        })?;
        Ok(Archive { path: to, name, sha256 })
    }
}

/// A writer that also hashes what it writes.
struct Copy {
    to: File,
    hash: Sha256,
}

impl Write for Copy {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// Parses the packages that `--print-uris` prints.
///
/// # Errors
/// If the text lists no package, or if the line of a package has no SHA-256: if that package were
/// skipped, it would be missing in the kernel or userland that is made of the packages.
fn parse_listed(text: &str) -> Result<Vec<Listed>, Error> {
    let failed =
        |message: String| Error::Failed { program: "apt-get --print-uris".to_owned(), message };
    let mut listed = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('\'')) {
        let package = parse_line(line);
        let unknown =
            || format!("expected 'URI' FILE SIZE SHA256:DIGITS, found {}", Name::from(line));
        listed.push(package.ok_or_else(|| failed(unknown()))?);
    }
    if listed.is_empty() {
        return Err(failed("no packages".to_owned()));
    }
    Ok(listed)
}

/// Parses `'URI' FILE SIZE SHA256:DIGITS`, one line of `--print-uris`.
fn parse_line(line: &str) -> Option<Listed> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, file, size, sum] = words[..] else { return None };
    let sha256 = sum.strip_prefix("SHA256:")?.to_owned();
    let is_name = !file.contains('/') && file.ends_with(".deb");
    let (size, file) = (size.parse().ok()?, file.to_owned());
    is_name.then_some(Listed { file, size, sha256 })
}

impl Fetcher {
    fn detect() -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let mut command = Command::new("apt-config");
        let output = program::output("apt-config", command.args(["dump", "APT::Sandbox::User"]))?;
        let name = output.split('"').nth(1).unwrap_or_default();
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Ok(match user::uid_of_account(name, &accounts) {
            Some(number) if number != 0 && !user::is_mapped_here(number) => Self::Root,
            Some(number) if number != 0 => Self::Sandboxed(number),
            // Either this system has no user `_apt`, and apt fails with a message, or apt is
            // configured to stay root.
            _ => Self::Ourselves,
        })
    }
}

/// Name of apt's folder below the private folder, or of the link to it.
const NAME: &str = "apt";
const PREFIX: &str = "pagewise-apt-";

/// Makes a world-readable folder on disk, and a link to it in the private folder. The link is made
/// first, so that a kill between the two leaves no folder that nothing points to.
fn make_reachable(ours: &Path) -> Result<PathBuf, Error> {
    let Some(parent) = files::find_folder_on_disk() else { return Ok(ours.join(NAME)) };
    let folder = parent.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
    let link = ours.join(NAME);
    symlink(&folder, &link).with_path(&link)?;
    let folder = Folder::make(&folder)?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).with_path(folder.path())?;
    Ok(folder.path().to_owned())
}

/// Removes the folder that the link in the private folder points to.
pub(crate) fn discard(ours: &Path) -> Result<(), Error> {
    let Ok(folder) = fs::read_link(ours.join(NAME)) else { return Ok(()) };
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_apts =
        name.starts_with(PREFIX) && folder.parent() == files::find_folder_on_disk().as_deref();
    if is_apts { files::remove_folder(&folder) } else { Ok(()) }
}

/// Name and version of a package from the path of its file: `…/name_version_amd64.deb` becomes
/// `name_version`.
fn package_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".deb")?;
    name.rsplit_once('_').map(|(name, _)| name.replace("%3a", ":"))
}

fn find_keyring() -> Result<&'static str, Error> {
    let found = KEYRINGS.into_iter().find(|path| Path::new(path).is_file());
    found.ok_or_else(|| Error::Missing {
        program: "the Debian keyring".to_owned(),
        package: "debian-archive-keyring",
    })
}

/// URI of the mirror of the first Debian archive among apt's own sources. Archives of others do not
/// have the packages of every suite.
fn find_mirror() -> Result<String, Error> {
    let mut command = Command::new("apt-get");
    let format = "$(LABEL)\t$(REPO_URI)";
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let found = program::output("apt-get", &mut command)?;
    let mirror = found.lines().find_map(|line| line.strip_prefix("Debian\t"));
    mirror.map(str::to_owned).ok_or_else(|| Error::Failed {
        program: "apt-get".to_owned(),
        message: "no Debian archive among this machine's sources, or no lists yet (apt-get update)"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_with_their_version() {
        let path = Path::new("/x/busybox-static_1%3a1.35.0-4_amd64.deb");
        assert_eq!(package_name(path).as_deref(), Some("busybox-static_1:1.35.0-4"));
        assert_eq!(package_name(Path::new("/x/partial")), None);
    }

    #[test]
    fn the_lists_name_file_size_and_sum() {
        let line =
            "'http://mirror.test/debian/pool/a_1%3a2_amd64.deb' a_1%3a2_amd64.deb 7 SHA256:00ff";
        let (file, sha256) = ("a_1%3a2_amd64.deb".to_owned(), "00ff".to_owned());
        let listed = Listed { file, size: 7, sha256 };
        let text = format!("Reading package lists...\n{line}\n{line}\n");
        assert_eq!(parse_listed(&text).unwrap(), [listed.clone(), listed]);
        for other in [
            "'u' a_1_amd64.deb 7 MD5Sum:00ff",
            "'u' ../a_1_amd64.deb 7 SHA256:00ff",
            "'u' a_1_amd64.deb x SHA256:00ff",
        ] {
            let error = parse_listed(&format!("{line}\n{other}\n")).unwrap_err().to_string();
            assert!(error.contains(other), "{error}");
        }
        for nothing in ["", "Reading package lists...\n"] {
            assert!(parse_listed(nothing).unwrap_err().to_string().ends_with("no packages"));
        }
    }

    #[test]
    fn only_a_package_as_it_is_listed_is_taken() {
        let top = tempfile::tempdir().unwrap();
        let compared = top.path().join("compared");
        fs::create_dir(&compared).unwrap();
        let folder = top.path().to_owned();
        let apt = Apt { folder: folder.clone(), compared, fetcher: Fetcher::Ourselves };
        fs::write(folder.join("a_1_amd64.deb"), b"package").unwrap();
        let sha256 = files::hex_digits(&Sha256::digest(b"package"));
        let listed =
            |file: &str, size| Listed { file: file.to_owned(), size, sha256: sha256.clone() };
        let taken = apt.compare(&folder, &listed("a_1_amd64.deb", 7)).unwrap();
        assert_eq!((taken.name.as_str(), &taken.sha256), ("a_1", &sha256));
        assert_eq!(fs::read(&taken.path).unwrap(), b"package");
        // three packages as if they were replaced after apt checked them: changed, made longer,
        // replaced by a link
        fs::write(folder.join("b_1_amd64.deb"), b"packagf").unwrap();
        fs::write(folder.join("c_1_amd64.deb"), b"package and more").unwrap();
        symlink("a_1_amd64.deb", folder.join("d_1_amd64.deb")).unwrap();
        for (name, told) in [("b", "signed lists"), ("c", "signed lists"), ("d", "d_1_amd64.deb")] {
            let error =
                apt.compare(&folder, &listed(&format!("{name}_1_amd64.deb"), 7)).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
        }
    }

    #[test]
    fn what_a_link_of_ours_leads_to_is_removed_if_it_is_apts() {
        let ours = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path(), ours.path().join(NAME)).unwrap();
        discard(ours.path()).unwrap();
        assert!(other.path().exists());
        fs::remove_file(ours.path().join(NAME)).unwrap();
        let made = make_reachable(ours.path()).unwrap();
        assert!(made.is_dir() && ours.path().join(NAME).join(".").is_dir());
        discard(ours.path()).unwrap();
        assert!(!made.exists());
        discard(ours.path()).unwrap();
    }
}
