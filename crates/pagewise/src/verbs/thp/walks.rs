// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp --page-walks`: what finding pages costs, counted by the processor for a while.

use std::time::Duration;

use pagewise_model::PageWalks;
use pagewise_observe::{HostRoot, Processors};
use pagewise_procmem::walks::{Counted, Counting};

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
    let processors = Processors::read(host);
    let counted = pids.map_or(Counted::Machine(&processors.numbers), Counted::Processes);
    let counting = Counting::begin(counted, processors.intel_model);
    if counting.counts() {
        let _shown = Waiting::start(global, time);
        interrupt::wait(time)?;
    }
    Ok(counting.end())
}
