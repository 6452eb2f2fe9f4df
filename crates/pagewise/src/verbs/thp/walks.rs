// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp --page-walks`: what finding pages costs, counted by the processor for a while.

use std::time::Duration;

use pagewise_model::PageWalks;
use pagewise_observe::HostRoot;
use pagewise_observe::walks::{Counted, Counting};

use crate::cli::Global;
use crate::interrupt;
use crate::progress::Waiting;

/// Of these processes, or of the machine.
pub(super) fn count(
    global: &Global,
    host: &HostRoot,
    pids: Option<&[u32]>,
    time: Duration,
) -> anyhow::Result<PageWalks> {
    let counting = Counting::begin(host, pids.map_or(Counted::Machine, Counted::Processes));
    if counting.counts() {
        let _shown = Waiting::start(global, time);
        interrupt::wait(time)?;
    }
    Ok(counting.end())
}
