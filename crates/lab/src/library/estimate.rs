// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Estimates how long the runs of a cell take on an idle machine.

use pagewise_workload::Workload;

use super::{Cell, Runner};

/// Assumed time in seconds for changing and restoring settings, for each run.
const AROUND: f64 = 1.0;
/// Assumed speed at which a workload fills its memory before it begins, in bytes per second.
const FILLED: f64 = (200 << 20) as f64;
/// Assumed speed while memory is short: requests per second of a redis-server, or accesses per
/// second of `tiers`.
const ASKED: f64 = 10_000.0;
/// Assumed time that a guest takes to start, in seconds.
const START: f64 = 15.0;

/// Estimated time of a cell in seconds, by the clock of the machine that runs it. The actual time
/// may be much shorter if the program is a user's command, or a workload that ends when its work is
/// done.
#[must_use]
pub fn estimate_seconds(cell: &Cell) -> f64 {
    let deadline = cell.experiment.deadline.as_secs_f64();
    let (run, files) = match &cell.workload {
        Workload::Swap(swap) => (swap.seconds, vec![swap.data, swap.code]),
        Workload::Coldpages(cold) => (cold.seconds, vec![cold.data, cold.library, cold.stream]),
        Workload::Tiers(tiers) => (tiers.operations as f64 / ASKED, vec![tiers.cold, tiers.hot]),
        Workload::Redis(redis) => {
            let asked = redis.records + 2 * redis.requests;
            ((asked as f64 / ASKED).min(redis.seconds), Vec::new())
        }
        Workload::Command { .. } => (deadline, Vec::new()),
        Workload::Hugepages(huge) => (huge.seconds, vec![huge.data, huge.fragment]),
    };
    let filled: f64 = files.iter().map(|size| size.0.get() as f64 / FILLED).sum();
    let start = if matches!(cell.runner, Runner::Guest(_)) { START } else { 0.0 };
    start + f64::from(cell.experiment.runs()) * ((run + filled).min(deadline) + AROUND)
}
