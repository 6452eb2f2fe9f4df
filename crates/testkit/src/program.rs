// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs to their end.

use std::process::Command;

/// What a run left behind.
#[derive(Debug)]
pub struct ProgramRun {
    /// Its exit status.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a command to its end.
///
/// # Panics
///
/// Where it does not start, is ended by a signal, or prints what is not UTF-8.
pub fn finish(command: &mut Command) -> ProgramRun {
    let ended = command.output().expect("it starts");
    ProgramRun {
        status: ended.status.code().expect("no signal"),
        out: String::from_utf8(ended.stdout).expect("text"),
        err: String::from_utf8(ended.stderr).expect("text"),
    }
}

/// A folder that vanishes with the test.
///
/// # Panics
///
/// Where there can be none.
#[must_use]
pub fn empty_folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The same on a disk, as swap files need, and below no folder but root's: a clone of the project may
/// belong to a user, and journals that root believes may not lie there.
///
/// # Panics
///
/// Where there can be none.
#[must_use]
pub fn folder_on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a folder")
}
