// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of swapping memory out and touching it again, with borrowed stores as swap
//! (zram devices, zswap) and several settings of `vm.page-cluster`.
//!
//! ```text
//! let spec = FaultSpec { file_folder: Some(folder), ..FaultSpec::usual(stores, pages) };
//! let measured = measure(&mut lender, &spec, &file_of_pages, &mut control)?;
//! measured.rows         FaultRow per store, memory, access and page-cluster
//! measured.out          SwapOutCost per store
//! measured.comparisons  StoreComparison per algorithm, memory and access: zswap against zram
//! measured.effects      ClusterEffect per store, memory and access: does page-cluster matter here?
//! measured.choices      ClusterChoice per zram device: the page-cluster that the times imply
//! measured.ratios       CostRatio per zram device: swap against a file, and the swappiness for it
//! measured.troubles     what could not be measured, and why; ended: whether all rounds were run
//! ```
//!
//! Each measurement is a [worker](worker_main), a process of its own: this program again, whose
//! `main` must call `worker_main` if [`is_worker`]. The worker joins the borrowed cgroup, fills
//! memory with the pages, swaps the memory out and touches it again. Only one store is the swap at
//! a time, so the counters of `/proc/vmstat` are due to that store as long as no other process
//! swaps; if another process swaps, the round is discarded.
//!
//! Rounds are interleaved: each measures all combinations, in a different order. If a worker fails,
//! that measurement is recorded as a trouble, and the others continue. Workers end with their
//! parent, the thread that calls [`measure`]. `rows` computes rows from rounds, `judge` and
//! `compare` draw the conclusions.

mod compare;
mod failure;
mod judge;
mod measure;
mod order;
mod pages;
mod rows;
mod run;
mod spec;
mod stores;
mod task;
#[cfg(test)]
mod testing;
mod worker;
mod writeback;

pub use measure::measure;
pub use spec::{Control, FaultResults, FaultSpec, FaultsEnd, Progress, Unmeasured};
pub use worker::{is_worker, worker_main};
