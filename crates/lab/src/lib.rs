// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conducts experiments and records their evidence: a command or a workload of Pagewise is run in
//! arms that differ in settings, on this host or in guests.
//!
//! [`library`] reads experiments from files. [`experiment`] conducts them: it gets the settings of
//! an arm from a [`Lender`](pagewise_model::lend::Lender), which changes and restores them; it runs
//! the command with all its child processes, and reports each run. [`redaction`] removes private
//! data from evidence. The workloads are in `pagewise_workload`, the statistics in
//! `pagewise_stats`, guests in `pagewise_guest`.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files and start programs")
)]

pub mod experiment;
pub mod fuzzing;
pub mod library;
pub mod rebuild;
pub mod redaction;
