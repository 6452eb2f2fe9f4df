// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of `pagewise bench`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    BenchRow, BreakEven, Bytes, ClusterChoice, ClusterEffect, CostRatio, FaultRow, Name, Noise,
    ParetoPoint, Picks, Reference, Refusal, StoreComparison, SwapOutCost, TierMix, WritebackCost,
    ZramChoice,
};

/// The page contents that a benchmark stored and read back in all its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BenchInput {
    /// Where the contents came from: `redis-server (pid 4121)` or, if generated,
    /// `made up: text:100`.
    pub name: Name,
    /// Number of pages from the source.
    pub pages: u64,
    /// Size of all these pages together.
    pub bytes: Bytes,
    /// Same-filled pages of the source (one machine word repeated). They take no memory with any
    /// algorithm and are left out.
    pub same_filled_left_out: u64,
    /// How much was stored on the devices: less than `bytes` if memory was short.
    pub measured_bytes: Bytes,
}

/// Where the compression was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BenchLayer {
    /// Measured on borrowed zram devices, through the block layer.
    Zram,
    /// Measured with the same algorithms as libraries in this program: no kernel, no block layer,
    /// no zsmalloc.
    Codecs,
}

/// The result of `pagewise bench`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Benchmark {
    /// The page contents that were stored and read back.
    pub input: BenchInput,
    /// Where the compression was measured.
    pub layer: BenchLayer,
    /// Whether the user ended the benchmark early with Ctrl-C.
    pub stopped: bool,
    /// Rates and times of each algorithm, for each shape of requests.
    pub rows: Vec<BenchRow>,
    /// Reference operations that compress nothing, measured beside the algorithms for comparison.
    pub references: Vec<Reference>,
    /// Costs of real page faults on swap.
    pub faults: Vec<FaultRow>,
    /// CPU costs of swapping pages out.
    pub swap_out: Vec<SwapOutCost>,
    /// Costs of writing pages of zswap's pool back to a swap file; empty unless writeback was
    /// measured.
    pub writebacks: Vec<WritebackCost>,
    /// Costs of zswap compared with zram; empty unless zswap was measured.
    pub store_comparisons: Vec<StoreComparison>,
    /// How `vm.page-cluster` changes the time of a page fault, for each kind of memory.
    pub cluster_effects: Vec<ClusterEffect>,
    /// The best `vm.page-cluster` according to the measured times, for each algorithm.
    pub cluster_choices: Vec<ClusterChoice>,
    /// Cost of reading a page from swap compared with the cost of reading one from a file, and the
    /// `vm.swappiness` computed from it.
    pub cost_ratios: Vec<CostRatio>,
    /// The cost of a page fault and the `vm.swappiness` that follows if a slower swap tier lies
    /// below zram, for different shares of faults that zram serves.
    pub tier_mixes: Vec<TierMix>,
    /// How often a page must be faulted in before compressed RAM is cheaper than the tier below it.
    pub break_even: Vec<BreakEven>,
    /// Algorithms by read time and compression ratio.
    pub pareto: Vec<ParetoPoint>,
    /// The best algorithm for each goal.
    pub picks: Picks,
    /// The zram device that the rules of `pagewise doctor` would recommend from these values;
    /// `null` if zram itself was not measured.
    pub recommended: Option<ZramChoice>,
    /// What else the machine did during the measurement.
    pub noise: Noise,
    /// What could not be measured, and why.
    pub not_measured: Vec<Refusal>,
    /// Remarks on the result, in sentences.
    pub notes: Vec<String>,
}
