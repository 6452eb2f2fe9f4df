// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pagewise gets more work out of a Linux machine's memory, and proves it: the program.
//!
//! Wiring only: [`cli`] is the one table that parser, help, completions and man pages come from,
//! [`verbs`] has a file or a folder per verb, the others are what
//! several verbs need. Inside a guest that `lab` started the same program is PID 1, and `lab` starts it to
//! be what is swapped out; that is settled before the command line is looked at.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod accepted;
mod advisers;
mod again;
mod chosen;
mod cli;
mod host_loans;
mod input;
mod keeper;
mod room;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use pagewise_terminal::cost::CostMeter;
use pagewise_terminal::{exit, trouble};

fn main() -> ExitCode {
    if pagewise_guest::init::is_wanted() {
        pagewise_guest::init::main();
    }
    if pagewise_guest::init::is_unit() {
        pagewise_guest::init::unit_main();
    }
    if pagewise_bench::faults::is_worker() {
        pagewise_bench::faults::worker_main();
    }
    let started = CostMeter::now();
    std::panic::set_hook(Box::new(advisers::tell_of_panic));
    if !room::is_enough_to_start() {
        return ExitCode::from(exit::FAILED);
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return trouble::tell_of_usage::<cli::Cli>(&error),
    };
    match verbs::run(&cli, started) {
        Ok(outcome) => outcome.into(),
        Err(error) => advisers::tell(&error),
    }
}
