// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block devices in compressed RAM: those of zram, and those of zmerge, which differ only in
//! merging.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Algorithms, Bytes, Merging, Name, Pages, Quantity, Ratio, Reading, SizeClasses};

/// The kernel module that provides the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The kernel's own zram.
    #[default]
    Zram,
    /// `kernel/zmerge`: stores each distinct page once.
    Zmerge,
}

impl Driver {
    /// The name of its devices without the number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zram => "zram",
            Self::Zmerge => "zmerge",
        }
    }
}

/// One `/sys/block/zramN` or `/sys/block/zmergeN`; values that zmerge does not have are absent for
/// it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Zram {
    /// The module that provides it.
    pub driver: Driver,
    /// The N of zramN.
    pub id: u32,
    /// Whether its disksize is set (`initstate`).
    pub initialised: Reading<bool>,
    /// Its uncompressed capacity.
    pub disksize: Reading<Bytes>,
    /// The primary algorithm, and the others that the kernel offers.
    pub algorithm: Reading<Algorithms>,
    /// Algorithms for recompression, by priority; empty if the kernel does not support it.
    pub secondary: Vec<Secondary>,
    /// The block device to which cold or incompressible pages may be written.
    pub backing_device: Reading<Name>,
    /// RAM that the slot table takes even if nothing is stored. It is not included in `mm_stat`.
    pub slot_table: Reading<Bytes>,
    /// Sizes and memory used.
    pub mm_stat: MmStat,
    /// Failed requests and freed slots.
    pub io_stat: IoStat,
    /// Traffic with the backing device.
    pub bd_stat: BdStat,
    /// Counters without a stable meaning across kernel versions.
    pub debug_stat: DebugStat,
    /// Compression ratio without overhead: `mm_stat.original / mm_stat.compressed`.
    pub original_per_compressed: Option<Ratio>,
    /// Compression ratio including overhead: `mm_stat.original / mm_stat.memory_used`.
    pub original_per_memory_used: Option<Ratio>,
    /// Memory of its allocator, zsmalloc, by size class. Only for root, and only if the kernel was
    /// built with `CONFIG_ZSMALLOC_STAT`; not read for zmerge, which uses another allocator.
    pub size_classes: Reading<SizeClasses>,
    /// What it is used for.
    pub used_as: Reading<ZramUse>,
    /// How equal pages are merged; missing for zram, which does not merge.
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

/// What the device is used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "as", rename_all = "kebab-case")]
pub enum ZramUse {
    /// Its disksize is not set.
    NotInitialised,
    /// It is initialised but not in use, and it has no swap signature that we can see.
    Nothing,
    /// `mkswap` was run on it, but the swap is not enabled.
    SwapSignature,
    /// It is an active swap area.
    Swap {
        /// Areas with a higher priority are filled first.
        priority: i32,
    },
    /// It is mounted.
    FileSystem {
        /// Type of the file system.
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

/// One recompression algorithm: a line of `recomp_algorithm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Secondary {
    /// Its priority, 1 to 3.
    pub priority: u32,
    /// The active algorithm and those that could be chosen.
    pub algorithms: Algorithms,
}

/// `mm_stat`: nine columns without names, seven on old kernels. Source of names and units: the
/// kernel's zram document and, for limit and peak (bytes, not pages), `mm_stat_show`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MmStat {
    /// Uncompressed size of the stored pages, same-filled pages included.
    pub original: Reading<Bytes>,
    /// Compressed size of it.
    pub compressed: Reading<Bytes>,
    /// Memory that the allocator took for them, including its overhead.
    pub memory_used: Reading<Bytes>,
    /// Limit on that memory; zero means no limit.
    pub memory_limit: Reading<Bytes>,
    /// Peak of that memory.
    pub memory_used_max: Reading<Bytes>,
    /// Pages with one repeated word: they take no memory.
    pub same_filled_pages: Reading<Pages>,
    /// Pages freed by compaction.
    pub compacted_pages: Reading<Pages>,
    /// Incompressible pages, stored as they are.
    pub huge_pages: Reading<Pages>,
    /// Incompressible pages that were stored since the device was set up.
    pub huge_pages_since: Reading<Pages>,
}

/// `io_stat`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct IoStat {
    pub failed_reads: Reading<u64>,
    pub failed_writes: Reading<u64>,
    pub invalid_io: Reading<u64>,
    /// Slots freed because swap notified the device that it no longer needs them.
    pub notify_free: Reading<u64>,
}

/// `bd_stat`, if the kernel supports writeback. The kernel counts units of 4 KiB.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct BdStat {
    /// Data on the backing device now.
    pub held: Reading<Bytes>,
    /// Data read from it since the device was set up.
    pub reads: Reading<Bytes>,
    /// Data written to it since the device was set up: flash wear.
    pub writes: Reading<Bytes>,
}

/// `debug_stat`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct DebugStat {
    pub version: Reading<u64>,
    /// Writes that had to wait for memory.
    pub writestall: Reading<u64>,
    /// Frees that were skipped because the slot's lock was held.
    pub miss_free: Reading<u64>,
}
