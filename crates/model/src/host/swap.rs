// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap areas (tiers), in the order in which the kernel fills them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Percent, Reading};

/// The type of a swap area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TierKind {
    /// A zram device, which stores pages in compressed RAM: `/dev/zramN`.
    Zram,
    /// A zmerge device, which stores pages in compressed RAM, and equal pages once: `/dev/zmergeN`.
    Zmerge,
    /// A disk or a partition of one.
    Partition,
    /// A file on a disk that is used as swap.
    File,
}

impl TierKind {
    /// Whether the swap area is in compressed RAM and not on a disk.
    pub const fn is_ram(self) -> bool {
        matches!(self, Self::Zram | Self::Zmerge)
    }
}

/// The disk that holds a swap area.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Disk {
    /// Name of the whole disk, such as `nvme0n1`; absent if it could not be determined from the
    /// mounts.
    pub name: Reading<Name>,
    /// The disk below all mappings (LVM, dm-crypt, RAID), such as `nvme0n1`; if there are several,
    /// the first.
    pub lowest: Reading<Name>,
    /// Whether the kernel treats the disk as rotational.
    pub rotational: Reading<bool>,
    /// Whether one of the mappings above the disk encrypts the data (dm-crypt).
    pub encrypted: Reading<bool>,
    /// The type of the file system that contains the swap file.
    pub file_system: Reading<Name>,
    /// The file behind the disk, if that is a loop device.
    pub backing_file: Reading<Name>,
    /// The type of the file system that contains the file behind a loop device.
    pub backing_file_system: Reading<Name>,
}

/// One swap area: a line of `/proc/swaps`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Tier {
    /// Path of the swap device or swap file.
    pub path: Name,
    /// Type of the swap area.
    pub kind: TierKind,
    /// Capacity of the swap area.
    pub size: Reading<Bytes>,
    /// How much of the swap area is in use.
    pub used: Reading<Bytes>,
    /// Priority of the swap area: areas with a higher priority are filled first; equal priorities
    /// are filled round-robin.
    pub priority: Reading<i32>,
    /// The disk that the swap area is on; every field is absent for compressed RAM.
    pub disk: Disk,
    /// Whether zswap compresses pages in RAM before they are written to this area.
    pub zswap_in_front: Reading<bool>,
}

/// A swap area counts as full if at least this percentage of it is in use. The kernel reserves a
/// few slots per CPU, so that usage never reaches 100 %, even if the area accepts no more pages.
const FULL_PERCENT: f64 = 99.0;

impl Tier {
    /// Used part of the swap area in percent.
    #[must_use]
    pub fn filled_percent(&self) -> Option<Percent> {
        self.used.get()?.percent_of(self.size.get()?)
    }

    /// Whether the swap area accepts no more pages; `None` if its size or use is not known.
    #[must_use]
    pub fn is_full(&self) -> Option<bool> {
        self.used.get()?.fills_swap_of(self.size.get()?)
    }
}

impl Bytes {
    /// Whether a swap area of size `size` accepts no more pages if `self` bytes of it are in use;
    /// `None` if `size` is zero.
    #[must_use]
    pub fn fills_swap_of(self, size: Self) -> Option<bool> {
        Some(self.percent_of(size)?.get() >= FULL_PERCENT)
    }
}
