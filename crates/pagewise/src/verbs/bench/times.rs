// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long each part of `bench` may take and how often it is repeated, for `--quick`, by default,
//! and for `--full`.

use std::time::Duration;

use pagewise_model::Bytes;

use crate::cli::Bench;

/// Time limits and numbers of rounds of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// Time limit for the measurement of the block layer, including filling the devices.
    pub(super) block: Duration,
    /// Rounds at the block layer. With seven rounds, a difference is still found if chance disturbs
    /// three rounds in a row.
    pub(super) block_rounds: u32,
    /// Time limit for measuring swap with every algorithm, and again for one algorithm with every
    /// kind of memory.
    pub(super) swap: Duration,
    /// Rounds of each part of the swap measurement.
    pub(super) swap_rounds: u32,
    /// Pages in one measurement of swap.
    pub(super) swap_pages: usize,
    /// Sizes of block requests in KiB: each size adds one measurement to every round.
    block_kib: &'static [u64],
    /// Seconds that all measurements take on an otherwise idle machine.
    seconds: u64,
}

const ALL: &[u64] = &[4, 8, 16, 32];
/// The smallest and the largest size of block requests in KiB: the goals are computed from these.
const ENDS: &[u64] = &[4, 32];

const QUICK: Times = Times {
    block: Duration::from_secs(8),
    block_rounds: 7,
    swap: Duration::from_secs(3),
    swap_rounds: 5,
    swap_pages: 512,
    block_kib: ENDS,
    seconds: 15,
};
const USUAL: Times = Times {
    block: Duration::from_secs(36),
    block_rounds: 9,
    swap: Duration::from_secs(11),
    swap_rounds: 5,
    swap_pages: 2048,
    block_kib: ALL,
    seconds: 45,
};
const FULL: Times = Times {
    block: Duration::from_secs(420),
    block_rounds: 21,
    swap: Duration::from_secs(90),
    swap_rounds: 9,
    swap_pages: 8192,
    block_kib: ALL,
    seconds: 600,
};

impl Times {
    pub(super) fn estimate(args: &Bench) -> Self {
        let times = if args.quick {
            QUICK
        } else if args.full {
            FULL
        } else {
            USUAL
        };
        // each of the two parts takes `swap` longer with zswap; setting zswap up each time needs a
        // higher limit
        if args.zswap {
            let seconds = times.seconds + 2 * times.swap.as_secs();
            Self { swap: 3 * times.swap, seconds, ..times }
        } else {
            times
        }
    }

    /// Sizes of the block requests to measure.
    pub(super) fn blocks(&self) -> Vec<Bytes> {
        self.block_kib.iter().map(|kib| Bytes::new(kib << 10)).collect()
    }

    /// The sentence that announces how long the measurement takes.
    pub(super) fn announcement(&self) -> String {
        let time = match self.seconds {
            ..120 => format!("{} s", self.seconds),
            more => format!("{} minutes", more / 60),
        };
        format!("takes about {time}, longer where other programs use the processors")
    }
}
