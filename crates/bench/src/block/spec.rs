// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to measure at the block layer.

use std::time::Duration;

use pagewise_model::{Bytes, Compressor, Direction, Shape};

use super::plan::Plan;
use super::reference::Disk;

/// Minimum number of rounds: with fewer, one disturbed round could change the median.
const FEWEST_ROUNDS: u32 = 3;

/// What a run of the block benchmark measures.
#[derive(Debug, Clone)]
pub struct BlockSpec {
    /// The compression algorithms; each gets a zram device.
    pub candidates: Vec<Compressor>,
    /// Sizes of requests to measure.
    pub blocks: Vec<Bytes>,
    /// Numbers of threads that send requests at the same time; each is measured.
    pub jobs: Vec<u32>,
    /// Whether to measure reading, writing or both.
    pub directions: Vec<Direction>,
    /// Whether to measure the references, too; they are measured only with the smallest number of
    /// jobs.
    pub references: bool,
    /// A disk to measure as a reference.
    pub disk: Option<Disk>,
    /// Time for the whole run, including filling the devices.
    pub budget: Duration,
    /// Number of measured rounds, without the warm-up.
    pub rounds: u32,
    /// Number of rounds that are run even if the time budget is used up.
    pub fewest_rounds: u32,
    /// Seed of the random order of cells and of the random offsets of requests.
    pub seed: u64,
}

impl BlockSpec {
    /// The usual specification: blocks of 4, 8, 16 and 32 KiB, one job and one per CPU, reading and
    /// writing, with references.
    #[must_use]
    pub fn new(candidates: Vec<Compressor>, budget: Duration, rounds: u32) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = u32::try_from(processors).unwrap_or(1);
        Self {
            candidates,
            blocks: [4, 8, 16, 32].map(|kib| Bytes::new(kib << 10)).to_vec(),
            jobs: if processors > 1 { vec![1, processors] } else { vec![1] },
            directions: vec![Direction::Read, Direction::Write],
            references: true,
            disk: None,
            budget,
            rounds,
            fewest_rounds: FEWEST_ROUNDS.min(rounds),
            seed: 1,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let Self { rounds, fewest_rounds: fewest, budget, seed, .. } = *self;
        Plan { rounds, fewest, budget, seed }
    }

    pub(super) fn shapes(&self, jobs: &[u32], directions: &[Direction]) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &block_bytes in &self.blocks {
            for &jobs in jobs {
                let shape = |&direction: &Direction| Shape { block_bytes, jobs, direction };
                shapes.extend(directions.iter().map(shape));
            }
        }
        shapes
    }
}
