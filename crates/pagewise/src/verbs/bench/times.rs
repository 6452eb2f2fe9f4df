// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--quick`, nothing or `--full` → how long each part may take, and how often it is repeated.

use std::time::Duration;

use crate::cli::Bench;

/// Time and rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// For the block layer, filling the devices included.
    pub(super) block: Duration,
    /// Rounds of it; seven are the fewest that say something with three in a row by chance.
    pub(super) block_rounds: u32,
    /// For swap with every algorithm, and again for one algorithm with every kind of memory.
    pub(super) swap: Duration,
    /// Rounds of it.
    pub(super) swap_rounds: u32,
    /// Pages of one measurement of swap.
    pub(super) swap_pages: usize,
}

impl Times {
    pub(super) fn of(wanted: &Bench) -> Self {
        let of = |block, block_rounds, swap, swap_rounds, swap_pages| Self {
            block: Duration::from_secs(block),
            block_rounds,
            swap: Duration::from_secs(swap),
            swap_rounds,
            swap_pages,
        };
        match (wanted.quick, wanted.full) {
            (true, _) => of(8, 7, 3, 5, 512),
            (_, true) => of(420, 21, 90, 9, 8192),
            _ => of(36, 9, 11, 5, 2048),
        }
    }
}
