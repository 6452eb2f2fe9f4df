// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a disk with a small systemd system of a Debian suite: redis-server, zram-generator, udev,
//! procps.
//!
//! The suite determines the packages: those that it marks as essential, those named here, and all
//! their dependencies. They are unpacked, not installed; tree.rs does the necessary part of the
//! work of their maintainer scripts.
//!
//! A guest runs on a copy-on-write view of the disk: its changes go to the run's folder. The
//! alternative, a tmpfs as overlay on a read-only disk, would keep every written page in the
//! guest's memory. Guests are used to test memory, and on a disk written pages are written back and
//! dropped, as on a real machine.

#![expect(
    clippy::disallowed_methods,
    reason = "a root file system is written, and packed by programs of the host"
)]

mod image;
mod tree;
mod users;

use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use crate::apt::{Apt, Archive};
use crate::error::Error;
use crate::files;
use crate::item::Item;
use crate::program;

/// Version of the steps that make a disk. Increase it with any change here or in [`tree`] that
/// affects the disk, so that disks of an older version are made again.
pub(crate) const RECIPE: u32 = 3;

/// Packages of the userland. The first is apt's pattern for all essential packages.
const PACKAGES: &[&str] = &[
    "?essential",
    "systemd",
    "udev",
    "mount",
    "procps",
    "util-linux",
    "kmod",
    "redis-server",
    "systemd-zram-generator",
];

/// Packages that set up swap at every boot. A guest that reboots is used to test settings that
/// other programs write to /etc, so it has only those of these packages that the user names.
pub(crate) const OPTIONAL: &[&str] = &["systemd-zram-generator"];

/// Name of the folder of an entry with a list of files for each optional package.
pub(crate) const LISTS: &str = "optional";

/// Kernel modules that systemd would load itself. PID 1 loads them before systemd starts, because
/// the guest has no folder of modules.
pub(crate) const MODULES: &[&str] = &["ext4", "autofs4"];

/// Kernel modules for mounting the root disk in a guest that reboots; systemd loads all others from
/// the disk.
pub(crate) const ROOT_MODULES: &[&str] = &["ext4"];

/// Additional kernel modules on the disk of a guest that reboots: they are needed for disks in
/// files.
pub(crate) const DISK_MODULES: &[&str] = &["loop"];

/// File name of the root disk in a userland's folder of the cache.
pub(crate) const DISK: &str = "disk";

/// The system in which a guest's command runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Userland {
    /// busybox only, with this program as PID 1.
    #[default]
    Minimal,
    /// The userland of this suite, with systemd as PID 1.
    Systemd(String),
}

/// The suite of which a userland is made by default.
const SUITE: &str = "trixie";

impl FromStr for Userland {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("minimal", _) => Ok(Self::Minimal),
            ("systemd", _) => Ok(Self::Systemd(SUITE.to_owned())),
            (_, Ok(Item::Userland(suite))) => Ok(Self::Systemd(suite)),
            _ => Err(format!("expected minimal, systemd or systemd/SUITE, found {text:?}")),
        }
    }
}

impl Userland {
    /// Default time limit for the start of a guest, and also for its command. A guest with systemd
    /// gets more time.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        match self {
            Self::Minimal => Duration::from_secs(120),
            Self::Systemd(_) => Duration::from_secs(300),
        }
    }

    /// Time limit for the machine to end after the command. A guest with systemd gets more time,
    /// because systemd first stops its units.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Minimal => Duration::from_secs(5),
            Self::Systemd(_) => Duration::from_secs(30),
        }
    }

    /// The userland's item in the cache.
    pub(crate) fn item(&self) -> Option<Item> {
        match self {
            Self::Minimal => None,
            Self::Systemd(suite) => Some(Item::Userland(suite.clone())),
        }
    }
}

/// Makes the disk of a userland in the folder `entry`: fetches and unpacks the packages, and
/// completes the system. Returns the version of systemd, and the packages.
pub(crate) fn make(
    suite: &str,
    aside: &Path,
    entry: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(String, Vec<Archive>), Error> {
    tell(&format!("systemd/{suite}: fetching the lists of packages"));
    let apt = Apt::for_suite(suite, aside)?;
    tell(&format!("systemd/{suite}: fetching {}", PACKAGES[1..].join(", ")));
    let archives = apt.download_closure(PACKAGES)?;
    tell(&format!("systemd/{suite}: unpacking {} packages", archives.len()));
    let root = aside.join("root");
    tree::prepare(&root)?;
    for archive in &archives {
        unpack(&archive.path, &root)?;
    }
    write_lists(&archives, entry)?;
    let owned = tree::complete(&root)?;
    tell(&format!("systemd/{suite}: making the disk"));
    image::make(&root, &entry.join(DISK), &owned)?;
    Ok((release_of_systemd(&archives), archives))
}

/// Writes the lists of the optional packages' files.
fn write_lists(archives: &[Archive], entry: &Path) -> Result<(), Error> {
    files::make_folder(&entry.join(LISTS))?;
    for name in OPTIONAL {
        let begin = format!("{name}_");
        let mut text = String::new();
        for archive in archives.iter().filter(|one| one.name.starts_with(&begin)) {
            let mut deb = Command::new("dpkg-deb");
            let listed = program::output("dpkg-deb", deb.arg("--contents").arg(&archive.path))?;
            text.extend(listed.lines().filter_map(file_of_line).map(|path| path + "\n"));
        }
        files::write(&entry.join(LISTS).join(name), text.as_bytes(), 0o600)?;
    }
    Ok(())
}

/// Parses a line of the package's contents such as `-rw-r--r-- root/root 1234 2024-01-01 00:00
/// ./usr/lib/file`; skips folders, and omits the target of a link.
fn file_of_line(line: &str) -> Option<String> {
    let (about, path) = line.split_once(" ./")?;
    let path = path.split(" -> ").next()?.split(" link to ").next()?;
    (!about.starts_with('d')).then(|| path.to_owned())
}

/// Name and version of systemd, from the list of packages: `systemd 257.13-1~deb13u1` for
/// `systemd_257.13-1~deb13u1`.
fn release_of_systemd(packages: &[Archive]) -> String {
    let found = packages.iter().find(|one| one.name.starts_with("systemd_"));
    found.map_or_else(|| "systemd".to_owned(), |one| one.name.replacen('_', " ", 1))
}

/// Unpacks a package with tar, because `dpkg-deb --extract` would replace a symbolic link to a
/// folder by a folder.
fn unpack(archive: &Path, root: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Failed {
        program: "dpkg-deb".to_owned(),
        message: error.to_string(),
    };
    let mut deb = program::command_killed_with_parent("dpkg-deb".as_ref())?;
    deb.arg("--fsys-tarfile").arg(archive).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut deb = deb.stderr(Stdio::null()).spawn().map_err(failed)?;
    let unpacked = match deb.stdout.take() {
        Some(pipe) => run_tar(root, pipe.into()),
        None => Ok(()),
    };
    let ended = deb.wait().map_err(failed)?;
    // If one of the two programs fails, so does the other. The error of tar is preferred: tar
    // writes the files, so it is tar that notices a full disk.
    let why = match unpacked {
        Ok(()) if ended.success() => return Ok(()),
        Ok(()) => ended.to_string(),
        Err(error) => error.to_string(),
    };
    let what = format!("this package cannot be unpacked: {why}");
    Err(Error::Unusable { path: archive.to_owned(), what })
}

fn run_tar(root: &Path, input: Stdio) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file=-", "--preserve-permissions", "--no-same-owner"]);
    tar.arg("--keep-directory-symlink").arg("--directory").arg(root);
    program::output_of("tar", &tar, input).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userlands_are_told_apart() {
        assert_eq!("minimal".parse(), Ok(Userland::Minimal));
        assert_eq!("systemd".parse(), Ok(Userland::Systemd("trixie".to_owned())));
        assert_eq!("systemd/sid".parse(), Ok(Userland::Systemd("sid".to_owned())));
        for bad in ["", "systemd/", "systemd/../x", "trixie", "Systemd"] {
            assert!(bad.parse::<Userland>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_files_of_a_package_are_listed_without_its_folders() {
        let line = |text: &str| file_of_line(text);
        assert_eq!(line("drwxr-xr-x root/root  0 2024-01-01 00:00 ./usr/lib/"), None);
        let file = "-rwxr-xr-x root/root 9 2024-01-01 00:00 ./usr/lib/a b";
        assert_eq!(line(file), Some("usr/lib/a b".to_owned()));
        let link = "lrwxrwxrwx root/root 0 2024-01-01 00:00 ./usr/lib/c -> ../d";
        assert_eq!(line(link), Some("usr/lib/c".to_owned()));
        assert_eq!(line("dpkg-deb: warning"), None);
    }

    #[test]
    fn the_release_is_that_of_systemd_itself() {
        let packages = ["libsystemd0_1", "systemd_257.13-1", "systemd-zram-generator_1.2"];
        let archive = |name: &str| Archive {
            path: name.into(),
            name: name.to_owned(),
            sha256: String::new(),
        };
        assert_eq!(release_of_systemd(&packages.map(archive)), "systemd 257.13-1");
    }

    #[test]
    fn what_is_no_package_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a_1_all.deb");
        std::fs::write(&path, b"no package").unwrap();
        let error = unpack(&path, folder.path()).unwrap_err();
        assert!(error.to_string().contains("a_1_all.deb"), "{error}");
    }
}
