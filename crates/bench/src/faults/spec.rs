// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be measured, and what came of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewise_model::{
    Access, Bytes, ClusterChoice, ClusterEffect, Compressor, CostRatio, FaultRow, StoreComparison,
    SwapOutCost, SwapStore, SwappedKind, WritebackCost,
};
use serde::Serialize;

/// Pages of the file that is read for the cost ratio: 64 MiB of pages of 4 KiB, of which one in eight
/// is touched. Its folder's disk is written no more than that in a round.
const FILE_PAGES: usize = 16_384;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultSpec {
    /// Each of these keeps the pages for a while.
    pub stores: Vec<SwapStore>,
    /// Each kind of memory.
    pub memory: Vec<SwappedKind>,
    /// In each order.
    pub access: Vec<Access>,
    /// With each `vm.page-cluster`.
    pub page_clusters: Vec<u32>,
    /// Pages of one measurement.
    pub pages: usize,
    /// Uncompressed size of a device, and of the swap area behind zswap.
    pub disksize: Bytes,
    /// Where the swap file behind zswap is made: pages that the pool does not take are written there. Without
    /// it, or where the file system cannot hold swap, a zram device of its own stands behind zswap.
    pub zswap_folder: Option<PathBuf>,
    /// Limit of the group that the memory is in.
    pub group_limit: Bytes,
    /// Rounds that count; one measurement for each store comes before them. Judgements need five.
    pub rounds: u32,
    /// Where the file lies whose pages swap is compared with; no comparison where there is none.
    pub file_folder: Option<PathBuf>,
    /// Pages of that file.
    pub file_pages: usize,
    /// Original bytes per compressed byte of that file: its pages are made up, because contents never
    /// reach a disk. Noise where it is not known.
    pub file_ratio: Option<f64>,
    /// Decides every order.
    pub seed: u64,
    /// The program that becomes a worker.
    pub program: PathBuf,
}

impl FaultSpec {
    /// zram devices, and all kinds of memory in all orders with `vm.page-cluster` 0 to 3, so many pages each
    /// time. Device and group are as large as that needs.
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
            // the page of mkswap's head, and what processors keep for themselves
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

    /// zswap, too, with each algorithm of the zram devices; its swap file is made in this folder.
    #[must_use]
    pub fn with_zswap(mut self, folder: Option<PathBuf>) -> Self {
        let both = |zram: SwapStore| [zram.clone(), SwapStore::zswap(zram.compressor)];
        self.stores = self.stores.into_iter().flat_map(both).collect();
        Self { zswap_folder: folder, ..self }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Measurements made.
    pub done: u32,
    /// Of so many.
    pub of: u32,
}

/// What may end it early, and who watches.
pub struct Control<'a> {
    /// Set by somebody else to end it: within a tenth of a second.
    pub stop: &'a AtomicBool,
    /// When it must be over: no later round is begun or finished then. The first one that counts is measured whole.
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
    /// Why it is over, if it is.
    pub(super) fn over(&self) -> Option<FaultsEnd> {
        if self.stop.load(Ordering::SeqCst) {
            return Some(FaultsEnd::Stopped);
        }
        self.until.is_some_and(|until| Instant::now() >= until).then_some(FaultsEnd::OutOfTime)
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultsEnd {
    /// All was tried.
    Complete,
    /// [`Control::stop`]: what was measured until then is kept.
    Stopped,
    /// [`Control::until`]: the same.
    OutOfTime,
}

/// Something that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmeasured {
    /// What, as `lz4, shmem, random, page-cluster 3`.
    pub what: String,
    /// Why.
    pub why: String,
    /// How often.
    pub times: u32,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultResults {
    /// A row for each combination that was measured at least once.
    pub rows: Vec<FaultRow>,
    /// One for each store.
    pub out: Vec<SwapOutCost>,
    /// What writing back from zswap's pool costs, one for each algorithm of zswap.
    pub writebacks: Vec<WritebackCost>,
    /// zswap against zram with the same algorithm.
    pub comparisons: Vec<StoreComparison>,
    /// What `vm.page-cluster` does.
    pub effects: Vec<ClusterEffect>,
    /// The `vm.page-cluster` that the times imply.
    pub choices: Vec<ClusterChoice>,
    /// What swap costs beside a file.
    pub ratios: Vec<CostRatio>,
    /// What could not be measured.
    pub troubles: Vec<Unmeasured>,
    /// Whether it came to its end.
    pub ended: FaultsEnd,
}
