// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the built program.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests start the program and make its input"
)]
#![allow(dead_code, reason = "each test file uses some of it")]

use std::path::Path;
use std::process::Command;

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its exit status.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// The program with these arguments and none of the caller's colour settings.
pub(crate) fn pagewise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.args(arguments);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    finish(&mut pagewise(arguments))
}

/// Runs it to its end in a folder.
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    finish(pagewise(arguments).current_dir(folder))
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Ran {
    let ended = command.output().unwrap();
    Ran {
        status: ended.status.code().unwrap(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// A folder that vanishes with the test.
pub(crate) fn empty_folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A file that only its owner may read.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
