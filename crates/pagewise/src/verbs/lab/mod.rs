// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab`: guests, and the kernels kept for them.

mod cache;
mod guest;
mod out;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pagewise_lab::cache::Cache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Outcome;
use crate::cli::{Global, Lab};

pub(super) fn run(global: &Global, what: &Lab) -> anyhow::Result<Outcome> {
    let cache = Cache::open()?;
    let stop = stop()?;
    match what {
        Lab::Guest(wanted) => guest::run(global, wanted, &cache, &stop),
        Lab::Cache { what } => cache::run(global, what, &cache, &stop),
    }
}

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
