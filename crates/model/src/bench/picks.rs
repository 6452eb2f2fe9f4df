// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which algorithm is best for which goal, by how much, and whether the difference exceeds the
//! noise of the measurement.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Compressor, Ends, Name};

/// The best algorithm for one goal, with its value and the second best.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pick {
    /// The best algorithm, with its level.
    #[serde(flatten)]
    pub winner: Compressor,
    /// Value of the best algorithm, in `unit`.
    pub value: f64,
    /// Unit of the values: `bytes_per_second`, `ns`, `iops`, `original_per_memory_used` or, for the
    /// balanced goal, `times_ideal`.
    pub unit: Name,
    /// The second best algorithm and its value; `null` if only one algorithm was measured.
    pub runner_up: Option<RunnerUp>,
}

/// The second best algorithm, and how far it is behind the best.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunnerUp {
    /// The second best algorithm, with its level.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Value of the second best algorithm, in the unit of the pick.
    pub value: f64,
    /// Cost of the second best algorithm divided by the cost of the best: the median over paired
    /// rounds.
    pub cost_per_winner: f64,
    /// 95 % confidence interval of `cost_per_winner`; `null` if it is exact or there were fewer
    /// than six rounds.
    pub interval: Option<Ends<f64>>,
    /// Whether the two algorithms really differ: the interval excludes 1 or, for an exact quotient,
    /// the difference is more than 1 %.
    pub is_real: bool,
}

/// The best algorithm for each goal; `null` if nothing was measured for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Picks {
    /// The algorithm with the most bytes per second when the largest blocks are read with the most
    /// threads.
    pub throughput: Option<Pick>,
    /// The algorithm with the shortest median time (p50) to read the smallest blocks with the
    /// fewest threads, as a page fault does. The median is used because a mean is affected more by
    /// other load.
    pub latency: Option<Pick>,
    /// The algorithm with the most requests per second when the smallest blocks are read with the
    /// most threads.
    pub iops: Option<Pick>,
    /// The algorithm with the most original bytes per byte of memory used.
    pub ratio: Option<Pick>,
    /// The algorithm with the least product of read time, write time (p50, smallest blocks, fewest
    /// threads) and memory used, with equal weights. Its value is the geometric mean of the three,
    /// each relative to the algorithm that is best in it: 1 would be the best in all three.
    pub balanced: Option<Pick>,
}

/// The zram device that the measured values recommend for a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ZramChoice {
    /// The algorithm with the shortest read time.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Uncompressed size of the device (disksize): a full device takes half of RAM at the measured
    /// ratio.
    pub disksize_bytes: Bytes,
    /// Compression ratio of this algorithm on the measured pages.
    pub original_per_memory_used: f64,
}

/// How often a swapped page must be faulted in before compressed RAM is cheaper than the tier
/// below.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BreakEven {
    /// The algorithm of the compressed RAM, and its level.
    #[serde(flatten)]
    pub contender: Compressor,
    /// CPU time to compress a page and swap it out once, in nanoseconds.
    pub out_ns: f64,
    /// Time of a page fault that reads from compressed RAM, in nanoseconds.
    pub fault_ns: f64,
    /// Time of a page fault that reads from the other medium, in nanoseconds.
    pub other_fault_ns: f64,
    /// The medium that compressed RAM is compared with, such as `a page of a file, read at random`.
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
    /// Mean time of a page fault over both tiers, in nanoseconds.
    pub fault_ns: f64,
    /// The `vm.swappiness` that follows from this mean time.
    pub swappiness: u32,
}

/// Read time and compression ratio of one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ParetoPoint {
    /// The measured algorithm and its level.
    #[serde(flatten)]
    pub contender: Compressor,
    /// Median time (p50) to read the smallest block, in nanoseconds.
    pub read_ns: f64,
    /// Median read time in the fastest and in the slowest round.
    pub read_spread: Ends<f64>,
    /// Original bytes per byte of memory used.
    pub original_per_memory_used: f64,
    /// Whether the algorithm is on the Pareto front: no other algorithm is at least as good in both
    /// read time and ratio and better in one of them.
    pub is_on_front: bool,
}
