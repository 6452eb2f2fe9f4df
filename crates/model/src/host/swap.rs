// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap areas (tiers), in the order in which the kernel fills them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Percent, Reading};

/// The type of a swap area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TierKind {
    /// Compressed RAM: `/dev/zramN`.
    Zram,
    /// Compressed RAM in which equal pages are stored once: `/dev/zmergeN`.
    Zmerge,
    /// A disk or a partition.
    Partition,
    /// A swap file.
    File,
}

impl TierKind {
    /// Whether it is compressed RAM and not a disk.
    pub const fn is_ram(self) -> bool {
        matches!(self, Self::Zram | Self::Zmerge)
    }
}

/// The disk that a swap area is on.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Disk {
    /// The whole disk, such as `nvme0n1`; absent if it could not be determined from the mounts.
    pub name: Reading<Name>,
    /// The disk below all mappings (LVM, dm-crypt, RAID), such as `nvme0n1`; if there are several,
    /// the first.
    pub lowest: Reading<Name>,
    /// Whether the kernel treats it as a rotational disk.
    pub rotational: Reading<bool>,
    /// Whether one of the mappings encrypts the data (dm-crypt).
    pub encrypted: Reading<bool>,
    /// The type of the file system that contains the swap file.
    pub file_system: Reading<Name>,
}

/// One swap area: a line of `/proc/swaps`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Tier {
    /// The device or file.
    pub path: Name,
    /// Its type.
    pub kind: TierKind,
    /// Its capacity.
    pub size: Reading<Bytes>,
    /// How much of it is in use.
    pub used: Reading<Bytes>,
    /// Areas with a higher priority are filled first; equal priorities are filled round-robin.
    pub priority: Reading<i32>,
    /// The disk that it is on; every field is absent for compressed RAM.
    pub disk: Disk,
    /// Whether zswap compresses pages in RAM before they are written to this area.
    pub zswap_in_front: Reading<bool>,
}

/// From this use on, an area counts as full: the kernel reserves a few slots per CPU, so that an
/// area that accepts nothing more never shows 100 %.
const FULL_PERCENT: f64 = 99.0;

impl Tier {
    /// Its use in percent.
    #[must_use]
    pub fn filled(&self) -> Option<Percent> {
        self.used.get()?.percent_of(self.size.get()?)
    }

    /// Whether it accepts no more pages; `None` if its size or use is not known.
    #[must_use]
    pub fn is_full(&self) -> Option<bool> {
        self.used.get()?.fills_swap_of(self.size.get()?)
    }
}

impl Bytes {
    /// Whether a swap area of size `size` accepts no more pages with this much in use; `None` if
    /// `size` is zero.
    #[must_use]
    pub fn fills_swap_of(self, size: Self) -> Option<bool> {
        Some(self.percent_of(size)?.get() >= FULL_PERCENT)
    }
}
