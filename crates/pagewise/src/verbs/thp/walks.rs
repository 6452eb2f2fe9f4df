// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp --page-walks`: counts for a while, with CPU performance counters, what page walks
//! cost.

use std::time::Duration;

use pagewise_model::PageWalks;
use pagewise_observe::{HostRoot, Processors};
use pagewise_procmem::walks::{WalkCounters, WalkTarget};
use pagewise_terminal::progress::Spinner;
use pagewise_terminal::{Global, interrupt};

/// Counts page walks of these processes, or of the whole machine.
pub(super) fn count(
    global: &Global,
    host: &HostRoot,
    pids: Option<&[u32]>,
    time: Duration,
) -> anyhow::Result<PageWalks> {
    let processors = Processors::read(host);
    let counted = pids.map_or(WalkTarget::Machine(&processors.numbers), WalkTarget::Processes);
    let counting = WalkCounters::begin(counted, processors.intel_model);
    if counting.has_counters() {
        let _shown = Spinner::start(global, time);
        interrupt::wait(time)?;
    }
    Ok(counting.end())
}
