// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Debian suite → a disk with a small systemd system: redis-server, zram-generator, udev, procps.
//!
//! Which packages that takes is for the suite to say: those it calls essential, those named here,
//! and all they depend on. They are unpacked, not installed: what their scripts would have done is
//! in [`tree`].

mod image;
mod tree;
mod users;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apt::Apt;
use crate::error::Error;
use crate::program;

/// What it is for. The first is apt's way to say what no Debian system is without.
const PACKAGES: &[&str] = &[
    "?essential",
    "systemd",
    "udev",
    "procps",
    "util-linux",
    "redis-server",
    "systemd-zram-generator",
];

/// The disk's name in its folder.
pub(crate) const DISK: &str = "disk";

/// Fetches, unpacks and completes the system; the disk is then in `entry`. Says which systemd it
/// is, and `name_version` of each package.
pub(crate) fn make(
    suite: &str,
    aside: &Path,
    entry: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(String, Vec<String>), Error> {
    tell(&format!("systemd/{suite}: fetching the lists of packages"));
    let apt = Apt::of(suite, aside.join("apt"))?;
    tell(&format!("systemd/{suite}: fetching {}", PACKAGES[1..].join(", ")));
    apt.download_closure(PACKAGES)?;
    let archives = apt.archives()?;
    tell(&format!("systemd/{suite}: unpacking {} packages", archives.len()));
    let root = aside.join("root");
    tree::prepare(&root)?;
    for (path, _) in &archives {
        unpack(path, &root)?;
    }
    tree::complete(&root)?;
    tell(&format!("systemd/{suite}: making the disk"));
    image::make(&root, &entry.join(DISK))?;
    let packages: Vec<String> = archives.into_iter().map(|(_, name)| name).collect();
    Ok((release(&packages), packages))
}

/// `systemd_257.13-1~deb13u1` → `systemd 257.13-1~deb13u1`.
fn release(packages: &[String]) -> String {
    let found = packages.iter().find(|name| name.starts_with("systemd_"));
    found.map_or_else(|| "systemd".to_owned(), |name| name.replacen('_', " ", 1))
}

/// dpkg-deb's own way to unpack would replace a link to a folder by the folder.
fn unpack(archive: &Path, root: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Failed {
        program: "dpkg-deb".to_owned(),
        said: error.to_string(),
    };
    let mut deb = Command::new("dpkg-deb");
    deb.arg("--fsys-tarfile").arg(archive).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut deb = deb.stderr(Stdio::null()).spawn().map_err(failed)?;
    let unpacked = match deb.stdout.take() {
        Some(pipe) => tar(root, pipe.into()),
        None => Ok(()),
    };
    let ended = deb.wait().map_err(failed)?;
    unpacked?;
    match ended.success() {
        true => Ok(()),
        false => Err(Error::Unusable {
            path: PathBuf::from(archive),
            what: "expected a Debian package".to_owned(),
        }),
    }
}

fn tar(root: &Path, input: Stdio) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file=-", "--preserve-permissions", "--no-same-owner"]);
    tar.arg("--keep-directory-symlink").arg("--directory").arg(root);
    program::output_of("tar", tar.stdin(input)).map(|_| ())
}
