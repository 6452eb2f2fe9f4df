// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the built program.

use std::path::Path;
use std::process::Command;

pub(crate) use pagewise_testkit::{ProgramRun, empty_folder, finish};

/// The program with these arguments, without the caller's colour settings. As root, waits for its
/// turn to change the machine.
pub(crate) fn pagewise(arguments: &[&str]) -> Command {
    pagewise_testkit::take_turn();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.args(arguments);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs it to completion.
pub(crate) fn run(arguments: &[&str]) -> ProgramRun {
    finish(&mut pagewise(arguments))
}

/// Runs it to completion in a folder.
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> ProgramRun {
    finish(pagewise(arguments).current_dir(folder))
}
