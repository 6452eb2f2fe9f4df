// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments, one a line, given to the program's own table of what can be typed.
//!
//! The table belongs to the program, which is no library: its modules are compiled into this one.

#![allow(dead_code, unused_imports, clippy::allow_attributes, reason = "parsing alone is used")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;

use clap::{Command, CommandFactory, FromArgMatches};

/// Building the table anew for each input would be most of the work.
static TABLE: LazyLock<Command> = LazyLock::new(crate::cli::Cli::command);

pub(crate) fn run(input: &[u8]) {
    let words = input.split(|&byte| byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let line = [OsString::from("pagewise")].into_iter().chain(words);
    match TABLE.clone().try_get_matches_from(line) {
        Ok(matches) => drop(std::hint::black_box(crate::cli::Cli::from_arg_matches(&matches))),
        Err(error) => drop(std::hint::black_box(error.to_string())),
    }
}

pub(crate) fn seed() -> Vec<u8> {
    b"trial\n--a\nswap=zram:lz4,vm.swappiness=10\n--b\nswap=none\n--memory\n1.5G\n--\ntrue".to_vec()
}
