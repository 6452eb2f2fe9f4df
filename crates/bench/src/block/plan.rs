// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a contest lasts, and in what order it asks.

use std::time::Duration;

/// How long and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds that are run even if the budget is over. Of the others none begins then.
    pub fewest: u32,
    /// For all of them, and the one that warms. Slices become no shorter than 4 ms, whatever it is.
    pub budget: Duration,
    /// Of orders and offsets.
    pub seed: u64,
}
