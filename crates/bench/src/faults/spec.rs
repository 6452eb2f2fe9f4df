// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to measure, and the results.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewise_model::{
    Access, Bytes, ClusterChoice, ClusterEffect, Compressor, CostRatio, FaultRow, StoreComparison,
    SwapOutCost, SwapStore, SwappedKind, WritebackCost,
};
use serde::Serialize;

/// Pages of the file that is read for the cost ratio: 64 MiB in pages of 4 KiB, of which one in
/// eight is touched. In each round, at most this much is written to the disk.
const FILE_PAGES: usize = 16_384;

/// What a run of the fault benchmark measures.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultSpec {
    /// The stores, each of which is the swap for some time.
    pub stores: Vec<SwapStore>,
    /// Kinds of memory to swap out.
    pub memory: Vec<SwappedKind>,
    /// Orders in which swapped memory is touched again.
    pub access: Vec<Access>,
    /// Values of `vm.page-cluster` to measure.
    pub page_clusters: Vec<u32>,
    /// Number of pages in one measurement.
    pub pages: usize,
    /// Uncompressed size of a zram device, and of the swap area behind zswap.
    pub disksize: Bytes,
    /// Folder for the swap file behind zswap, which receives the pages that the pool does not take.
    /// `None`: a zram device is used instead; this also happens if the file system cannot hold
    /// swap.
    pub zswap_folder: Option<PathBuf>,
    /// Memory limit of the cgroup in which the worker runs.
    pub group_limit: Bytes,
    /// Number of measured rounds. Before them, each store is measured once as a warm-up.
    /// Conclusions need five rounds.
    pub rounds: u32,
    /// Folder for the file with which swap is compared; `None`: no comparison.
    pub file_folder: Option<PathBuf>,
    /// Number of pages of the file that is read for the cost ratio.
    pub file_pages: usize,
    /// Original bytes per compressed byte of the file in `file_folder`: its pages are stand-ins,
    /// because real contents are never written to a disk. `None`: incompressible.
    pub file_ratio: Option<f64>,
    /// Seed of every random order.
    pub seed: u64,
    /// The program that is started as a worker, usually this one.
    pub program: PathBuf,
}

impl FaultSpec {
    /// The usual specification: zram devices, and all kinds of memory in all orders with
    /// `vm.page-cluster` 0 to 3, with this number of pages each. Sizes of device and cgroup are
    /// chosen to fit.
    #[must_use]
    pub fn usual(devices: Vec<Compressor>, pages: usize) -> Self {
        let bytes = |pages: usize| {
            u64::try_from(pages.saturating_mul(rustix::param::page_size())).unwrap_or(u64::MAX)
        };
        const MIB: u64 = 1 << 20;
        Self {
            stores: devices.into_iter().map(SwapStore::zram).collect(),
            memory: vec![SwappedKind::Private, SwappedKind::Forked, SwappedKind::Shmem],
            access: vec![Access::Sequential, Access::Random],
            page_clusters: vec![0, 1, 2, 3],
            pages,
            // room for the header that mkswap writes, and for pages in per-CPU lists
            disksize: Bytes::new(bytes(pages).saturating_add(8 * MIB)),
            group_limit: Bytes::new(bytes(pages).saturating_mul(2).saturating_add(64 * MIB)),
            rounds: 5,
            zswap_folder: None,
            file_folder: None,
            file_pages: pages.min(FILE_PAGES),
            file_ratio: None,
            seed: 1,
            program: PathBuf::from("/proc/self/exe"),
        }
    }

    /// Adds zswap with each algorithm of the zram devices; its swap file is made in this folder.
    #[must_use]
    pub fn with_zswap(mut self, folder: Option<PathBuf>) -> Self {
        let both = |zram: SwapStore| [zram.clone(), SwapStore::zswap(zram.compressor)];
        self.stores = self.stores.into_iter().flat_map(both).collect();
        Self { zswap_folder: folder, ..self }
    }
}

/// Progress of the fault benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of completed measurements.
    pub done: u32,
    /// Number of measurements in the whole run.
    pub of: u32,
}

/// How to stop early, and who receives the progress.
pub struct Control<'a> {
    /// Set by another thread to stop within a tenth of a second.
    pub stop: &'a AtomicBool,
    /// Deadline: after it, no round is begun or finished, except the first measured one.
    pub until: Option<Instant>,
    /// Called before each measurement and at the end.
    pub progress: &'a mut dyn FnMut(Progress),
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Control<'_> {
    /// Why the run must end now; `None` if it can continue.
    pub(super) fn why_over(&self) -> Option<FaultsEnd> {
        if self.stop.load(Ordering::SeqCst) {
            return Some(FaultsEnd::Stopped);
        }
        self.until.is_some_and(|until| Instant::now() >= until).then_some(FaultsEnd::OutOfTime)
    }
}

/// How a run of the fault benchmark ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultsEnd {
    /// All rounds were run.
    Complete,
    /// [`Control::stop`] was set; what was measured until then is kept.
    Stopped,
    /// [`Control::until`] has passed; what was measured until then is kept.
    OutOfTime,
}

/// A combination that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmeasured {
    /// Name of the combination, such as `lz4, shmem, random, page-cluster 3`.
    pub what: String,
    /// Why the combination could not be measured.
    pub why: String,
    /// Number of times that this happened.
    pub times: u32,
}

/// What a run of the fault benchmark found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultResults {
    /// A row for each combination that was measured at least once.
    pub rows: Vec<FaultRow>,
    /// The cost of swapping out, for each store.
    pub out: Vec<SwapOutCost>,
    /// The cost of writing back from zswap's pool, for each of zswap's algorithms.
    pub writebacks: Vec<WritebackCost>,
    /// zswap compared with zram with the same algorithm.
    pub comparisons: Vec<StoreComparison>,
    /// The effect of `vm.page-cluster` on each combination.
    pub effects: Vec<ClusterEffect>,
    /// The value of `vm.page-cluster` that the measured times imply for each zram device.
    pub choices: Vec<ClusterChoice>,
    /// The cost of swap compared with a file.
    pub ratios: Vec<CostRatio>,
    /// Combinations that could not be measured, with the reasons.
    pub troubles: Vec<Unmeasured>,
    /// How the run ended.
    pub ended: FaultsEnd,
}
