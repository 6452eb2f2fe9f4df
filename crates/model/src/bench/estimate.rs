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
    /// Its name, such as the name of the process.
    pub name: Name,
    /// The process id, if it is one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// What would become of a source's pages with each algorithm.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Estimate {
    /// Where the pages came from.
    pub source: EstimateSource,
    /// Size of a page.
    pub page_bytes: Bytes,
    /// Pages of the source. A page that several processes share counts once, or as a fraction if
    /// only some of these processes belong to the source.
    pub pages: u64,
    /// Confidence interval of `pages`: how many processes share a page is known for sampled pages
    /// only.
    pub pages_interval: Ends<u64>,
    /// Mappings of these pages: a page that several processes share has one in each of them.
    pub mapped_pages: u64,
    /// Of these mappings, the ones whose page was sampled.
    pub sampled_pages: u64,
    /// Of these pages, the ones that were compressed, chosen at random. All sampled pages, except
    /// with `--duplicates`.
    pub sized_pages: u64,
    /// Pages that are in swap already: neither sampled nor counted above.
    pub swapped_pages: u64,
    /// Why the sample is smaller than requested; missing if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Pages of zeros.
    pub zero_pages: u64,
    /// Its confidence interval.
    pub zero_pages_interval: Ends<u64>,
    /// Pages in which one machine word repeats, zero pages included: zram and zswap store no data
    /// for them.
    pub same_filled_pages: u64,
    /// Its confidence interval.
    pub same_filled_pages_interval: Ends<u64>,
    /// Pages whose contents equal those of another page; the first page of each kind does not
    /// count, nor do same-filled pages. Absent unless every page was read, because a sample rarely
    /// contains both pages of a pair.
    pub duplicate_pages: Reading<u64>,
    /// Whether `duplicate_pages` is an exact count.
    pub duplicate_pages_exact: bool,
    /// Its confidence interval.
    pub duplicate_pages_interval: Option<Ends<u64>>,
    /// Of these, the pages that equal another page of the same process; the rest equals pages of
    /// other processes.
    pub duplicate_pages_within: Reading<u64>,
    /// What storing duplicates once would save, with the first of the algorithms below.
    pub duplicate_saved_bytes: Reading<Bytes>,
    /// Its confidence interval.
    pub duplicate_saved_bytes_interval: Option<Ends<Bytes>>,
    /// What merging uncompressed pages would save, as KSM does: only anonymous pages, but also
    /// same-filled ones, which take no memory in compressed RAM anyway.
    pub ksm_saved_bytes: Reading<Bytes>,
    /// The contents that occur most often, at most five; `null` unless all contents were compared.
    pub most_repeated: Option<Vec<Repeated>>,
    /// The estimate for each algorithm.
    pub algorithms: Vec<AlgorithmEstimate>,
    /// How much of the sampled memory is in huge pages.
    pub huge: HugeView,
    /// Pages that were not used recently: at most these can be compressed without slowing programs
    /// down.
    pub cold: Reading<u64>,
    /// What sampling changed in the observed processes.
    pub disturbed: Disturbed,
}

/// Contents that several pages have. They are not shown; only whether the pages are zero or
/// same-filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Repeated {
    /// The class of the contents.
    pub contents: Contents,
    /// The kinds of memory that these pages belong to.
    pub kinds: Vec<MemoryKind>,
    /// How many pages have it.
    pub copies: u64,
    /// How many processes or files have such pages.
    pub sources: u64,
}

/// The class of a page's contents: the only thing that is reported about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Zeros only.
    Zeros,
    /// One machine word repeated.
    SameFilled,
    /// Any other contents.
    Other,
}

/// What backs a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Private memory of a process.
    Anonymous,
    /// Shared memory or tmpfs.
    Shmem,
    /// The page cache of a file.
    File,
    /// Part of a file or block device that was read as the source.
    #[default]
    Stored,
}

/// How small the pages would become with one algorithm.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AlgorithmEstimate {
    /// The kernel's name of the algorithm.
    pub name: Name,
    /// Its level; missing for the kernel's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
    /// The kernel whose behaviour is reproduced.
    pub kernel: Name,
    /// Compressed size: zram's `compr_data_size`.
    pub compressed_bytes: Bytes,
    /// Its confidence interval.
    pub compressed_bytes_interval: Ends<Bytes>,
    /// Incompressible pages, which are stored as they are.
    pub huge_pages: u64,
    /// Its confidence interval.
    pub huge_pages_interval: Ends<u64>,
    /// zram's `mem_used_total` on a device that was filled with these pages only.
    pub memory_used_bytes: Bytes,
    /// Its confidence interval.
    pub memory_used_interval: Ends<Bytes>,
    /// What the pages would add to a device that already stores many others, so that no zspages
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
    /// Its confidence interval.
    pub original_per_compressed_interval: Option<Ends<f64>>,
    /// Original bytes per byte of memory used, including the slot table.
    pub original_per_memory_used: Option<f64>,
}

impl AlgorithmEstimate {
    /// The algorithm and its level.
    #[must_use]
    pub fn compressor(&self) -> Compressor {
        Compressor { algorithm: self.name.clone(), level: self.level }
    }
}

/// Side effects of sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disturbed {
    /// Pages whose accessed bit is set now because they were read.
    pub referenced_pages: u64,
    /// Upper limit of the pages that sampling copied although they were shared before. It includes
    /// pages that the kernel only marked as no longer shared (after a fork whose child has exited).
    pub unshared_pages: u64,
    /// Page faults of the sampling process: pages that it read from swap or files.
    pub faults: u64,
}

/// Huge pages of a source: how much they cover, what they waste, and where more would be possible.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HugeView {
    /// Pages that are mapped as part of a huge page.
    pub mapped_pages: Reading<u64>,
    /// Of these, the pages that hold only zeros: memory that huge pages waste.
    pub zero_pages: Reading<u64>,
    /// Aligned ranges of a huge page's size, at least half present, that contain no huge page.
    pub collapsible_ranges: Reading<u64>,
}

/// How much memory would fit in total, with a zram device full of memory like the sampled one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Effective {
    /// RAM of the machine.
    pub ram_bytes: Bytes,
    /// Uncompressed size of the device: the size that `pagewise doctor` recommends at this ratio.
    pub disksize_bytes: Bytes,
    /// RAM that the full device takes, slot table included.
    pub takes_bytes: Bytes,
    /// Uncompressed memory that RAM and the device then hold together.
    pub holds_bytes: Bytes,
    /// The compression ratio (original bytes per byte of memory used) above which the device gains
    /// more than its slot table costs.
    pub break_even_ratio: f64,
}
