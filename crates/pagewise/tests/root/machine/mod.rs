// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Temporary changes that a test makes to the machine, and running pagewise there.

pub(crate) mod lender;
mod place;

use std::process::{Command, Output};

pub(crate) use pagewise_testkit::{Lent, Loans, Thing, note_made, read, run, take_turn, write};
pub(crate) use place::{Place, said};

/// Runs pagewise, with any exit status.
pub(crate) fn pagewise(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagewise")).args(arguments).output().expect("built by cargo")
}

/// Runs pagewise as the user nobody, from a copy, because the project may be in a folder that only
/// root can enter.
pub(crate) fn output_as_nobody(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("what tests need");
    let copy = folder.path().join("pagewise");
    std::fs::copy(env!("CARGO_BIN_EXE_pagewise"), &copy).expect("what tests need");
    run("chmod", &["-R", "a+rX", folder.path().to_str().expect("what tests need")]);
    Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(copy)
        .args(arguments)
        .output()
        .expect("what tests need")
}

/// The JSON output of pagewise; its exit status must be one of `allowed`.
pub(crate) fn pagewise_json(arguments: &[&str], allowed: &[i32]) -> serde_json::Value {
    let output = pagewise(arguments);
    let status = output.status.code();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(status.is_some_and(|code| allowed.contains(&code)), "{status:?}: {complaint}");
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}
