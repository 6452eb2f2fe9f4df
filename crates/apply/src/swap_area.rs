// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap files and devices by descriptor: the file that was checked is the one that is filled,
//! formatted and enabled.
//!
//! `mkswap` overwrites the beginning of a file, and `swapon` makes the kernel write to its blocks.
//! In a folder that another user can write to, that user could put a link in the place of the file
//! between two lookups of its path. So the folder must be one where only we and root can replace
//! our entries, and the file is passed on as an open descriptor.

#![expect(clippy::disallowed_methods, reason = "part of live.rs: swap areas are made here")]

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pagewise_observe::TrustedFolder;
use rustix::fs::{IFlags, Mode, OFlags, fsync, openat};

use crate::calls;
use crate::live::{run_command, why_untrusted};

/// A folder for swap files, and the name of a file in it.
struct Place {
    folder: TrustedFolder,
    name: PathBuf,
}

impl Place {
    /// Fails if another user could replace entries of the folder.
    fn of(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let folder = TrustedFolder::open_for_entries(folder).map_err(|error| {
            let next = "a swap file needs a folder where only root can replace files: set TMPDIR \
                        to one, or unset it";
            io::Error::other(format!("{error:#}: {next}"))
        })?;
        Ok(Self { folder, name: name.into() })
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.folder.handle(), &self.name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(file.into())
    }
}

/// Creates an empty file, which is filled only after the journal has recorded its identity.
pub(crate) fn make_file(path: &str) -> io::Result<()> {
    let place = Place::of(Path::new(path))?;
    let file = place.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    // btrfs cannot swap to a copy-on-write file; other file systems do not know the flag
    if let Ok(flags) = rustix::fs::ioctl_getflags(&file) {
        let _ = rustix::fs::ioctl_setflags(&file, flags | IFlags::NOCOW);
    }
    file.sync_all()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(place.folder.handle(), ".", flags, Mode::empty())?)?)
}

/// Opens a swap file for writing; fails if another user can have written it.
pub(crate) fn open_file(path: &str) -> io::Result<File> {
    let file = Place::of(Path::new(path))?.open(OFlags::WRONLY | OFlags::NONBLOCK)?;
    check_file(&file)?;
    Ok(file)
}

fn check_file(file: &File) -> io::Result<()> {
    match why_untrusted(&file.metadata()?) {
        None => Ok(()),
        Some(why) => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
    }
}

/// Opens a swap file or a block device only to pass it on. Links in /dev are followed: they are
/// root's, and name disks.
fn open_area(area: &str) -> io::Result<File> {
    let path = if area.starts_with("/dev/") { fs::canonicalize(area)? } else { area.into() };
    let file = Place::of(&path)?.open(OFlags::PATH)?;
    if !file.metadata()?.file_type().is_block_device() {
        check_file(&file)?;
    }
    Ok(file)
}

/// Writes a swap header. `mkswap` gets a file as its standard input.
pub(crate) fn format(area: &str) -> io::Result<()> {
    let file = open_area(area)?;
    let mut command = Command::new("mkswap");
    if file.metadata()?.file_type().is_block_device() {
        // mkswap looks for the name among mounted file systems; only root replaces names in /dev
        command.arg(area).stdin(Stdio::null());
    } else {
        command.arg("/proc/self/fd/0").stdin(file);
    }
    run_command(&mut command)
}

/// Enables a file or device as swap. The kernel shows it with its path, not that of the descriptor.
pub(crate) fn enable(area: &str, priority: Option<i16>) -> io::Result<()> {
    let file = open_area(area)?;
    calls::swap_on(&format!("/proc/self/fd/{}", file.as_raw_fd()), priority)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Our own folder, or one of another user or that others may write to: in those, a file could
    /// be replaced between two lookups.
    #[test]
    fn a_swap_file_is_made_only_where_no_other_user_can_replace_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        make_file(&path("first")).unwrap();
        open_file(&path("first")).unwrap();
        open_area(&path("first")).unwrap();

        symlink(path("first"), path("link")).unwrap();
        assert!(open_file(&path("link")).is_err() && open_area(&path("link")).is_err());
        fs::hard_link(path("first"), path("second")).unwrap();
        assert!(open_file(&path("first")).unwrap_err().to_string().contains("hard links"));

        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        for refused in [make_file(&path("new")), open_area(&path("first")).map(drop)] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("others may write there"), "{error}");
        }
        assert!(!Path::new(&path("new")).exists());
    }
}
