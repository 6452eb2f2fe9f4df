// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the pages of a source would become, and how sure that is.
//!
//! All counts and sizes are of the whole source. Where only a sample was looked at they are
//! extrapolated, and each has an interval that holds the truth in 95 of 100 samples; where every
//! page was looked at both ends are the number itself.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Compressor, Name, Reading};

/// Both ends of an interval: `[low, high]`.
pub type Ends<T> = [T; 2];

/// Where pages came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EstimateSource {
    /// `process`, `processes`, `cgroup`, `host`, `file`, `device` or `core`.
    pub kind: Name,
    /// What it is called.
    pub name: Name,
    /// Of a process its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// What a source would become.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Estimate {
    /// Whose pages.
    pub source: EstimateSource,
    /// Bytes of a page.
    pub page_bytes: Bytes,
    /// Pages that could have been looked at. One that several processes share counts once; for each
    /// of these processes it counts in proportion.
    pub pages: u64,
    /// Its interval: who shares a page is known of those looked at.
    pub pages_interval: Ends<u64>,
    /// Places that show them: a page that several processes share has one in each.
    pub mapped_pages: u64,
    /// Of those places the ones that were looked at.
    pub sampled_pages: u64,
    /// Of those the ones that were compressed, drawn at random: all, but with `--duplicates`.
    pub sized_pages: u64,
    /// Pages that are swapped out already: neither looked at nor counted above.
    pub swapped_pages: u64,
    /// Why the sample is not what was asked for, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Pages of zeros.
    pub zero_pages: u64,
    /// Its interval.
    pub zero_pages_interval: Ends<u64>,
    /// Pages that one machine word fills, zeros among them: they take no memory when swapped.
    pub same_filled_pages: u64,
    /// Its interval.
    pub same_filled_pages_interval: Ends<u64>,
    /// Pages that are like another one and not the first of their kind; same-filled ones are not
    /// among them. Absent unless every page was looked at: a sample rarely meets both of a pair.
    pub duplicate_pages: Reading<u64>,
    /// Whether that is a count.
    pub duplicate_pages_exact: bool,
    /// Its interval.
    pub duplicate_pages_interval: Option<Ends<u64>>,
    /// Of those the ones that are like another one of the same process; the rest is alike across
    /// processes.
    pub duplicate_pages_within: Reading<u64>,
    /// What storing them once would save after the first of the algorithms below.
    pub duplicate_saved_bytes: Reading<Bytes>,
    /// Its interval.
    pub duplicate_saved_bytes_interval: Option<Ends<Bytes>>,
    /// What merging uncompressed, as KSM does, would save: it takes anonymous pages only, same-filled
    /// ones too, which compressed RAM holds for nothing anyway.
    pub ksm_saved_bytes: Reading<Bytes>,
    /// The contents that occur most often, at most five; absent where not all were told apart.
    pub most_repeated: Option<Vec<Repeated>>,
    /// For each algorithm.
    pub algorithms: Vec<AlgorithmEstimate>,
    /// Huge pages among them.
    pub huge: HugeView,
    /// Pages that nobody used lately. What is estimated above is gained for those at most.
    pub cold: Reading<u64>,
    /// What looking changed.
    pub disturbed: Disturbed,
}

/// A content that several pages have. What it is stays unsaid, except that one word fills it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Repeated {
    /// What is told of it.
    pub contents: Contents,
    /// Whose pages have it.
    pub kinds: Vec<MemoryKind>,
    /// How many pages have it.
    pub copies: u64,
    /// In how many processes, or files.
    pub sources: u64,
}

/// What is told of a page's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Nothing but zeros.
    Zeros,
    /// One machine word again and again.
    SameFilled,
    /// Anything else.
    Other,
}

/// What backs a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Private memory of a process.
    Anonymous,
    /// Shared memory and tmpfs.
    Shmem,
    /// The page cache of a file.
    File,
    /// A piece of a file or a device.
    #[default]
    Stored,
}

/// What an algorithm would make of a source.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AlgorithmEstimate {
    /// The kernel's name for it.
    pub name: Name,
    /// Its level, where it has levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
    /// Which kernel is imitated.
    pub kernel: Name,
    /// zram's `compr_data_size`.
    pub compressed_bytes: Bytes,
    /// Its interval.
    pub compressed_bytes_interval: Ends<Bytes>,
    /// Pages that are stored as they are, because they do not compress.
    pub huge_pages: u64,
    /// Its interval.
    pub huge_pages_interval: Ends<u64>,
    /// zram's `mem_used_total` after a fresh fill.
    pub memory_used_bytes: Bytes,
    /// Its interval.
    pub memory_used_interval: Ends<Bytes>,
    /// What they add to a device that holds much else: no zspages of their own are begun. Of few pages
    /// much less than `memory_used_bytes`, which a device with nothing else would need.
    pub memory_in_pool_bytes: Bytes,
    /// The most that `mem_used_total` is once pages were overwritten for a while; until then it lies
    /// between.
    pub memory_used_worn_bytes: Bytes,
    /// What zram's table of slots takes besides, which no counter of the kernel has.
    pub slot_table_bytes: Bytes,
    /// Original bytes per compressed byte; absent where nothing is left to compress.
    pub original_per_compressed: Option<f64>,
    /// Its interval.
    pub original_per_compressed_interval: Option<Ends<f64>>,
    /// Original bytes per byte of memory used, slot table included.
    pub original_per_memory_used: Option<f64>,
}

impl AlgorithmEstimate {
    /// The algorithm and its level.
    #[must_use]
    pub fn compressor(&self) -> Compressor {
        Compressor { algorithm: self.name.clone(), level: self.level }
    }
}

/// What looking at pages changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disturbed {
    /// Pages that are marked as used now.
    pub referenced_pages: u64,
    /// At most so many pages were copied that were shared before; those that the kernel only marked
    /// as no longer shared (after a fork whose child is gone) are among them.
    pub unshared_pages: u64,
    /// Page faults of the reader: pages brought back from swap or file.
    pub faults: u64,
}

/// Huge pages of a source: what is mapped by them, what that wastes, where there could be more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HugeView {
    /// Pages that are mapped as part of a huge one.
    pub mapped_pages: Reading<u64>,
    /// Of those the ones that hold nothing but zeros: bloat.
    pub zero_pages: Reading<u64>,
    /// Ranges of a huge page's size, at least half in use, of which nothing is huge.
    pub collapsible_ranges: Reading<u64>,
}

/// How much memory fits in all, with a zram device full of memory like that looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Effective {
    /// Memory of the machine.
    pub ram_bytes: Bytes,
    /// Uncompressed size of the device: what findings recommend at this ratio.
    pub disksize_bytes: Bytes,
    /// What the full device takes out of RAM, slot table included.
    pub takes_bytes: Bytes,
    /// What RAM then holds in all.
    pub holds_bytes: Bytes,
    /// Original bytes per byte of memory used from which on the device pays for its slot table.
    pub break_even_ratio: f64,
}
