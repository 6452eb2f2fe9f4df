// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What compressed RAM costs on this machine, per block request and per page fault.
//!
//! Times are nanoseconds. A figure is the median over rounds; its spread is the smallest and the
//! largest value of a round. Rounds of all variants are interleaved, so that other load on the
//! machine affects all of them alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Compressor, Ends, Name, Reading};

/// Direction of the transfer, seen from the reader or writer of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Data is read from the device, which decompresses it.
    Read,
    /// Data is written to the device, which compresses it.
    Write,
}

/// The shape of a request: size, parallelism and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Shape {
    /// Size of one request. 4, 8, 16 and 32 KiB correspond to `vm.page-cluster` 0 to 3.
    pub block_bytes: Bytes,
    /// Number of threads, each of which makes one request at a time.
    pub jobs: u32,
    /// Whether the device is read or written.
    pub direction: Direction,
}

/// Rates and times of requests of one shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Number of rounds; the other values are medians over them.
    pub rounds: u32,
    /// Number of requests in all rounds together.
    pub requests: u64,
    /// Requests per second of all threads together.
    pub iops: f64,
    /// Requests per second in the slowest and in the fastest round.
    pub iops_spread: Ends<f64>,
    /// Bytes per second of all threads together.
    pub bytes_per_second: f64,
    /// Mean time of a request, in nanoseconds.
    pub mean_ns: f64,
    /// Mean time of a request in the fastest and in the slowest round.
    pub mean_spread: Ends<f64>,
    /// Median time of a request in nanoseconds: half of the requests took at most this.
    pub p50_ns: f64,
    /// Median time of a request in the fastest and in the slowest round.
    pub p50_spread: Ends<f64>,
    /// Time in nanoseconds that 99 of 100 requests did not exceed.
    pub p99_ns: f64,
    /// Time in nanoseconds that 999 of 1,000 requests did not exceed; computed from all rounds
    /// together, as one round has too few requests.
    pub p999_ns: f64,
    /// CPU time of a request in user and kernel mode, in nanoseconds.
    pub cpu_ns_per_io: f64,
    /// The part of the request's CPU time that was spent in the kernel; `null` if requests are not
    /// system calls.
    pub kernel_ns_per_io: Option<f64>,
    /// CPU time for each page that is read or written, in nanoseconds.
    pub cpu_ns_per_page: f64,
}

/// Measured figures of one algorithm in one request shape.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BenchRow {
    /// The measured algorithm and its level.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// Size, parallelism and direction of the requests.
    #[serde(flatten)]
    pub shape: Shape,
    /// Rates and times of the requests.
    #[serde(flatten)]
    pub figures: Figures,
    /// Original bytes per compressed byte, same-filled pages left out of both.
    pub original_per_compressed: Option<f64>,
    /// RAM that the zram device took with all pages stored in it (`mem_used_total`).
    pub memory_used_bytes: Option<Bytes>,
}

/// An operation that does not compress, such as a plain copy, measured beside the algorithms for
/// comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reference {
    /// Name of the operation, such as `block path`.
    pub name: Name,
    /// The lowest layer that the requests reach: `block` as for zram, `file` without the block
    /// layer, or `memory` for a plain copy.
    pub layer: Name,
    /// What the operation does, and what its time is a measure of.
    pub what: Name,
    /// Size, parallelism and direction of the requests.
    #[serde(flatten)]
    pub shape: Shape,
    /// Rates and times of the requests.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What else kept the machine busy during the measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Noise {
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Share of all CPU time, 0 to 1, that other programs used.
    pub others_share: Option<f64>,
    /// Share of all CPU time, 0 to 1, that the hypervisor gave to other guests (steal).
    pub stolen_share: Option<f64>,
    /// Name of the reference operation that should take the same time in every round.
    pub calm: Option<Name>,
    /// How much slower the slowest round of that operation was than its fastest, by median time; 0
    /// if they were equal.
    pub calm_p50_spread: Option<f64>,
    /// Resolution of the clock in nanoseconds: percentiles of times shorter than this mean nothing.
    pub clock_step_ns: Option<f64>,
}

/// What kind of memory was swapped.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SwappedKind {
    /// Anonymous memory that one process maps.
    Private,
    /// Anonymous memory that a parent and its child both map.
    Forked,
    /// Shared memory (shmem).
    Shmem,
}

/// In which order pages are touched.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// By rising address, one page after the other.
    Sequential,
    /// In random order, and only one page of each group of eight neighbours, so that readahead does
    /// not help.
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

/// Where swapped pages are stored: zram or zswap, with its algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SwapStore {
    /// Whether the pages are in a zram device or in zswap's pool.
    #[serde(rename = "store")]
    pub kind: StoreKind,
    /// The algorithm that compresses the pages, and its level.
    #[serde(flatten)]
    pub compressor: Compressor,
}

impl SwapStore {
    /// A zram device with this algorithm.
    #[must_use]
    pub fn zram(compressor: Compressor) -> Self {
        Self { kind: StoreKind::Zram, compressor }
    }

    /// zswap's pool with this algorithm.
    #[must_use]
    pub fn zswap(compressor: Compressor) -> Self {
        Self { kind: StoreKind::Zswap, compressor }
    }
}

/// Pages that zswap wrote to and read from the swap area behind its pool, in all rounds together,
/// and what kind of area it is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BackingTraffic {
    /// Pages written to the swap area (`pswpout`).
    pub written_pages: u64,
    /// How many of the written pages the pool had rejected. The others were written back from the
    /// pool (`zswpwb`).
    pub refused_pages: Reading<u64>,
    /// Pages read from the swap area (`pswpin`).
    pub read_pages: u64,
    /// Whether the swap area is a zram device, used because no swap file was possible: the kernel
    /// swaps in from it as from any fast device, without the swap cache and without readahead for
    /// private memory.
    pub is_zram: bool,
}

/// What swapping costs with one value of `vm.page-cluster`, measured with real page faults.
///
/// Pages swapped in, swapped out and read ahead are counts of the whole host; the measured store
/// was the only swap in use. Rounds in which the host swapped over 1 % more pages than requested
/// are left out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FaultRow {
    /// Where the pages were stored.
    #[serde(flatten)]
    pub store: SwapStore,
    /// The kind of memory that was swapped out and in again.
    pub memory: SwappedKind,
    /// The order in which the pages were touched.
    pub access: Access,
    /// The value of `vm.page-cluster` during the measurement.
    pub page_cluster: u32,
    /// Number of rounds; times are medians over them.
    pub rounds: u32,
    /// Pages that were swapped out in all rounds together, wherever they were stored.
    pub swapped_out_pages: u64,
    /// With zswap: the pages that bypassed zswap's pool. If they are many, the row does not show
    /// the cost of the pool.
    pub backing: Option<BackingTraffic>,
    /// RAM of the zram device or zswap pool for each page in it (`mem_used_total` of zram, `Zswap`
    /// of meminfo) when all pages were swapped out: the median over rounds. Without zram's slot
    /// table and zswap's entries; `null` if the kernel does not report it.
    pub pool_bytes_per_page: Option<f64>,
    /// Pages that were touched after they had been swapped out, in all rounds together.
    pub touched_pages: u64,
    /// Touched pages whose contents had changed, in all rounds together. Anything but 0 is data
    /// corruption.
    pub wrong_pages: u64,
    /// Major page faults in all rounds together.
    pub major_faults: u64,
    /// Pages that were swapped in, in all rounds together, wherever they had been stored.
    pub swapped_in_pages: u64,
    /// Pages swapped in per major fault.
    pub pages_per_fault: Option<f64>,
    /// Pages that the kernel read ahead (`swap_ra`), in all rounds together.
    pub read_ahead_pages: Reading<u64>,
    /// How many of the pages read ahead were then used (`swap_ra_hit`).
    pub read_ahead_hits: Reading<u64>,
    /// Mean time to touch a page once, in nanoseconds.
    pub mean_ns: f64,
    /// Mean time to touch a page in the fastest and in the slowest round.
    pub mean_spread: Ends<f64>,
    /// Mean time to touch a page, without the time spent waiting for a CPU that others used (run
    /// delay). Settings are compared by this. Equal to `mean_ns` if the kernel does not count run
    /// delay.
    pub undisturbed_ns: f64,
    /// Mean time without waiting for a CPU, in the fastest and in the slowest round.
    pub undisturbed_spread: Ends<f64>,
    /// Median time of a touch in nanoseconds: half of the touches took at most this.
    pub p50_ns: f64,
    /// Time in nanoseconds that 99 % of the touches did not exceed.
    pub p99_ns: f64,
    /// Time in nanoseconds that 99.9 % of the touches did not exceed.
    pub p999_ns: f64,
    /// CPU time to touch a page, readahead included, in nanoseconds.
    pub in_cpu_ns_per_page: f64,
    /// CPU time to touch a page in the round with the least and in the one with the most.
    pub in_cpu_spread: Ends<f64>,
    /// CPU time to swap a page out, in nanoseconds.
    pub out_cpu_ns_per_page: f64,
    /// CPU time to swap a page out in the round with the least and in the one with the most.
    pub out_cpu_spread: Ends<f64>,
}

/// CPU time to swap a page out, over all kinds of memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SwapOutCost {
    /// Where the pages were stored, and with which algorithm.
    #[serde(flatten)]
    pub store: SwapStore,
    /// Pages that were swapped out in all rounds together.
    pub swapped_out_pages: u64,
    /// CPU time to swap out one page, in nanoseconds: the median over rounds.
    pub cpu_ns_per_page: f64,
    /// CPU time to swap out one page in the round with the least and in the one with the most.
    pub cpu_spread: Ends<f64>,
}

/// What it costs zswap to write a page of its pool back to the swap area: the kernel decompresses
/// the page and submits the write. The time that the disk needs is not included.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WritebackCost {
    /// The algorithm with which zswap compressed the pages.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// Number of rounds; times are medians over them.
    pub rounds: u32,
    /// Pages that were written back (`zswpwb`), in all rounds together.
    pub written_pages: u64,
    /// Share of the pages in the pool, 0 to 1, that was written back.
    pub written_share: f64,
    /// CPU time to write back one page, in nanoseconds.
    pub cpu_ns_per_page: f64,
    /// CPU time to write back one page in the round with the least and in the one with the most.
    pub cpu_spread: Ends<f64>,
}

/// Costs of zswap compared with those of zram, for the same algorithm, kind of memory, order of
/// access and `vm.page-cluster`. Rounds with the same number are compared as pairs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoreComparison {
    /// The algorithm that both used, and its level.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// The kind of memory that was swapped out and in again.
    pub memory: SwappedKind,
    /// The order in which the pages were touched.
    pub access: Access,
    /// The value of `vm.page-cluster` during the measurement.
    pub page_cluster: u32,
    /// Number of rounds in which both were measured.
    pub rounds: u32,
    /// Share of the pages swapped out with zswap, 0 to 1, that went to the swap area behind its
    /// pool. Above 0.01 there is no verdict, because not only the pool was measured.
    pub backing_share: f64,
    /// CPU time to swap a page out, with zswap relative to zram.
    pub out_cpu: RelativeCost,
    /// CPU time to touch a page, with zswap relative to zram.
    pub in_cpu: RelativeCost,
    /// Time to touch a page without waiting for a CPU, with zswap relative to zram.
    pub touch: RelativeCost,
    /// RAM for each stored page, with zswap's pool relative to zram; `null` if the kernel does not
    /// report it.
    pub pool: Option<RelativeCost>,
}

/// A cost with zswap, relative to the same cost with zram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RelativeCost {
    /// Cost with zswap divided by cost with zram: the median over rounds.
    pub zswap_per_zram: f64,
    /// The smallest and the largest such quotient of a round.
    pub spread: Ends<f64>,
    /// Whether the quotient shows a difference between zswap and zram.
    pub verdict: CostVerdict,
}

/// Whether zswap and zram differ in a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostVerdict {
    /// zswap cost less in every round, and by at least 5 % in half of them.
    Less,
    /// zswap cost more in every round, and by at least 5 % in half of them.
    More,
    /// Rounds disagree, the difference is smaller than 5 %, or there were fewer than five rounds.
    NoDifferenceShown,
    /// There is no verdict, because too many pages bypassed zswap's pool.
    NotJudged,
}

/// The effect of `vm.page-cluster` on page faults of one kind of memory with this kernel: the
/// largest measured value compared with the smallest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClusterEffect {
    /// Where the pages were stored, and with which algorithm.
    #[serde(flatten)]
    pub store: SwapStore,
    /// The kind of memory that was swapped out and in again.
    pub memory: SwappedKind,
    /// The order in which the pages were touched.
    pub access: Access,
    /// The smallest and the largest measured `vm.page-cluster`.
    pub page_clusters: Ends<u32>,
    /// Pages swapped in per major fault, with the smallest and with the largest value.
    pub pages_per_fault: Ends<f64>,
    /// Whether the kernel reads ahead for this memory: more than 1.2 pages per fault with the
    /// largest value.
    pub reads_ahead: bool,
    /// Mean time in nanoseconds to touch a page without waiting for a CPU, with the smallest and
    /// with the largest value.
    pub undisturbed_ns: Ends<f64>,
    /// Time of a touch with the largest value, divided by the time with the smallest value: the
    /// median over rounds.
    pub time_ratio: f64,
    /// The smallest and the largest such quotient of a round.
    pub time_ratio_spread: Ends<f64>,
    /// Whether the largest value makes a touch faster or slower.
    pub verdict: ClusterVerdict,
}

/// Whether the largest measured `vm.page-cluster` makes a touch faster or slower than the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterVerdict {
    /// A touch is faster in every round, and by at least 5 % in half of them.
    Faster,
    /// A touch is slower in every round, and by at least 5 % in half of them.
    Slower,
    /// No difference is shown: the kernel does not read ahead, rounds disagree, the difference is
    /// smaller than 5 %, or there were fewer than five rounds.
    NoDifferenceShown,
}

/// The `vm.page-cluster` that the measured times of zram imply. The setting applies to all memory,
/// so a value is rated by the mean time of a touch (without waiting for a CPU) over all kinds of
/// memory for which the kernel reads ahead, in both orders, with equal weights. If the kernel reads
/// ahead for none of them, the setting has no effect.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClusterChoice {
    /// The algorithm of the zram device, and its level.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// The kinds of memory for which the kernel reads ahead.
    pub memory: Vec<SwappedKind>,
    /// Number of rounds in which every combination was measured.
    pub rounds: u32,
    /// Time of a touch with each value of `vm.page-cluster` that was measured.
    pub candidates: Vec<ClusterTime>,
    /// The value with the shortest time; `null` if all are equally good.
    pub implied: Option<u32>,
}

/// The time of a touch with one value of `vm.page-cluster`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ClusterTime {
    /// The value of `vm.page-cluster` during the measurement.
    pub page_cluster: u32,
    /// Mean time of a touch without waiting for a CPU, in nanoseconds: the median over rounds.
    pub undisturbed_ns: f64,
    /// Mean time of a touch in the fastest and in the slowest round.
    pub undisturbed_spread: Ends<f64>,
    /// Whether the value is not slower than the best one, by the rule of [`ClusterVerdict`].
    pub as_good_as_best: bool,
}

/// What it costs to read a page back from zram and from a file, and the `vm.swappiness` that
/// follows.
///
/// The kernel's documentation weighs the two by cost: if swap is x times faster than the file
/// system, swappiness is 200·x/(1+x). Pages of the file are read at random without readahead, and
/// pages of private memory are read from swap with the smallest `vm.page-cluster`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CostRatio {
    /// The algorithm of the zram device, and its level.
    #[serde(flatten)]
    pub compressor: Compressor,
    /// Number of rounds; the times are medians over them.
    pub rounds: u32,
    /// The value of `vm.page-cluster` during the measurement.
    pub page_cluster: u32,
    /// Time to read a page from swap, in nanoseconds: CPU time and waiting for I/O, without waiting
    /// for a CPU.
    pub swap_ns_per_page: f64,
    /// Time to read a page from swap in the fastest and in the slowest round.
    pub swap_spread: Ends<f64>,
    /// Time to read a page from a file, in nanoseconds, without waiting for a CPU.
    pub file_ns_per_page: f64,
    /// Time to read a page from a file in the fastest and in the slowest round.
    pub file_spread: Ends<f64>,
    /// Major faults per touched page of the file. Below 1, some of the file's pages were still
    /// cached.
    pub file_faults_per_page: f64,
    /// Time to read a page from a file, divided by the time to read one from swap: the median over
    /// rounds.
    pub file_per_swap: f64,
    /// The smallest and the largest such quotient of a round.
    pub file_per_swap_spread: Ends<f64>,
    /// The `vm.swappiness` that follows from the two times.
    pub swappiness: u32,
    /// The `vm.swappiness` that follows from the smallest and from the largest quotient of a round.
    pub swappiness_spread: Ends<u32>,
}
