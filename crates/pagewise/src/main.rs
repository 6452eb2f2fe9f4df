// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program `pagewise`: shows how a Linux machine uses its memory, and measures what changes
//! gain.
//!
//! Only wiring: [`cli`] is the one table that parser, help, completions and man pages come from,
//! [`verbs`] has a file or a folder per verb, and the other modules are shared by several verbs. Before parsing the command line, the program checks for two
//! special roles: in a guest that `lab` started it is PID 1, and `lab` also starts it as the
//! process whose memory is swapped out.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod accepted;
mod advisers;
mod again;
mod chosen;
mod cli;
mod host_loans;
mod input;
mod keeper;
mod pager;
mod refused;
mod room;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use pagewise_terminal::cost::CostMeter;

fn main() -> ExitCode {
    if pagewise_guest::init::is_guest_pid_1() {
        pagewise_guest::init::main();
    }
    if pagewise_guest::init::is_unit() {
        pagewise_guest::init::unit_main();
    }
    if pagewise_bench::faults::is_worker() {
        pagewise_bench::faults::worker_main();
    }
    let started = CostMeter::now();
    std::panic::set_hook(Box::new(advisers::report_panic));
    if !room::is_enough_to_start() {
        return refused::report_lack_of_memory();
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused::report_wrong_usage(&error),
    };
    match verbs::run(&cli, started) {
        Ok(outcome) => outcome.into(),
        Err(error) => advisers::print_error(&error),
    }
}
