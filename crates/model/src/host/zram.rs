// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block devices in compressed RAM: zram's, and zmerge's, which are alike but for merging.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Algorithms, Bytes, Merging, Name, Pages, Quantity, Ratio, Reading, SizeClasses};

/// Which module makes devices in compressed RAM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The kernel's own.
    #[default]
    Zram,
    /// `kernel/zmerge`: stores each distinct page once.
    Zmerge,
}

impl Driver {
    /// What its devices are called, before their number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zram => "zram",
            Self::Zmerge => "zmerge",
        }
    }
}

/// One `/sys/block/zramN`, or `/sys/block/zmergeN`: what that has not is absent.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Zram {
    /// Whose device it is.
    pub driver: Driver,
    /// The N of zramN.
    pub id: u32,
    /// Whether a disksize was set (`initstate`).
    pub initialised: Reading<bool>,
    /// How much *uncompressed* data it may hold.
    pub disksize: Reading<Bytes>,
    /// The primary algorithm and what else the kernel offers.
    pub algorithm: Reading<Algorithms>,
    /// Algorithms for recompression, by priority; empty where the kernel has none.
    pub secondary: Vec<Secondary>,
    /// The block device that cold or incompressible pages may go to.
    pub backing_device: Reading<Name>,
    /// What the table of slots costs before anything is stored: it is not part of `mm_stat`.
    pub slot_table: Reading<Bytes>,
    /// Size and memory.
    pub mm_stat: MmStat,
    /// Failures and discards.
    pub io_stat: IoStat,
    /// Traffic with the backing device.
    pub bd_stat: BdStat,
    /// Counters that the kernel does not promise to keep.
    pub debug_stat: DebugStat,
    /// `mm_stat.original / mm_stat.compressed`.
    pub original_per_compressed: Option<Ratio>,
    /// `mm_stat.original / mm_stat.memory_used`: what compression really gained.
    pub original_per_memory_used: Option<Ratio>,
    /// How its allocator, zsmalloc, uses the memory: classes that have some. Root only, and only where the kernel was
    /// built with `CONFIG_ZSMALLOC_STAT`; not read of zmerge, which has no such allocator.
    pub size_classes: Reading<SizeClasses>,
    /// What it is used for.
    pub used_as: Reading<ZramUse>,
    /// How equal pages are merged; left out for zram, which merges none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merging: Option<Merging>,
}

impl Zram {
    /// The device's name under `/dev` and `/sys/block`.
    pub fn name(&self) -> String {
        format!("{}{}", self.driver.name(), self.id)
    }

    /// The device under `/dev`, as a [`Tier`](crate::Tier) names it.
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name())
    }
}

/// What a zram device serves as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "as", rename_all = "kebab-case")]
pub enum ZramUse {
    /// No disksize was set yet.
    NotInitialised,
    /// It has a size, nobody uses it, and it carries no swap signature that we can see.
    Nothing,
    /// `mkswap` was run on it, and nobody switched it on.
    SwapSignature,
    /// It is a swap tier.
    Swap {
        /// Higher is filled first.
        priority: i32,
    },
    /// It is mounted.
    FileSystem {
        /// The file system's kind.
        kind: Name,
    },
}

impl Quantity for ZramUse {
    fn shown(&self) -> String {
        match self {
            Self::NotInitialised => "not initialised".to_owned(),
            Self::Nothing => "nothing".to_owned(),
            Self::SwapSignature => "swap area, not switched on".to_owned(),
            Self::Swap { priority } => format!("swap, priority {priority}"),
            Self::FileSystem { kind } => format!("file system, {kind}"),
        }
    }
}

/// A line of `recomp_algorithm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Secondary {
    /// 1 to 3.
    pub priority: u32,
    /// Its algorithms.
    pub algorithms: Algorithms,
}

/// `mm_stat`: nine nameless columns, seven on old kernels. Source of names and units: the kernel's
/// zram document, and for limit and peak (bytes, not pages) `mm_stat_show`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MmStat {
    /// Uncompressed size of what is stored, same-filled pages included.
    pub original: Reading<Bytes>,
    /// Compressed size of it.
    pub compressed: Reading<Bytes>,
    /// What the allocator took for it, its own waste included.
    pub memory_used: Reading<Bytes>,
    /// Most it may take; zero means no limit.
    pub memory_limit: Reading<Bytes>,
    /// Most it ever took.
    pub memory_used_max: Reading<Bytes>,
    /// Pages of one repeated word: they take no memory.
    pub same_filled_pages: Reading<Pages>,
    /// Pages freed by compaction.
    pub compacted_pages: Reading<Pages>,
    /// Pages stored as they are because they would not compress.
    pub huge_pages: Reading<Pages>,
    /// The same, counted since the device was set up.
    pub huge_pages_since: Reading<Pages>,
}

/// `io_stat`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct IoStat {
    pub failed_reads: Reading<u64>,
    pub failed_writes: Reading<u64>,
    pub invalid_io: Reading<u64>,
    /// Slots freed early because swap told the device.
    pub notify_free: Reading<u64>,
}

/// `bd_stat`, where writeback is built in. The kernel counts units of 4 KiB.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct BdStat {
    /// Held by the backing device now.
    pub held: Reading<Bytes>,
    /// Read from it since set-up.
    pub reads: Reading<Bytes>,
    /// Written to it since set-up: flash wear.
    pub writes: Reading<Bytes>,
}

/// `debug_stat`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct DebugStat {
    pub version: Reading<u64>,
    /// Writes that had to wait for memory.
    pub writestall: Reading<u64>,
    /// Accesses that missed their slot's lock.
    pub miss_free: Reading<u64>,
}
