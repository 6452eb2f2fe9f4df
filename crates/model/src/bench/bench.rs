// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What compressed RAM costs on this machine: block by block, and fault by fault.
//!
//! Times are nanoseconds. A figure is the median over rounds; its spread is the least and the
//! largest round. Rounds are interleaved: whatever else the machine does hits all alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Compressor, Ends, Name, Reading};

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Out of the device: decompressing.
    Read,
    /// Into it: compressing.
    Write,
}

/// What somebody asks for at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Shape {
    /// Bytes of one request. Guides call 4, 8, 16 and 32 KiB page-cluster 0 to 3.
    pub block_bytes: Bytes,
    /// Threads, each with one request at a time.
    pub jobs: u32,
    /// Which way.
    pub direction: Direction,
}

/// What requests of one shape cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Rounds that this is the median of.
    pub rounds: u32,
    /// Requests in all rounds together.
    pub requests: u64,
    /// Requests a second, all jobs together.
    pub iops: f64,
    /// Of the slowest and the fastest round.
    pub iops_spread: Ends<f64>,
    /// Bytes a second, all jobs together.
    pub bytes_per_second: f64,
    /// Mean time of a request.
    pub mean_ns: f64,
    /// Of the fastest and the slowest round.
    pub mean_spread: Ends<f64>,
    /// Half of the requests took at most this.
    pub p50_ns: f64,
    /// Of the fastest and the slowest round.
    pub p50_spread: Ends<f64>,
    /// 99 of 100 took at most this.
    pub p99_ns: f64,
    /// 999 of 1,000 took at most this; of all rounds together, as one round has too few.
    pub p999_ns: f64,
    /// Processor time of a request, in the kernel and outside.
    pub cpu_ns_per_io: f64,
    /// Of it in the kernel; nothing where requests are no system calls.
    pub kernel_ns_per_io: Option<f64>,
    /// Processor time of a page of it.
    pub cpu_ns_per_page: f64,
}

/// One algorithm, one shape.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BenchRow {
    /// What compresses.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// What was asked for.
    #[serde(flatten)]
    pub shape: Shape,
    /// What it cost.
    #[serde(flatten)]
    pub figures: Figures,
    /// Original bytes per compressed byte, same-filled pages left out of both.
    pub original_per_compressed: Option<f64>,
    /// zram's `mem_used_total` with all pages in it.
    pub memory_used_bytes: Option<Bytes>,
}

/// Something that is no algorithm, measured beside them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reference {
    /// Its name, as `block path`.
    pub name: Name,
    /// `block` where the requests take the same way as zram's, else what they skip: `file` or `memory`.
    pub layer: Name,
    /// What it is and what it shows.
    pub what: Name,
    /// What was asked for.
    #[serde(flatten)]
    pub shape: Shape,
    /// What it cost.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What else the machine did while it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Noise {
    /// How long it was looked at.
    pub seconds: f64,
    /// Of all processors' time, 0 to 1, what others used than this program.
    pub others_share: Option<f64>,
    /// Of all processors' time, 0 to 1, what the host of this virtual machine gave to others.
    pub stolen_share: Option<f64>,
    /// What should take the same time in every round.
    pub calm: Option<Name>,
    /// By how much its slowest round was slower than its fastest, 0 where they were equal: of p50.
    pub calm_p50_spread: Option<f64>,
    /// By how much the clock goes forward at a time: percentiles of shorter times mean nothing.
    pub clock_step_ns: Option<f64>,
}

/// What kind of memory was swapped.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SwappedKind {
    /// Anonymous, mapped by one process.
    Private,
    /// Anonymous, mapped by a parent and its child.
    Forked,
    /// Shared memory.
    Shmem,
}

/// In which order pages are touched.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// One after the other.
    Sequential,
    /// In no order, and only one page of eight neighbours: what is read ahead is of no use then.
    Random,
}

/// What keeps swapped pages compressed in RAM.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// A zram device, which is a swap area itself.
    Zram,
    /// zswap's pool in front of a swap area.
    Zswap,
}

/// What keeps swapped pages, and what compresses them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SwapStore {
    /// zram or zswap.
    #[serde(rename = "store")]
    pub kind: StoreKind,
    /// What compresses.
    #[serde(flatten)]
    pub compressor: Compressor,
}

impl SwapStore {
    /// A zram device with this algorithm.
    #[must_use]
    pub fn zram(compressor: Compressor) -> Self {
        Self { kind: StoreKind::Zram, compressor }
    }

    /// zswap with this algorithm.
    #[must_use]
    pub fn zswap(compressor: Compressor) -> Self {
        Self { kind: StoreKind::Zswap, compressor }
    }
}

/// The swap area behind zswap's pool: where it is, and the pages that went to it and came from it, in all
/// rounds together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BackingTraffic {
    /// Pages written to it (`pswpout`).
    pub written_pages: u64,
    /// Of them those that the pool did not take; the others had been in the pool (`zswpwb`).
    pub refused_pages: Reading<u64>,
    /// Pages read from it (`pswpin`).
    pub read_pages: u64,
    /// Whether it is a zram device, because no swap file was possible: the kernel swaps in from it as from
    /// any fast device, without the swap cache and without reading ahead for private memory.
    pub is_zram: bool,
}

/// What really happens in swap, with one setting of `vm.page-cluster`.
///
/// Pages that were swapped, in and out, and pages read ahead are counts of the whole host: the store
/// was the only swap in use. Rounds in which a hundredth more was swapped than was asked for are left
/// out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FaultRow {
    /// What keeps the pages.
    #[serde(flatten)]
    pub store: SwapStore,
    /// What was swapped out and in again.
    pub memory: SwappedKind,
    /// In which order.
    pub access: Access,
    /// `vm.page-cluster`.
    pub page_cluster: u32,
    /// Rounds that the medians are of.
    pub rounds: u32,
    /// Pages that were swapped out, in all rounds together, wherever they went.
    pub swapped_out_pages: u64,
    /// With zswap, what went past its pool: a row in which that is many pages has other costs.
    pub backing: Option<BackingTraffic>,
    /// RAM that the store takes for each page in it (`mem_used_total` of zram, `Zswap` of meminfo), when all
    /// were swapped out: the median over rounds. Without zram's slot table and zswap's entries; missing where
    /// the kernel does not tell.
    pub pool_bytes_per_page: Option<f64>,
    /// Pages that were touched then, in all rounds together.
    pub touched_pages: u64,
    /// Touched pages that did not hold what they had held, in all rounds together: 0.
    pub wrong_pages: u64,
    /// Major faults, in all rounds together.
    pub major_faults: u64,
    /// Pages swapped in, in all rounds together, wherever they were.
    pub swapped_in_pages: u64,
    /// Pages that one major fault brought.
    pub pages_per_fault: Option<f64>,
    /// Pages read ahead (`swap_ra`), in all rounds together.
    pub read_ahead_pages: Reading<u64>,
    /// Of them used (`swap_ra_hit`).
    pub read_ahead_hits: Reading<u64>,
    /// Mean time of touching a page once.
    pub mean_ns: f64,
    /// Of the fastest and the slowest round.
    pub mean_spread: Ends<f64>,
    /// Mean time of touching a page without what was spent waiting for a processor that others had: by
    /// this settings are compared. As `mean_ns` where the kernel does not count that.
    pub undisturbed_ns: f64,
    /// Of the fastest and the slowest round.
    pub undisturbed_spread: Ends<f64>,
    /// Half of the touches took at most this.
    pub p50_ns: f64,
    /// 99 of 100.
    pub p99_ns: f64,
    /// 999 of 1,000.
    pub p999_ns: f64,
    /// Processor time of touching a page, what was read ahead for it included.
    pub in_cpu_ns_per_page: f64,
    /// Of the least and the largest round.
    pub in_cpu_spread: Ends<f64>,
    /// Processor time of swapping a page out.
    pub out_cpu_ns_per_page: f64,
    /// Of the least and the largest round.
    pub out_cpu_spread: Ends<f64>,
}

/// What a page costs to swap out, over all kinds of memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SwapOutCost {
    /// What keeps the pages.
    #[serde(flatten)]
    pub store: SwapStore,
    /// Pages that were swapped out, in all rounds together.
    pub swapped_out_pages: u64,
    /// Processor time of a page: the median over rounds.
    pub cpu_ns_per_page: f64,
    /// Of the least and the largest round.
    pub cpu_spread: Ends<f64>,
}

/// What it costs zswap to write a page of its pool back to the swap area: the kernel decompresses the page and submits
/// the write. What the disk does afterwards is not part of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WritebackCost {
    /// zswap's compressor.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// Rounds that this is the median of.
    pub rounds: u32,
    /// Pages written back (`zswpwb`), in all rounds together.
    pub written_pages: u64,
    /// Of the pages in the pool, 0 to 1, those that were written back.
    pub written_share: f64,
    /// CPU time of a page.
    pub cpu_ns_per_page: f64,
    /// Of the least and the largest round.
    pub cpu_spread: Ends<f64>,
}

/// What zswap costs beside zram with the same algorithm, kind of memory, order of access and
/// `vm.page-cluster`: rounds with the same number are pairs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoreComparison {
    /// What compresses.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// What was swapped out and in again.
    pub memory: SwappedKind,
    /// In which order.
    pub access: Access,
    /// `vm.page-cluster`.
    pub page_cluster: u32,
    /// Rounds in which both were measured.
    pub rounds: u32,
    /// Of the pages that were swapped out with zswap, 0 to 1, those that went to the swap area behind its pool.
    /// With more than a hundredth nothing is judged: then it is not the pool alone that was measured.
    pub backing_share: f64,
    /// Processor time of swapping a page out.
    pub out_cpu: RelativeCost,
    /// Processor time of touching a page.
    pub in_cpu: RelativeCost,
    /// Undisturbed time of touching a page.
    pub touch: RelativeCost,
    /// RAM of the pool for each page in it; missing where the kernel does not tell.
    pub pool: Option<RelativeCost>,
}

/// A cost with zswap in parts of that with zram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RelativeCost {
    /// The median over rounds.
    pub zswap_per_zram: f64,
    /// Of the least and the largest round.
    pub spread: Ends<f64>,
    /// What that shows.
    pub verdict: CostVerdict,
}

/// Whether zswap costs another than zram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostVerdict {
    /// Less in every round, by a twentieth or more in half of them.
    Less,
    /// More in every round, by a twentieth or more in half of them.
    More,
    /// Rounds disagree, it is less, or there were fewer than five.
    NoDifferenceShown,
    /// Too many pages went past zswap's pool.
    NotJudged,
}

/// What `vm.page-cluster` does to one kind of memory on this kernel: the largest value measured
/// beside the least.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClusterEffect {
    /// What keeps the pages.
    #[serde(flatten)]
    pub store: SwapStore,
    /// The kind.
    pub memory: SwappedKind,
    /// In which order it was touched.
    pub access: Access,
    /// The least and the largest `vm.page-cluster`.
    pub page_clusters: Ends<u32>,
    /// Pages that one major fault brought, with each.
    pub pages_per_fault: Ends<f64>,
    /// Whether the kernel reads ahead for it at all: more than 1.2 pages per fault with the largest.
    pub reads_ahead: bool,
    /// Mean time of touching a page undisturbed, with each.
    pub undisturbed_ns: Ends<f64>,
    /// How many times as long a touch takes with the largest: the median over rounds.
    pub time_ratio: f64,
    /// Of the least and the largest round.
    pub time_ratio_spread: Ends<f64>,
    /// What became of a touch with the largest.
    pub verdict: ClusterVerdict,
}

/// What became of a touch with the largest `vm.page-cluster`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterVerdict {
    /// It was faster in every round, by a twentieth or more in half of them.
    Faster,
    /// It was slower in every round, by a twentieth or more in half of them.
    Slower,
    /// The kernel reads nothing ahead, rounds disagree, it is less, or there were fewer than five.
    NoDifferenceShown,
}

/// The `vm.page-cluster` that the times of zram imply. The knob is one for all memory: so a value is judged by
/// the undisturbed time of a touch over all kinds that the kernel reads ahead for, in both orders, each
/// weighted alike. Where there is no such kind the knob does nothing.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClusterChoice {
    /// What compresses.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// The kinds that the kernel reads ahead for.
    pub memory: Vec<SwappedKind>,
    /// Rounds in which every combination was measured.
    pub rounds: u32,
    /// Each value that was measured.
    pub candidates: Vec<ClusterTime>,
    /// The value with the least time; nothing where all are as good.
    pub implied: Option<u32>,
}

/// One value of `vm.page-cluster`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ClusterTime {
    /// The value.
    pub page_cluster: u32,
    /// Mean time of a touch undisturbed: the median over rounds.
    pub undisturbed_ns: f64,
    /// Of the fastest and the slowest round.
    pub undisturbed_spread: Ends<f64>,
    /// Whether it is not slower than the best one, as [`ClusterVerdict`] has it.
    pub as_good_as_best: bool,
}

/// What it costs to bring a page back from zram and from a file, and what follows for `vm.swappiness`.
///
/// The kernel's documentation weighs them so: where swap is x times faster than the file system,
/// swappiness is 200·x/(1+x). The pages of a file are read at random without readahead, as those of
/// private memory are from swap with the least `vm.page-cluster`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CostRatio {
    /// What compresses.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// Rounds that the medians are of.
    pub rounds: u32,
    /// `vm.page-cluster` while it was measured.
    pub page_cluster: u32,
    /// A page from swap: processor time and waiting, but for processors that others had.
    pub swap_ns_per_page: f64,
    /// Of the fastest and the slowest round.
    pub swap_spread: Ends<f64>,
    /// A page from a file.
    pub file_ns_per_page: f64,
    /// Of the fastest and the slowest round.
    pub file_spread: Ends<f64>,
    /// Major faults per page of the file that was touched: below 1 something else keeps the file.
    pub file_faults_per_page: f64,
    /// How many times as long a page from a file takes: the median over rounds.
    pub file_per_swap: f64,
    /// Of the least and the largest round.
    pub file_per_swap_spread: Ends<f64>,
    /// What follows for `vm.swappiness`.
    pub swappiness: u32,
    /// Of the least and the largest round.
    pub swappiness_spread: Ends<u32>,
}
