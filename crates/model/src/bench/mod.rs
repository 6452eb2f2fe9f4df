// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured: estimates from sampled pages, benchmarks of zram and zswap, and the choice they lead to.

mod bench;
mod benchmark;
mod estimate;
mod picks;

pub use bench::{
    Access, BackingTraffic, BenchRow, ClusterChoice, ClusterEffect, ClusterTime, ClusterVerdict,
    CostRatio, CostVerdict, Direction, FaultRow, Figures, Noise, Reference, RelativeCost, Shape,
    StoreComparison, StoreKind, SwapOutCost, SwapStore, SwappedKind, WritebackCost,
};
pub use benchmark::{BenchInput, BenchLayer, Benchmark};
pub use estimate::{
    AlgorithmEstimate, Contents, Disturbed, Effective, Ends, Estimate, EstimateSource, HugeView,
    MemoryKind, Repeated,
};
pub use picks::{BreakEven, ParetoPoint, Pick, Picks, RunnerUp, TierMix, ZramChoice};
