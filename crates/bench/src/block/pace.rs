// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Divides a time budget into slices for each round, and reports the progress.
//!
//! A slice takes longer than its nominal time: threads start and end, and on a busy machine they
//! wait for a CPU. So each round computes the length of its slices anew, from the remaining time
//! and from how much longer the slices of the previous round took. All slices of a round are
//! equally long.

use std::time::{Duration, Instant};

use super::plan::Plan;

/// Minimum length of a slice; a shorter one would mostly measure the start of its threads.
pub(super) const SHORTEST: Duration = Duration::from_millis(4);
/// Slices of the warm-up round are shorter by this factor.
const WARMING: u32 = 4;

/// Progress of a run of the block benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Number of steps that are completed.
    pub done: u32,
    /// Number of steps in the whole run.
    pub total: u32,
    /// Estimated time until the end of the run.
    pub left: Duration,
    /// Name of the present step.
    pub what: String,
}

/// State of the timing of a run, from its first slice to its last.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) slice: Duration,
    deadline: Instant,
    round_began: Instant,
    /// Number of slices of this round so far.
    taken: u32,
    /// Time that a slice takes beyond its nominal length.
    overhead: Duration,
    /// Number of rounds that follow the present one.
    rounds_left: u32,
    done: u32,
    total: u32,
}

impl Pace {
    pub(super) fn new(plan: &Plan, cells: u32) -> Self {
        let now = Instant::now();
        Self {
            slice: SHORTEST,
            deadline: now + plan.budget,
            round_began: now,
            taken: 0,
            overhead: Duration::ZERO,
            rounds_left: plan.rounds,
            done: 0,
            total: cells.saturating_mul(plan.rounds + 1),
        }
    }

    /// Begins a round with this number of cells, with `rounds_left` rounds after it.
    pub(super) fn begin_round(&mut self, rounds_left: u32, warming: bool, cells: u32) {
        let now = Instant::now();
        if let Some(took) = (now - self.round_began).checked_div(self.taken) {
            self.overhead = took.saturating_sub(self.slice);
        }
        let left = self.deadline.saturating_duration_since(now);
        self.slice = slice(left, cells, rounds_left, warming, self.overhead);
        (self.round_began, self.taken, self.rounds_left) = (now, 0, rounds_left);
    }

    /// Whether the time budget is used up.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Counts a slice as done. If its cell `ended`, the later slices that the cell would have had
    /// count as done, too.
    pub(super) fn count_slice(&mut self, ended: bool) {
        self.taken += 1;
        self.done += if ended { self.rounds_left + 1 } else { 1 };
    }

    pub(super) fn progress(&self, what: &str) -> Progress {
        let Self { done, total, .. } = *self;
        let planned = self.deadline.saturating_duration_since(Instant::now());
        // on a busy machine, slices of the minimum length and their overhead can take longer than
        // the plan
        let left = planned.max((SHORTEST + self.overhead) * total.saturating_sub(done));
        Progress { done, total, left, what: what.to_owned() }
    }
}

/// Nominal length of a slice, from the remaining time for this round and those after it.
fn slice(
    left: Duration,
    cells: u32,
    rounds_left: u32,
    warming: bool,
    overhead: Duration,
) -> Duration {
    // time is counted in quarters of a normal slice
    let quarters = rounds_left * WARMING + if warming { 1 } else { WARMING };
    let slices = cells.saturating_mul(rounds_left + 1).max(1);
    let left = left.saturating_sub(overhead * slices);
    let quarter = left / cells.saturating_mul(quarters).max(1);
    (if warming { quarter } else { quarter * WARMING }).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the overhead of a slice, the last slice ends when the budget ends, unless
        /// slices already have the minimum length.
        #[test]
        fn slices_and_what_they_take_beside_fill_the_budget(
            milliseconds in 0u64..300_000,
            cells in 1u32..300,
            rounds in 1u32..30,
            beside in 0u64..20_000,
        ) {
            let (budget, beside) = (Duration::from_millis(milliseconds), Duration::from_micros(beside));
            let mut spent = Duration::ZERO;
            let mut shortest = false;
            for round in 0..=rounds {
                let overhead = if round == 0 { Duration::ZERO } else { beside };
                let left = budget.saturating_sub(spent);
                let slice = slice(left, cells, rounds - round, round == 0, overhead);
                shortest |= slice == SHORTEST;
                spent += (slice + beside) * cells;
            }
            // rounding loses less than a quarter of a nanosecond for each slice
            let lost = Duration::from_micros(10);
            prop_assert!(shortest || spent <= budget && spent + lost >= budget);
        }
    }

    #[test]
    fn a_cell_that_ended_is_done() {
        let plan = Plan { rounds: 3, fewest: 3, budget: Duration::from_secs(1), seed: 0 };
        let mut pace = Pace::new(&plan, 2);
        pace.begin_round(3, true, 2);
        pace.count_slice(false);
        pace.count_slice(true);
        let progress = pace.progress("it");
        assert_eq!((progress.done, progress.total), (5, 8));
        assert!(progress.left <= plan.budget && progress.left >= SHORTEST * 3);
        pace.overhead = Duration::from_secs(1);
        assert!(pace.progress("").left >= Duration::from_secs(3), "as slices take that long");
    }
}
