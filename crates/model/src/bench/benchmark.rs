// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that `bench` found out.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    BenchRow, BreakEven, Bytes, ClusterChoice, ClusterEffect, CostRatio, FaultRow, Name, Noise,
    ParetoPoint, Picks, Reference, Refusal, StoreComparison, SwapOutCost, TierMix, WritebackCost,
    ZramChoice,
};

/// The pages that everything was measured with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BenchInput {
    /// Where they came from, as `redis-server (pid 4121)` or `made up: text:100`.
    pub name: Name,
    /// How many.
    pub pages: u64,
    /// What they are together.
    pub bytes: Bytes,
    /// Pages of the source that one machine word fills: they take no memory with any algorithm, and
    /// are left out.
    pub same_filled_left_out: u64,
    /// What the devices held: less than all pages where memory was short.
    pub measured_bytes: Bytes,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BenchLayer {
    /// Borrowed zram devices, through the block layer.
    Zram,
    /// The same algorithms as libraries in this program: no kernel, no block layer, no zsmalloc.
    Codecs,
}

/// All that `bench` found out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Benchmark {
    /// With which pages.
    pub input: BenchInput,
    /// Where requests went.
    pub layer: BenchLayer,
    /// Whether Ctrl-C ended it early.
    pub stopped: bool,
    /// Each algorithm in each shape.
    pub rows: Vec<BenchRow>,
    /// What stands beside them.
    pub references: Vec<Reference>,
    /// What really happens in swap.
    pub faults: Vec<FaultRow>,
    /// What swapping out costs.
    pub swap_out: Vec<SwapOutCost>,
    /// What writing pages of zswap's pool back to a swap file costs, where that was measured.
    pub writebacks: Vec<WritebackCost>,
    /// zswap against zram, where zswap was to be measured.
    pub store_comparisons: Vec<StoreComparison>,
    /// Whether `vm.page-cluster` matters.
    pub cluster_effects: Vec<ClusterEffect>,
    /// Which value the times imply.
    pub cluster_choices: Vec<ClusterChoice>,
    /// Swap against a file, and what follows for `vm.swappiness`.
    pub cost_ratios: Vec<CostRatio>,
    /// The same where a slower tier lies below zram.
    pub tier_mixes: Vec<TierMix>,
    /// When compressing pays.
    pub break_even: Vec<BreakEven>,
    /// Algorithms by read time and ratio.
    pub pareto: Vec<ParetoPoint>,
    /// The best for each goal.
    pub picks: Picks,
    /// Which device these values recommend for this machine, as findings would; missing where zram itself was not
    /// measured.
    pub recommended: Option<ZramChoice>,
    /// What else the machine did meanwhile.
    pub noise: Noise,
    /// What is missing.
    pub not_measured: Vec<Refusal>,
    /// What a reader should know.
    pub notes: Vec<String>,
}
