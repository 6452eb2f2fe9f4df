// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are opened for QEMU, which may run as a user who could not open them.
//!
//! QEMU finds each file as `/dev/fdset/N`. It opens a disk first for reading and then for writing,
//! and each time uses a descriptor that was opened in the same mode. So a set may hold one
//! descriptor for each mode.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};

/// Open files that QEMU inherits, in numbered descriptor sets.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: Vec<OwnedFd>,
    arguments: Vec<OsString>,
    sets: usize,
}

impl OpenFiles {
    /// Adds a set with the descriptors of one file; returns the path under which QEMU finds it.
    pub(super) fn add(&mut self, files: impl IntoIterator<Item = OwnedFd>) -> String {
        self.sets += 1;
        for file in files {
            let set = format!("fd={},set={}", file.as_raw_fd(), self.sets);
            self.arguments.extend(["-add-fd".into(), set.into()]);
            self.files.push(file);
        }
        format!("/dev/fdset/{}", self.sets)
    }

    /// QEMU's options for the sets, and the files: these must have the same descriptor numbers in
    /// QEMU.
    pub(super) fn into_parts(self) -> (Vec<OsString>, Vec<OwnedFd>) {
        (self.arguments, self.files)
    }
}
