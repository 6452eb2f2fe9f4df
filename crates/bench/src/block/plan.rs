// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a contest lasts, and the seed of its order.

use std::time::Duration;

/// Duration and number of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Rounds that count, without the warm-up.
    pub rounds: u32,
    /// Rounds that are run even if the budget is used up; the others are then left out.
    pub fewest: u32,
    /// Time for all rounds and the warm-up. Slices are never shorter than 4 ms, even if that
    /// exceeds the budget.
    pub budget: Duration,
    /// Seed of orders and offsets.
    pub seed: u64,
}
