// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A budget → how long each slice of a round is, and how far it is.
//!
//! A slice takes longer than it should: threads begin and end, and on a busy machine they wait for a
//! processor. So each round looks at the clock, and at what slices of the one before took beside their
//! time. All slices of a round are equally long.

use std::time::{Duration, Instant};

use super::plan::Plan;

/// Shorter slices measure how a thread begins.
pub(super) const SHORTEST: Duration = Duration::from_millis(4);
/// The round that warms has slices that are so much shorter.
const WARMING: u32 = 4;

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Steps that are done.
    pub done: u32,
    /// All steps.
    pub total: u32,
    /// Until the last.
    pub left: Duration,
    /// What is done now.
    pub what: String,
}

/// Between the first slice and the last.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) slice: Duration,
    deadline: Instant,
    round_began: Instant,
    /// Slices of this round that were taken.
    taken: u32,
    /// What a slice takes beside its time.
    overhead: Duration,
    /// Rounds after this one.
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

    /// Begins a round of so many cells, with `rounds_left` behind it.
    pub(super) fn begin(&mut self, rounds_left: u32, warming: bool, cells: u32) {
        let now = Instant::now();
        if let Some(took) = (now - self.round_began).checked_div(self.taken) {
            self.overhead = took.saturating_sub(self.slice);
        }
        let left = self.deadline.saturating_duration_since(now);
        self.slice = slice(left, cells, rounds_left, warming, self.overhead);
        (self.round_began, self.taken, self.rounds_left) = (now, 0, rounds_left);
    }

    /// Whether the budget is used up.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// After a slice; the cell has no more where it `ended`.
    pub(super) fn step(&mut self, ended: bool) {
        self.taken += 1;
        self.done += if ended { self.rounds_left + 1 } else { 1 };
    }

    pub(super) fn progress(&self, what: &str) -> Progress {
        let Self { done, total, .. } = *self;
        let planned = self.deadline.saturating_duration_since(Instant::now());
        // on a busy machine what slices take beside their time does not fit into the plan
        let left = planned.max((SHORTEST + self.overhead) * total.saturating_sub(done));
        Progress { done, total, left, what: what.to_owned() }
    }
}

/// What is left, in slices of this round and those behind it.
fn slice(
    left: Duration,
    cells: u32,
    rounds_left: u32,
    warming: bool,
    overhead: Duration,
) -> Duration {
    // in quarters of a slice that counts
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
        /// Whatever a slice takes beside its time, the last ends with the budget, unless slices are
        /// the shortest.
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
        pace.begin(3, true, 2);
        pace.step(false);
        pace.step(true);
        let progress = pace.progress("it");
        assert_eq!((progress.done, progress.total), (5, 8));
        assert!(progress.left <= plan.budget && progress.left >= SHORTEST * 3);
        pace.overhead = Duration::from_secs(1);
        assert!(pace.progress("").left >= Duration::from_secs(3), "as slices take that long");
    }
}
