// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duration of a contest, its number of rounds, and the seed of its random order.

use std::time::Duration;

/// Duration and number of rounds of a contest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Number of measured rounds, without the warm-up.
    pub rounds: u32,
    /// Number of rounds that are run even if the time budget is used up; only later rounds are left
    /// out.
    pub fewest: u32,
    /// Time for all rounds and the warm-up. Slices are never shorter than 4 ms, even if that
    /// exceeds the budget.
    pub budget: Duration,
    /// Seed of the random order of cells and of the random offsets of requests.
    pub seed: u64,
}
