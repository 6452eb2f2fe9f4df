// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses arguments, one on each line, with the program's own clap table.
//!
//! The table belongs to the program, which is not a library: its modules are compiled into this
//! program. It is built once: clap then keeps each verb as built for the first line that named it,
//! and a test in `cli.rs` checks that such a table parses like a new one.

#![allow(dead_code, unused_imports, clippy::allow_attributes, reason = "parsing alone is used")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{LazyLock, Mutex, PoisonError};

use clap::{Arg, Command, CommandFactory, FromArgMatches};

/// Built once, because building the table for each input would be nearly all of the work.
static TABLE: LazyLock<Mutex<Command>> = LazyLock::new(|| Mutex::new(crate::cli::Cli::command()));

/// Maximum input length in bytes; no line in the manual is longer.
pub(crate) const LONGEST: usize = 256;

pub(crate) fn run(input: &[u8]) {
    let words = input.split(|&byte| byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let line = [OsString::from("pagewise")].into_iter().chain(words);
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let parsed = table.try_get_matches_from_mut(line);
    match parsed.and_then(|mut matches| crate::cli::Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => drop(std::hint::black_box(cli)),
        Err(error) => drop(std::hint::black_box(error.to_string())),
    }
}

/// A line for each verb, and one for each of its options.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let trial = ["trial", "--a", "swap=zram:lz4,vm.swappiness=10", "--b", "swap=none"];
    let trial = [&trial[..], &["--memory", "1.5G", "--", "true"]].concat().join("\n");
    let mut lines = vec![trial];
    visit(&built_table(), &[], &mut |path, verb| {
        lines.push(path.join("\n"));
        for argument in verb.get_arguments() {
            let value = value_of(argument);
            let words =
                argument.get_long().map(|long| format!("--{long}")).into_iter().chain(value);
            lines.push(path.iter().cloned().chain(words).collect::<Vec<_>>().join("\n"));
        }
    });
    lines.into_iter().map(String::into_bytes).collect()
}

/// Verbs, options and values with a fixed set.
pub(crate) fn words() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    visit(&built_table(), &[], &mut |path, verb| {
        words.extend(path.iter().cloned());
        for argument in verb.get_arguments() {
            words.extend(argument.get_long().map(|long| format!("--{long}")));
            let values = argument.get_possible_values();
            words.extend(values.iter().map(|value| value.get_name().to_owned()));
            words.extend(value_of(argument));
        }
    });
    words
}

/// Includes the arguments of every command, which clap normally defines only when the command is
/// used.
fn built_table() -> Command {
    let mut table = crate::cli::Cli::command();
    table.build();
    table
}

fn visit(verb: &Command, path: &[String], to: &mut impl FnMut(&[String], &Command)) {
    to(path, verb);
    for below in verb.get_subcommands() {
        let path = [path, &[below.get_name().to_owned()]].concat();
        visit(below, &path, to);
    }
}

/// A value that the argument accepts: its default, or the first possible value.
fn value_of(argument: &Arg) -> Option<String> {
    let takes = argument.get_action().takes_values();
    let default = argument.get_default_values().first();
    let default = default.map(|value| value.to_string_lossy().into_owned());
    let chosen = argument.get_possible_values();
    let chosen = chosen.first().map(|value| value.get_name().to_owned());
    default.or(chosen).or_else(|| takes.then(|| "1".to_owned())).filter(|_| takes)
}
