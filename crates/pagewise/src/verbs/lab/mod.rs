// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab`: guests, and the kernels kept for them.

mod cache;
mod guest;
mod out;

use pagewise_lab::Error;
use pagewise_lab::cache::Cache;

use super::Outcome;
use crate::cli::{Global, Lab};
use crate::interrupt::Stop;

pub(super) fn run(global: &Global, what: &Lab) -> anyhow::Result<Outcome> {
    let cache = Cache::open()?;
    let stop = Stop::listen()?;
    let done = match what {
        Lab::Guest(wanted) => guest::run(global, wanted, &cache, stop.flag()),
        Lab::Cache { what } => cache::run(global, what, &cache, stop.flag()),
    };
    match done {
        Err(error) if error.downcast_ref().is_some_and(|error| matches!(error, Error::Stopped)) => {
            tell(global, &error.to_string());
            Ok(Outcome::Status(STOPPED))
        }
        done => done,
    }
}

/// What a shell reports for a program that SIGINT ended.
const STOPPED: u8 = 130;

/// A line for the user that is no answer.
fn tell(global: &Global, line: &str) {
    if !global.quiet {
        eprintln!("pagewise: {line}");
    }
}
