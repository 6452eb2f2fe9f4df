// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments → evidence: any command, or a workload of ours, in arms that differ in settings, on this host or
//! in guests.
//!
//! [`library`] reads experiments from files, [`experiment`] conducts them: it borrows what an arm has from a
//! [`Lender`](pagewise_model::lend::Lender), runs the command with all that it starts and says each run.
//! [`redaction`] says what of commands and names evidence may hold. The workloads of ours are in
//! `pagewise_workload`. What the runs mean is `pagewise_stats`' business; guests are `pagewise_guest`'s.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files and start programs")
)]

pub mod experiment;
pub mod fuzzing;
pub mod library;
pub mod redaction;
