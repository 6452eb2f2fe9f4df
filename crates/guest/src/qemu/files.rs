// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that QEMU is given open, as it may run as a user who could not open them itself.
//!
//! QEMU finds each under `/dev/fdset/N`. It opens a disk to read before it opens it to write, and takes
//! an open file only as it was opened: a set may hold one for each.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};

/// The sets so far.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: Vec<OwnedFd>,
    arguments: Vec<OsString>,
    sets: usize,
}

impl OpenFiles {
    /// One file, once or twice; answers the name under which QEMU finds it.
    pub(super) fn add(&mut self, files: impl IntoIterator<Item = OwnedFd>) -> String {
        self.sets += 1;
        for file in files {
            let set = format!("fd={},set={}", file.as_raw_fd(), self.sets);
            self.arguments.extend(["-add-fd".into(), set.into()]);
            self.files.push(file);
        }
        format!("/dev/fdset/{}", self.sets)
    }

    /// QEMU's options, and the files, which must have the same numbers there.
    pub(super) fn into_parts(self) -> (Vec<OsString>, Vec<OwnedFd>) {
        (self.arguments, self.files)
    }
}
