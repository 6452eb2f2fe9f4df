// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the program prints and accepts, without root and without guests.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests start programs and prepare the machine by its own tools"
)]

#[path = "../shared/program.rs"]
mod program;

mod agent;
mod bad_input;
mod bench;
mod cache;
mod cli;
mod collected;
mod compare;
mod completions;
mod documents;
mod examples;
mod fleet;
mod hostile;
mod killers;
mod lab_run;
mod ledger;
mod limits;
mod monitor;
mod nagios;
mod oom;
mod pager;
mod pages;
mod plan;
mod recordings;
mod scan;
mod streams;
mod triage;
mod trial;
mod trusted;
mod undo;
mod watch;
mod workload;
