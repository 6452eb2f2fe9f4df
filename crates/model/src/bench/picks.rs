// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which algorithm is best for what, by how much, and whether that is more than noise.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Compressor, Ends, Name};

/// The best for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pick {
    /// The winner.
    #[serde(flatten)]
    pub winner: Compressor,
    /// What it reached, in `unit`.
    pub value: f64,
    /// `bytes_per_second`, `ns`, `iops`, `original_per_memory_used` or, for balanced, `times_ideal`.
    pub unit: Name,
    /// The next best, where there was another.
    pub runner_up: Option<RunnerUp>,
}

/// The next best, and how far it is behind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunnerUp {
    /// Which.
    #[serde(flatten)]
    pub contender: Compressor,
    /// What it reached, in the unit of the pick.
    pub value: f64,
    /// How many times the winner's cost it takes: paired by rounds.
    pub cost_per_winner: f64,
    /// Holds the truth in 95 of 100 experiments; none where it is exact or there were fewer than six
    /// rounds.
    pub interval: Option<Ends<f64>>,
    /// Whether that is a difference: the interval leaves out 1, or an exact ratio is beyond 1.01.
    pub is_real: bool,
}

/// The best for each goal; missing where nothing was measured for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Picks {
    /// Most bytes a second: reading the largest blocks with the most jobs.
    pub throughput: Option<Pick>,
    /// Least time of half of the requests (p50): reading the smallest blocks with the fewest jobs, as a
    /// fault does. A mean would say more of what else the machine did.
    pub latency: Option<Pick>,
    /// Most requests a second: reading the smallest blocks with the most jobs.
    pub iops: Option<Pick>,
    /// Most original bytes per byte of memory used.
    pub ratio: Option<Pick>,
    /// Least product of time to read, time to write (p50, smallest blocks, fewest jobs) and memory used,
    /// each weighing the same. Its value is the geometric mean of the three, each relative to the
    /// best there is: 1 would be the best in all three.
    pub balanced: Option<Pick>,
}

/// The zram device that measured values recommend for a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZramChoice {
    /// The algorithm that reads a page back fastest.
    #[serde(flatten)]
    pub contender: Compressor,
    /// The uncompressed size: full, the device takes half of RAM at this ratio.
    pub disksize_bytes: Bytes,
    /// What this algorithm made of the pages.
    pub original_per_memory_used: f64,
}

/// When compressing pays instead of writing to the tier below.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BreakEven {
    /// Which algorithm.
    #[serde(flatten)]
    pub contender: Compressor,
    /// What swapping a page out costs, once: processor time.
    pub out_ns: f64,
    /// What a fault costs from compressed RAM.
    pub fault_ns: f64,
    /// What it costs from the other medium.
    pub other_fault_ns: f64,
    /// What that medium is.
    pub other: Name,
    /// From so many faults per page swapped out on it pays in time; missing where it never does.
    pub faults_per_page: Option<f64>,
}

/// What a swapped page costs to bring back where a slower tier lies below zram: swappiness is one for
/// all tiers, so that what counts is the mix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TierMix {
    /// How many of the faults zram serves, 0 to 1.
    pub zram_share: f64,
    /// Time of a fault.
    pub fault_ns: f64,
    /// What follows for `vm.swappiness`.
    pub swappiness: u32,
}

/// An algorithm by what a read takes and how much fits.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ParetoPoint {
    /// Which.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Time of half of the reads of the smallest block (p50).
    pub read_ns: f64,
    /// Of the fastest and the slowest round.
    pub read_spread: Ends<f64>,
    /// Original bytes per byte of memory used.
    pub original_per_memory_used: f64,
    /// Whether no other is at least as good in both and better in one.
    pub is_on_front: bool,
}
