// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How small the pages of a source would become, with the accuracy of each number.
//!
//! All counts and sizes are of the whole source. If only a sample was read they are extrapolated,
//! and each has a 95 % confidence interval; if every page was read, both ends are the number
//! itself.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Compressor, Name, Reading};

/// Both ends of an interval: `[low, high]`.
pub type Ends<T> = [T; 2];

/// Where the pages came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EstimateSource {
    /// `process`, `processes`, `cgroup`, `host`, `file`, `device` or `core`.
    pub kind: Name,
    /// Name of the source, such as the name of the process.
    pub name: Name,
    /// Id of the process, if the source is a single process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// How small a source's pages would become with each algorithm.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Estimate {
    /// Where the sampled pages came from.
    pub source: EstimateSource,
    /// Size of a base page.
    pub page_bytes: Bytes,
    /// Number of pages in the source. A page that several processes share counts once, or as a
    /// fraction if only some of these processes belong to the source.
    pub pages: u64,
    /// Confidence interval of `pages`, which is an estimate because how many processes share a page
    /// is known for sampled pages only.
    pub pages_interval: Ends<u64>,
    /// Number of mappings of the source's pages: a page that several processes share has one in
    /// each of them.
    pub mapped_pages: u64,
    /// How many of these mappings have a page that was sampled.
    pub sampled_pages: u64,
    /// How many of the sampled pages were compressed, chosen at random: all, except with
    /// `--duplicates`.
    pub sized_pages: u64,
    /// Pages of the source that are in swap already: neither sampled nor included in the other
    /// numbers.
    pub swapped_pages: u64,
    /// Why the sample is smaller than requested; missing if it has the requested size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Number of pages that hold only zeros.
    pub zero_pages: u64,
    /// Confidence interval of `zero_pages`.
    pub zero_pages_interval: Ends<u64>,
    /// Number of pages in which one machine word repeats, zero pages included: zram and zswap store
    /// no data for them.
    pub same_filled_pages: u64,
    /// Confidence interval of `same_filled_pages`.
    pub same_filled_pages_interval: Ends<u64>,
    /// Number of pages whose contents equal those of another page; the first page with these
    /// contents does not count, nor do same-filled pages. Absent unless every page was read,
    /// because a sample rarely contains both pages of a pair.
    pub duplicate_pages: Reading<u64>,
    /// Whether `duplicate_pages` is an exact count.
    pub duplicate_pages_exact: bool,
    /// Confidence interval of `duplicate_pages`.
    pub duplicate_pages_interval: Option<Ends<u64>>,
    /// How many of the duplicate pages equal another page of the same process; the rest equals
    /// pages of other processes.
    pub duplicate_pages_within: Reading<u64>,
    /// Memory that storing duplicate pages only once would save, with the first algorithm in
    /// `algorithms`.
    pub duplicate_saved_bytes: Reading<Bytes>,
    /// Confidence interval of `duplicate_saved_bytes`.
    pub duplicate_saved_bytes_interval: Option<Ends<Bytes>>,
    /// Memory that merging uncompressed pages would save, as KSM does: only anonymous pages, but
    /// also same-filled ones, which take no memory in compressed RAM anyway.
    pub ksm_saved_bytes: Reading<Bytes>,
    /// The page contents that occur most often, at most five; `null` unless all pages were
    /// compared.
    pub most_repeated: Option<Vec<Repeated>>,
    /// The estimate for each algorithm.
    pub algorithms: Vec<AlgorithmEstimate>,
    /// How much of the sampled memory is in huge pages.
    pub huge: HugeView,
    /// Pages that were not used recently: no more than these can be compressed without slowing
    /// programs down.
    pub cold: Reading<u64>,
    /// Side effects of sampling in the observed processes.
    pub disturbed: Disturbed,
}

/// Page contents that several pages have in common. The contents are not shown, only whether the
/// pages are zero or same-filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Repeated {
    /// Whether the pages are zero, same-filled or have other contents.
    pub contents: Contents,
    /// The kinds of memory that these pages belong to.
    pub kinds: Vec<MemoryKind>,
    /// Number of pages with these contents.
    pub copies: u64,
    /// How many processes or files have such pages.
    pub sources: u64,
}

/// The class of a page's contents, which is all that is reported about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// The page holds only zeros.
    Zeros,
    /// The page holds one machine word, repeated.
    SameFilled,
    /// The page holds anything else.
    Other,
}

/// The kind of memory that a page belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Private memory of a process.
    Anonymous,
    /// Shared memory or a file in a tmpfs.
    Shmem,
    /// The page cache of a file.
    File,
    /// Part of a file or block device that was read as the source.
    #[default]
    Stored,
}

/// How small the pages of a source would become with one algorithm.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AlgorithmEstimate {
    /// The kernel's name of the algorithm.
    pub name: Name,
    /// Compression level of the algorithm; missing for the kernel's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
    /// The kernel whose version of the algorithm is reproduced.
    pub kernel: Name,
    /// Compressed size of the pages, as zram's `compr_data_size` counts it.
    pub compressed_bytes: Bytes,
    /// Confidence interval of `compressed_bytes`.
    pub compressed_bytes_interval: Ends<Bytes>,
    /// Number of incompressible pages, which are stored as they are.
    pub huge_pages: u64,
    /// Confidence interval of `huge_pages`.
    pub huge_pages_interval: Ends<u64>,
    /// RAM that a zram device would take if only these pages were stored on it (`mem_used_total`).
    pub memory_used_bytes: Bytes,
    /// Confidence interval of `memory_used_bytes`.
    pub memory_used_interval: Ends<Bytes>,
    /// RAM that the pages would add to a device that already stores many others, so that no zspages
    /// have to be allocated for them alone. For few pages this is much less than
    /// `memory_used_bytes`.
    pub memory_in_pool_bytes: Bytes,
    /// Upper limit of `mem_used_total` after pages were overwritten for some time: fragmentation
    /// makes it grow from `memory_used_bytes` towards this.
    pub memory_used_worn_bytes: Bytes,
    /// RAM of zram's slot table, which no counter of the kernel includes.
    pub slot_table_bytes: Bytes,
    /// Original bytes per compressed byte; `null` if no pages remain to be compressed.
    pub original_per_compressed: Option<f64>,
    /// Confidence interval of `original_per_compressed`.
    pub original_per_compressed_interval: Option<Ends<f64>>,
    /// Original bytes per byte of RAM used, including the slot table.
    pub original_per_memory_used: Option<f64>,
}

impl AlgorithmEstimate {
    /// The algorithm and its level as one value.
    #[must_use]
    pub fn compressor(&self) -> Compressor {
        Compressor { algorithm: self.name.clone(), level: self.level }
    }
}

/// Side effects of sampling on the sampled processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disturbed {
    /// Pages whose accessed bit is now set because sampling read them.
    pub referenced_pages: u64,
    /// Upper limit of the number of pages that sampling copied although they were shared before. It
    /// includes pages that the kernel only marked as no longer shared (after a fork whose child has
    /// exited).
    pub unshared_pages: u64,
    /// Page faults of the sampling process, for pages that it read from swap or files.
    pub faults: u64,
}

/// Huge pages of a source: how much they cover, what they waste, and where more would be possible.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HugeView {
    /// Number of base pages that are mapped as part of a huge page.
    pub mapped_pages: Reading<u64>,
    /// How many of these pages hold only zeros, which is memory that huge pages waste.
    pub zero_pages: Reading<u64>,
    /// Number of aligned ranges of a huge page's size, at least half present, that contain no huge
    /// page.
    pub collapsible_ranges: Reading<u64>,
}

/// How much memory would fit in total if a zram device were filled with memory like the sampled
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Effective {
    /// Size of the machine's RAM.
    pub ram_bytes: Bytes,
    /// Uncompressed size of the zram device: the size that `pagewise doctor` recommends at this
    /// ratio.
    pub disksize_bytes: Bytes,
    /// RAM that the full zram device takes, slot table included.
    pub takes_bytes: Bytes,
    /// Uncompressed size of the memory that RAM and the full device then hold together.
    pub holds_bytes: Bytes,
    /// The compression ratio (original bytes per byte of memory used) above which the device gains
    /// more than its slot table costs.
    pub break_even_ratio: f64,
}
