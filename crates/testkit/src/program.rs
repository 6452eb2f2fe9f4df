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
/// If the command does not start, is killed by a signal, or prints text that is not UTF-8.
pub fn finish(command: &mut Command) -> ProgramRun {
    let ended = command.output().expect("it starts");
    ProgramRun {
        status: ended.status.code().expect("no signal"),
        out: String::from_utf8(ended.stdout).expect("text"),
        err: String::from_utf8(ended.stderr).expect("text"),
    }
}

/// Creates a temporary folder, which is removed when the returned value is dropped.
///
/// # Panics
///
/// If no folder can be created.
#[must_use]
pub fn empty_folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Creates a temporary folder on a disk, which swap files need, and below folders that belong to
/// root: root does not trust journals below a folder of another user, to whom a clone of the
/// project may belong.
///
/// # Panics
///
/// If no folder can be created.
#[must_use]
pub fn folder_on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a folder")
}
