// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs to completion and returns what they printed.

use std::process::Command;

/// The result of running a program.
#[derive(Debug)]
pub struct ProgramRun {
    /// The exit status of the program.
    pub status: i32,
    /// What the program wrote to standard output.
    pub out: String,
    /// What the program wrote to standard error.
    pub err: String,
}

/// Runs a command to completion.
///
/// # Panics
///
/// If it does not start, is ended by a signal, or prints text that is not UTF-8.
pub fn finish(command: &mut Command) -> ProgramRun {
    let ended = command.output().expect("it starts");
    ProgramRun {
        status: ended.status.code().expect("no signal"),
        out: String::from_utf8(ended.stdout).expect("text"),
        err: String::from_utf8(ended.stderr).expect("text"),
    }
}

/// A temporary folder, which is removed with the returned value.
///
/// # Panics
///
/// If none can be created.
#[must_use]
pub fn empty_folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Creates a temporary folder on a disk (swap files need one), with only root's folders above it: a
/// clone of the project may belong to a user, and root does not trust journals below such a folder.
///
/// # Panics
///
/// If none can be created.
#[must_use]
pub fn folder_on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a folder")
}
