// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block devices in compressed RAM: zram devices and zmerge devices. zmerge has the same files as
//! zram, and merging in addition.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Algorithms, Bytes, Merging, Name, Pages, Quantity, Ratio, Reading, SizeClasses};

/// The kernel module that provides a block device in compressed RAM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The zram module of the kernel.
    #[default]
    Zram,
    /// The module in `kernel/zmerge`, which stores equal pages only once.
    Zmerge,
}

impl Driver {
    /// Name of the driver's devices without the number: `zram` or `zmerge`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zram => "zram",
            Self::Zmerge => "zmerge",
        }
    }
}

/// One zram or zmerge device, as in `/sys/block/zramN` or `/sys/block/zmergeN`; values that zmerge
/// does not have are absent for it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Zram {
    /// The kernel module that provides the device.
    pub driver: Driver,
    /// Number of the device: the N of zramN or zmergeN.
    pub id: u32,
    /// Whether the disksize of the device is set (`initstate`).
    pub initialised: Reading<bool>,
    /// Uncompressed capacity of the device.
    pub disksize: Reading<Bytes>,
    /// The primary compression algorithm, and the others that the kernel offers.
    pub algorithm: Reading<Algorithms>,
    /// Algorithms for recompression, by priority; empty if the kernel does not support
    /// recompression.
    pub secondary: Vec<Secondary>,
    /// The block device to which cold or incompressible pages may be written.
    pub backing_device: Reading<Name>,
    /// RAM that the slot table takes even if nothing is stored. `mm_stat` does not include it.
    pub slot_table: Reading<Bytes>,
    /// Sizes of the stored pages, and the memory they take.
    pub mm_stat: MmStat,
    /// Numbers of failed requests and freed slots.
    pub io_stat: IoStat,
    /// How much data is on the backing device, and how much was read from it and written to it.
    pub bd_stat: BdStat,
    /// Counters without a stable meaning across kernel versions.
    pub debug_stat: DebugStat,
    /// Compression ratio without overhead: `mm_stat.original / mm_stat.compressed`.
    pub original_per_compressed: Option<Ratio>,
    /// Compression ratio including overhead: `mm_stat.original / mm_stat.memory_used`.
    pub original_per_memory_used: Option<Ratio>,
    /// Memory of the device's allocator, zsmalloc, by size class. Only for root, and only if the
    /// kernel was built with `CONFIG_ZSMALLOC_STAT`; not read for zmerge, which uses another
    /// allocator.
    pub size_classes: Reading<SizeClasses>,
    /// What the device is used for, such as swap.
    pub used_as: Reading<ZramUse>,
    /// How the device merges equal pages; missing for zram, which does not merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merging: Option<Merging>,
}

impl Zram {
    /// Name of the device under `/dev` and `/sys/block`.
    pub fn name(&self) -> String {
        format!("{}{}", self.driver.name(), self.id)
    }

    /// Path of the device under `/dev`, spelled as [`Tier::path`](crate::Tier::path).
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name())
    }
}

/// What a zram or zmerge device is used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "as", rename_all = "kebab-case")]
pub enum ZramUse {
    /// The device cannot be used, because its disksize is not set.
    NotInitialised,
    /// The device is initialised but not in use, and Pagewise sees no swap signature on it.
    Nothing,
    /// The device was prepared with `mkswap`, but swap on it is not enabled.
    SwapSignature,
    /// The device is an active swap area.
    Swap {
        /// Priority of the swap area: areas with a higher priority are filled first.
        priority: i32,
    },
    /// A file system on the device is mounted.
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

/// A recompression algorithm of a zram device: a line of `recomp_algorithm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Secondary {
    /// Priority of the algorithm, 1 to 3.
    pub priority: u32,
    /// The active algorithm of this priority, and those that could be chosen.
    pub algorithms: Algorithms,
}

/// The columns of the device's `mm_stat`: nine without names, seven on old kernels. Source of names
/// and units: the kernel's zram document; for the limit and the peak, which are bytes and not
/// pages, its function `mm_stat_show`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MmStat {
    /// Uncompressed size of the stored pages, same-filled pages included.
    pub original: Reading<Bytes>,
    /// Compressed size of the stored pages.
    pub compressed: Reading<Bytes>,
    /// Memory that the allocator took for the compressed pages, including its overhead.
    pub memory_used: Reading<Bytes>,
    /// Limit on the allocator's memory; zero means no limit.
    pub memory_limit: Reading<Bytes>,
    /// Peak of the allocator's memory.
    pub memory_used_max: Reading<Bytes>,
    /// Number of pages in which one machine word repeats. They take no memory.
    pub same_filled_pages: Reading<Pages>,
    /// Number of pages that compaction freed.
    pub compacted_pages: Reading<Pages>,
    /// Number of incompressible pages, which are stored as they are.
    pub huge_pages: Reading<Pages>,
    /// Number of incompressible pages that were stored since the device was set up, including those
    /// that were freed.
    pub huge_pages_since: Reading<Pages>,
}

/// The device's `io_stat`: numbers of failed requests and freed slots.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct IoStat {
    pub failed_reads: Reading<u64>,
    pub failed_writes: Reading<u64>,
    pub invalid_io: Reading<u64>,
    /// Number of slots that were freed because the kernel notified the device that a swap slot is
    /// no longer used.
    pub notify_free: Reading<u64>,
}

/// The device's `bd_stat`, if the kernel supports writeback. The kernel counts units of 4 KiB.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct BdStat {
    /// Amount of data that is on the backing device now.
    pub held: Reading<Bytes>,
    /// Amount of data read from the backing device since the device was set up.
    pub reads: Reading<Bytes>,
    /// Amount of data written to the backing device since the device was set up, which wears flash.
    pub writes: Reading<Bytes>,
}

impl BdStat {
    /// Bytes in one unit of `bd_stat` and of `writeback_limit`: 4 KiB also on kernels with larger pages.
    pub const UNIT: u64 = 4096;
}

/// The device's `debug_stat`: counters without a stable meaning across kernel versions.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct DebugStat {
    pub version: Reading<u64>,
    /// Number of writes that had to wait for memory.
    pub writestall: Reading<u64>,
    /// Number of times that a slot was not freed because its lock was held.
    pub miss_free: Reading<u64>,
}
