// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which algorithm is best for which goal, by how much, and whether the difference is more than
//! noise.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Compressor, Ends, Name};

/// The best algorithm for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pick {
    /// The best algorithm.
    #[serde(flatten)]
    pub winner: Compressor,
    /// Its value, in `unit`.
    pub value: f64,
    /// `bytes_per_second`, `ns`, `iops`, `original_per_memory_used` or, for balanced,
    /// `times_ideal`.
    pub unit: Name,
    /// The second best; `null` if only one algorithm was measured.
    pub runner_up: Option<RunnerUp>,
}

/// The second best, and how far it is behind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunnerUp {
    /// The second best algorithm.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Its value, in the unit of the pick.
    pub value: f64,
    /// Its cost divided by the winner's: the median over paired rounds.
    pub cost_per_winner: f64,
    /// 95 % confidence interval of `cost_per_winner`; `null` if it is exact or there were fewer
    /// than six rounds.
    pub interval: Option<Ends<f64>>,
    /// Whether the difference is real: the interval excludes 1 or, for an exact quotient, it is
    /// more than 1 %.
    pub is_real: bool,
}

/// The best algorithm for each goal; `null` if nothing was measured for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Picks {
    /// Most bytes per second: reading the largest blocks with the most jobs.
    pub throughput: Option<Pick>,
    /// Shortest median time (p50) to read the smallest blocks with the fewest jobs, as a page fault
    /// does. The median is used because a mean is affected more by other load.
    pub latency: Option<Pick>,
    /// Most requests per second: reading the smallest blocks with the most jobs.
    pub iops: Option<Pick>,
    /// Most original bytes per byte of memory used.
    pub ratio: Option<Pick>,
    /// Least product of read time, write time (p50, smallest blocks, fewest jobs) and memory used,
    /// with equal weights. Its value is the geometric mean of the three, each relative to the best
    /// algorithm in it: 1 would be the best in all three.
    pub balanced: Option<Pick>,
}

/// The zram device that the measured values recommend for a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZramChoice {
    /// The algorithm with the shortest read time.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Its uncompressed size (disksize): a full device takes half of RAM at the measured ratio.
    pub disksize_bytes: Bytes,
    /// Compression ratio of this algorithm on the measured pages.
    pub original_per_memory_used: f64,
}

/// How often a swapped page must be faulted in before compressed RAM is cheaper than the tier
/// below.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BreakEven {
    /// The algorithm and its level.
    #[serde(flatten)]
    pub contender: Compressor,
    /// CPU time to compress and swap a page out, once.
    pub out_ns: f64,
    /// Time of a page fault that reads from compressed RAM.
    pub fault_ns: f64,
    /// Time of a page fault that reads from the other medium.
    pub other_fault_ns: f64,
    /// The other medium.
    pub other: Name,
    /// Number of faults per swapped page above which compressed RAM saves time; `null` if it never
    /// does.
    pub faults_per_page: Option<f64>,
}

/// The mean cost of swapping a page in if a slower tier lies below zram. `vm.swappiness` applies to
/// all tiers, so the mix of faults matters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TierMix {
    /// Share of the faults that zram serves, 0 to 1.
    pub zram_share: f64,
    /// Mean time of a fault.
    pub fault_ns: f64,
    /// The `vm.swappiness` that follows.
    pub swappiness: u32,
}

/// An algorithm by read time and compression ratio.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ParetoPoint {
    /// The algorithm and its level.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Median time (p50) to read the smallest block.
    pub read_ns: f64,
    /// The same in the fastest and in the slowest round.
    pub read_spread: Ends<f64>,
    /// Original bytes per byte of memory used.
    pub original_per_memory_used: f64,
    /// Whether it is on the Pareto front: no other algorithm is at least as good in both and better
    /// in one.
    pub is_on_front: bool,
}
