// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs commands in guests. `cargo xtask test --root` builds the static program and names it in
//! PAGEWISE_STATIC.

use std::process::Command;

pub(crate) use pagewise_testkit::{Ran, finish};

/// The static program.
pub(crate) fn program() -> Command {
    let path = std::env::var_os("PAGEWISE_STATIC").expect("run by cargo xtask test --root");
    Command::new(path)
}

/// `pagewise lab guest` with these arguments.
pub(crate) fn lab(arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["lab", "guest"]).args(arguments);
    command
}

/// A shell script in a guest.
pub(crate) fn script(options: &[&str], script: &str) -> Ran {
    finish(&mut lab(&[options, &["--", "sh", "-c", script]].concat()))
}

/// One run as --json tells it.
pub(crate) fn run(options: &[&str], command: &[&str]) -> serde_json::Value {
    let ran = finish(&mut lab(&[&["--json"], options, &["--"], command].concat()));
    let document: serde_json::Value = serde_json::from_str(&ran.out)
        .unwrap_or_else(|_| panic!("no document: {} {}", ran.out, ran.err));
    document["runs"][0].clone()
}
