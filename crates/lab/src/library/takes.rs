// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cell → how many runs it has, and how long they take at most.

use super::{Cell, Runner};
use crate::workload::Workload;

/// What borrowing, files and giving back take for a run.
const AROUND: f64 = 1.0;
/// What a guest takes to start.
const START: f64 = 15.0;

/// The runs of a cell, at most: a first one and the warm-up, which are discarded, and the pairs.
#[must_use]
pub fn runs(cell: &Cell) -> u32 {
    let experiment = &cell.experiment;
    let arms = u32::try_from(experiment.arms.len()).unwrap_or(u32::MAX);
    1 + arms.saturating_mul(experiment.warm_up + experiment.pairs)
}

/// What they take, by the clock of the machine that runs them. A workload that ends when its work is
/// done may be ready much sooner.
#[must_use]
pub fn seconds(cell: &Cell) -> f64 {
    let deadline = cell.experiment.deadline.as_secs_f64();
    let run = match &cell.workload {
        Workload::Swap(swap) => swap.seconds,
        Workload::Coldpages(pages) => pages.seconds,
        Workload::Redis(_) | Workload::Command { .. } => deadline,
    };
    let start = if matches!(cell.runner, Runner::Guest(_)) { START } else { 0.0 };
    start + f64::from(runs(cell)) * (run.min(deadline) + AROUND)
}
