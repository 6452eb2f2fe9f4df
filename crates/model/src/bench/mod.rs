// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of measurements: estimates from sampled pages, benchmarks of zram and zswap, and the
//! settings that follow from them.

mod benchmark;
mod costs;
mod estimate;
mod picks;

pub use benchmark::{BenchInput, BenchLayer, Benchmark};
pub use costs::{
    Access, BackingTraffic, BenchRow, ClusterChoice, ClusterEffect, ClusterTime, ClusterVerdict,
    CostRatio, CostVerdict, Direction, FaultRow, Figures, Noise, Reference, RelativeCost, Shape,
    StoreComparison, StoreKind, SwapOutCost, SwapStore, SwappedKind, WritebackCost,
};
pub use estimate::{
    AlgorithmEstimate, Contents, Disturbed, Effective, Ends, Estimate, EstimateSource, HugeView,
    MemoryKind, Repeated,
};
pub use picks::{BreakEven, ParetoPoint, Pick, Picks, RunnerUp, TierMix, ZramChoice};
