// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages, borrowed stores as swap (zram devices, zswap), and settings of `vm.page-cluster` → what really
//! happens when memory is swapped out and touched again.
//!
//! ```text
//! let spec = FaultSpec { file_folder: Some(folder), ..FaultSpec::usual(stores, pages) };
//! let measured = measure(&mut lender, &spec, &file_of_pages, &mut control)?;
//! measured.rows         FaultRow per store, memory, access and page-cluster
//! measured.out          SwapOutCost per store
//! measured.comparisons  StoreComparison per algorithm, memory and access: zswap against zram
//! measured.effects      ClusterEffect per store, memory and access: does page-cluster matter here?
//! measured.choices      ClusterChoice per zram device: the page-cluster that the times imply
//! measured.ratios       CostRatio per zram device: swap against a file, and the swappiness that follows
//! measured.troubles     what could not be measured, and why; ended: whether it came to its end
//! ```
//!
//! Each measurement is a [worker](worker_main), a process of its own: this program again, which its
//! `main` must make one where [`is_worker`]. It joins the borrowed cgroup, fills memory with the pages,
//! swaps it out and touches it. Only one of the stores is swap at a time, so `/proc/vmstat` counts for
//! it alone as long as nobody else swaps; where somebody does, the round is left out.
//!
//! Rounds are interleaved: each measures all there is, in another order. A worker that could not
//! measure costs its round and is a trouble; the rest goes on. The thread that calls [`measure`] is the
//! workers' parent: they end with it. `rows` turns rounds into rows, `judge` and `compare` say what follows.

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
