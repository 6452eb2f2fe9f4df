// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs `trial` and `lab`: an experiment, typed or from a file → its runs, its verdict in the terminal, and a
//! folder of evidence.
//!
//! This crate joins the parts: lab conducts the runs and guest starts the machines, a session of apply lends what
//! arms need, stats judges, and report and terminal show the result.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod disk;
mod evidence;
mod host_loans;
pub mod lab;
mod suggested;
pub mod trial;
mod workload_keys;

pub use host_loans::HostLoans;
