// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--quick`, nothing or `--full` → how long each part may take, and how often it is repeated.

use std::time::Duration;

use pagewise_model::Bytes;

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
    /// Sizes of requests, in KiB: each is a cell more in every round.
    block_kib: &'static [u64],
    /// What all of it takes on a machine with nothing else to do.
    seconds: u64,
}

const ALL: &[u64] = &[4, 8, 16, 32];
/// What the goals are about: the smallest and the largest.
const ENDS: &[u64] = &[4, 32];

impl Times {
    pub(super) fn estimate(args: &Bench) -> Self {
        let of =
            |(block, block_rounds, block_kib), (swap, swap_rounds, swap_pages), seconds| Self {
                block: Duration::from_secs(block),
                block_rounds,
                swap: Duration::from_secs(swap),
                swap_rounds,
                swap_pages,
                block_kib,
                seconds,
            };
        let times = match (args.quick, args.full) {
            (true, _) => of((8, 7, ENDS), (3, 5, 512), 15),
            (_, true) => of((420, 21, ALL), (90, 9, 8192), 600),
            _ => of((36, 9, ALL), (11, 5, 2048), 45),
        };
        // both parts of swap take as long again; that zswap is set up each time needs room in the limit
        if args.zswap {
            let seconds = times.seconds + 2 * times.swap.as_secs();
            Self { swap: 3 * times.swap, seconds, ..times }
        } else {
            times
        }
    }

    /// Sizes of requests.
    pub(super) fn blocks(&self) -> Vec<Bytes> {
        self.block_kib.iter().map(|kib| Bytes::new(kib << 10)).collect()
    }

    /// What to expect, before it begins.
    pub(super) fn expected(&self) -> String {
        let time = match self.seconds {
            ..120 => format!("{} s", self.seconds),
            more => format!("{} minutes", more / 60),
        };
        format!("takes about {time}, longer where other programs use the processors")
    }
}
