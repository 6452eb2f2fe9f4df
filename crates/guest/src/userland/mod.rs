// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Debian suite → a disk with a small systemd system: redis-server, zram-generator, udev, procps.
//!
//! Which packages that takes is for the suite to say: those it calls essential, those named here,
//! and all they depend on. They are unpacked, not installed: what their scripts would have done is
//! in tree.rs.
//!
//! A guest starts from a copy of the disk that QEMU makes as it writes: what the guest writes goes to
//! the run's folder. The other way, a tmpfs laid over a disk that is only read, would keep every
//! written page in the guest's memory, and a guest is there to try memory: on a disk written pages
//! are written back and dropped, as on a real machine.

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

/// What a disk is made by: raise it with whatever makes disks different, here or in [`tree`]; those
/// that were made otherwise are made again.
pub(crate) const RECIPE: u32 = 3;

/// What it is for. The first is apt's way to say what no Debian system is without.
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

/// Packages that set swap up by themselves at every start. A guest that reboots is there to try what
/// somebody else writes to /etc, so it has only those that its user names.
pub(crate) const OPTIONAL: &[&str] = &["systemd-zram-generator"];

/// The folder that has, for each optional package, a list of its files.
pub(crate) const LISTS: &str = "optional";

/// What systemd would load itself, where it is a module: a guest has only those that were loaded.
pub(crate) const MODULES: &[&str] = &["ext4", "autofs4"];

/// What a guest that reboots needs to mount its root disk; systemd finds all else on the disk.
pub(crate) const ROOT_MODULES: &[&str] = &["ext4"];

/// What such a guest finds on its disk, beside what others get: for disks in files.
pub(crate) const DISK_MODULES: &[&str] = &["loop"];

/// The disk's name in its folder.
pub(crate) const DISK: &str = "disk";

/// What a guest's command finds around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Userland {
    /// busybox, and PID 1 of ours.
    #[default]
    Minimal,
    /// The system of this suite, with systemd as PID 1.
    Systemd(String),
}

/// The suite whose system is meant where none is named.
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
    /// How long a guest with it may take to start, and the command in it to end, where nobody says so:
    /// systemd takes its time.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        match self {
            Self::Minimal => Duration::from_secs(120),
            Self::Systemd(_) => Duration::from_secs(300),
        }
    }

    /// How long the machine may take to end once the command has: systemd stops what it started.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Minimal => Duration::from_secs(5),
            Self::Systemd(_) => Duration::from_secs(30),
        }
    }

    /// What it is in the cache.
    pub(crate) fn item(&self) -> Option<Item> {
        match self {
            Self::Minimal => None,
            Self::Systemd(suite) => Some(Item::Userland(suite.clone())),
        }
    }
}

/// Fetches, unpacks and completes the system; the disk is then in `entry`. Answers which systemd it
/// is, and the packages.
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
    keep_lists(&archives, entry)?;
    let owned = tree::complete(&root)?;
    tell(&format!("systemd/{suite}: making the disk"));
    image::make(&root, &entry.join(DISK), &owned)?;
    Ok((release(&archives), archives))
}

/// The lists of the optional packages' files.
fn keep_lists(archives: &[Archive], entry: &Path) -> Result<(), Error> {
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

/// `-rw-r--r-- root/root 1234 2024-01-01 00:00 ./usr/lib/file`; folders are left out, and of a link what it
/// leads to.
fn file_of_line(line: &str) -> Option<String> {
    let (about, path) = line.split_once(" ./")?;
    let path = path.split(" -> ").next()?.split(" link to ").next()?;
    (!about.starts_with('d')).then(|| path.to_owned())
}

/// `systemd_257.13-1~deb13u1` → `systemd 257.13-1~deb13u1`.
fn release(packages: &[Archive]) -> String {
    let found = packages.iter().find(|one| one.name.starts_with("systemd_"));
    found.map_or_else(|| "systemd".to_owned(), |one| one.name.replacen('_', " ", 1))
}

/// dpkg-deb's own way to unpack would replace a link to a folder by the folder.
fn unpack(archive: &Path, root: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Failed {
        program: "dpkg-deb".to_owned(),
        message: error.to_string(),
    };
    let mut deb = program::leashed("dpkg-deb".as_ref())?;
    deb.arg("--fsys-tarfile").arg(archive).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut deb = deb.stderr(Stdio::null()).spawn().map_err(failed)?;
    let unpacked = match deb.stdout.take() {
        Some(pipe) => tar(root, pipe.into()),
        None => Ok(()),
    };
    let ended = deb.wait().map_err(failed)?;
    // Each fails where the other does: tar, which writes, knows more of a full disk.
    let why = match unpacked {
        Ok(()) if ended.success() => return Ok(()),
        Ok(()) => ended.to_string(),
        Err(error) => error.to_string(),
    };
    let what = format!("this package cannot be unpacked: {why}");
    Err(Error::Unusable { path: archive.to_owned(), what })
}

fn tar(root: &Path, input: Stdio) -> Result<(), Error> {
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
        assert_eq!(release(&packages.map(archive)), "systemd 257.13-1");
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
