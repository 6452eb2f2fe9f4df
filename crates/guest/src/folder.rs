// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache's folders: made if missing, and refused if another user can change them.
//!
//! Files in these folders are executed: kernels in guests; apt's configuration and busybox on this
//! machine, as root if root runs this program. [`TrustedFolder`] decides which folders are trusted.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use pagewise_observe::TrustedFolder;
use rustix::fs::Mode;

use crate::error::Error;

/// An open folder: it stays the same folder even if its path is replaced.
#[derive(Debug)]
pub(crate) struct Folder(TrustedFolder);

impl Folder {
    /// Opens the folder of this path. If it is missing, it is made with its missing parents,
    /// accessible by this user only.
    pub(crate) fn make(path: &Path) -> Result<Self, Error> {
        Ok(Self(TrustedFolder::open_or_make(path, make)?))
    }

    /// Opens a folder below this one; makes the folder if it is missing.
    pub(crate) fn subfolder(&self, name: &str) -> Result<Self, Error> {
        Ok(Self(self.0.open_subfolder(name, make)?))
    }

    /// Opens an existing folder in this one; refuses a symbolic link.
    pub(crate) fn child(&self, name: &str) -> Result<Self, Error> {
        Ok(Self(self.0.child(name)?))
    }

    /// Path of the folder, with symbolic links resolved.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Opens a regular file below this folder that no other user can change. The path must have no
    /// symbolic links.
    pub(crate) fn open(&self, below: &Path) -> io::Result<File> {
        self.0.open_file(below)
    }
}

fn make(below: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    rustix::fs::mkdirat(below, name, Mode::RWXU)
}

#[cfg(test)]
mod tests {
    use pagewise_model::Advice;

    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_refusal_says_what_it_is_about_and_the_way_on() {
        let top = tempfile::tempdir().unwrap();
        let (open, inner) = (top.path().join("open"), top.path().join("open/a/cache"));
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        for path in [&inner, &open] {
            let error = Folder::make(path).unwrap_err().with_variable("HOME");
            let text = error.to_string();
            assert!(text.starts_with(&format!("{} cannot hold", open.display())), "{text}");
            assert!(text.contains("its mode is 0777"), "{text}");
            let next = error.next().unwrap();
            assert!(next.contains("PAGEWISE_CACHE") && next.contains("HOME led to"), "{next}");
            assert!(next.contains(&format!("chmod go-w {}", open.display())), "{next}");
        }
    }
}
