// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example programs that cargo builds next to the tests, and what a guest needs to run one.
//!
//! They are linked dynamically, so that they need not be linked again for guests; their libraries
//! are sent into the guest, at the same paths.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_pagewise")).with_file_name("examples").join(name)
}

/// Options of `pagewise lab guest` that send the program into the guest as `/name`.
pub(crate) fn into_guest(name: &str) -> Vec<String> {
    let program = example(name);
    let listed = Command::new("ldd").arg(&program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let path_in =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    let libraries = listed.lines().filter_map(path_in).map(|path| format!("{path}:{path}"));
    let files = libraries.chain([format!("{}:/{name}", program.display())]);
    files.flat_map(|file| ["--file".to_owned(), file]).collect()
}
