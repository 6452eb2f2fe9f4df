// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The subcommands `trial` and `lab`: an experiment, from the command line or a file → its runs,
//! its verdict in the terminal, and a folder of evidence.
//!
//! This crate combines others: `lab` conducts the runs, `guest` starts the virtual machines, a
//! session of `apply` lends what arms need, `stats` judges, and `report` and `terminal` show the
//! result.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod disk;
mod evidence;
mod host_loans;
pub mod lab;
mod suggested;
pub mod trial;
mod workload_keys;

pub use host_loans::HostLoans;
