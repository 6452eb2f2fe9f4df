// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap tiers, in the order in which the kernel fills them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Percent, Reading};

/// What stands behind a swap tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TierKind {
    /// Compressed RAM: `/dev/zramN`.
    Zram,
    /// Compressed RAM with equal pages merged: `/dev/zmergeN`.
    Zmerge,
    /// A disk or a partition of one.
    Partition,
    /// A file in a file system.
    File,
}

impl TierKind {
    /// Whether it is compressed RAM, and no disk.
    pub const fn is_ram(self) -> bool {
        matches!(self, Self::Zram | Self::Zmerge)
    }
}

/// The disk under a tier.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Disk {
    /// The whole disk, as `nvme0n1`; absent where it could not be told from what is mounted.
    pub name: Reading<Name>,
    /// The disk below all mappings (LVM, dm-crypt, RAID), as `nvme0n1`; of several disks the first.
    pub lowest: Reading<Name>,
    /// Whether the kernel takes it for a spinning disk.
    pub rotational: Reading<bool>,
    /// Whether one of the mappings encrypts what is written (dm-crypt).
    pub encrypted: Reading<bool>,
    /// The file system that a swap file lies in.
    pub file_system: Reading<Name>,
}

/// One line of `/proc/swaps`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Tier {
    /// The device or file.
    pub path: Name,
    /// What stands behind it.
    pub kind: TierKind,
    /// What it can take.
    pub size: Reading<Bytes>,
    /// What it holds.
    pub used: Reading<Bytes>,
    /// Higher is filled first; equal priorities are filled in turn.
    pub priority: Reading<i32>,
    /// The disk under it; every field absent for compressed RAM.
    pub disk: Disk,
    /// Whether zswap keeps what it can in RAM before writing here.
    pub zswap_in_front: Reading<bool>,
}

/// A tier counts as full from here: the kernel keeps a few slots back per CPU, so that one that takes
/// nothing more never shows 100 %.
const FULL_PERCENT: f64 = 99.0;

impl Tier {
    /// How far it is filled.
    #[must_use]
    pub fn filled(&self) -> Option<Percent> {
        self.used.get()?.percent_of(self.size.get()?)
    }

    /// Whether nothing more goes there; `None` where its size or use is not known.
    #[must_use]
    pub fn is_full(&self) -> Option<bool> {
        self.used.get()?.fills_swap_of(self.size.get()?)
    }
}

impl Bytes {
    /// Whether swap of this size takes nothing more with so much in it; `None` for swap of no size.
    #[must_use]
    pub fn fills_swap_of(self, size: Self) -> Option<bool> {
        Some(self.percent_of(size)?.get() >= FULL_PERCENT)
    }
}
