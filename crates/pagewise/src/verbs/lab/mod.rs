// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab`: guests, and the kernels kept for them.

mod cache;
mod guest;
mod out;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pagewise_lab::Error;
use pagewise_lab::cache::Cache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Outcome;
use crate::cli::{Global, Lab};

pub(super) fn run(global: &Global, what: &Lab) -> anyhow::Result<Outcome> {
    let cache = Cache::open()?;
    let stop = stop()?;
    let done = match what {
        Lab::Guest(wanted) => guest::run(global, wanted, &cache, &stop),
        Lab::Cache { what } => cache::run(global, what, &cache, &stop),
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

/// Set by Ctrl-C and its kin; a second one ends the program as usual.
fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// A line for the user that is no answer.
fn tell(global: &Global, line: &str) {
    if !global.quiet {
        eprintln!("pagewise: {line}");
    }
}
