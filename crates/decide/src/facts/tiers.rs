// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap tiers: which is fast, which device stands behind one. Which is full, model says.

use pagewise_model::{Bytes, Disk, Name, Snapshot, Tier, TierKind, Zram};

/// How fast a tier answers, slowest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speed {
    /// Compressed RAM: microseconds.
    Ram,
    /// A disk without moving parts: tens of microseconds and more.
    Flash,
    /// A spinning disk: milliseconds.
    Spinning,
}

/// Its speed; `None` for a disk of which the kernel does not say whether it spins.
pub(crate) fn speed(tier: &Tier) -> Option<Speed> {
    match tier.kind {
        TierKind::Zram | TierKind::Zmerge => Some(Speed::Ram),
        TierKind::Partition | TierKind::File => {
            let spins = tier.disk.rotational.get()?;
            Some(if spins { Speed::Spinning } else { Speed::Flash })
        }
    }
}

/// Whether this tier is surely faster than that: RAM beats any disk, even one unknown.
pub(crate) fn is_faster(this: &Tier, that: &Tier) -> bool {
    match (speed(this), speed(that)) {
        (Some(this), Some(that)) => this < that,
        (Some(Speed::Ram), None) => true,
        _ => false,
    }
}

/// What a disk is, as far as it matters for swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// NVMe or another disk without moving parts.
    Flash,
    /// A disk of a virtual machine, with anything below it.
    Virtual,
    /// A hard disk.
    Spinning,
    /// A memory card or eMMC, which wears out.
    Card,
    /// Reached over a network: to write there takes memory.
    Network,
}

/// What this disk is; `None` if the kernel does not tell, or its name is not known here. A virtual disk calls itself
/// rotational unless somebody told it otherwise.
#[must_use]
pub fn disk_kind(disk: &Disk, is_guest: bool) -> Option<DiskKind> {
    const NETWORK: [&str; 6] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph"];
    if disk.file_system.value().is_some_and(|name| NETWORK.contains(&name.as_str())) {
        return Some(DiskKind::Network);
    }
    let name = disk.lowest.value().map(Name::as_str)?;
    let is_any = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    if is_any(&["mmcblk"]) {
        Some(DiskKind::Card)
    } else if is_any(&["nbd", "rbd", "drbd"]) {
        Some(DiskKind::Network)
    } else if is_any(&["vd", "xvd"]) {
        Some(DiskKind::Virtual)
    } else if is_any(&["nvme", "sd", "hd"]) {
        disk.rotational.get().map(|spins| match (spins, is_guest) {
            (true, true) => DiskKind::Virtual,
            (true, false) => DiskKind::Spinning,
            (false, _) => DiskKind::Flash,
        })
    } else {
        None
    }
}

/// The tiers that lie on a disk.
pub(crate) fn on_disk(host: &Snapshot) -> impl Iterator<Item = &Tier> {
    host.tiers.iter().filter(|tier| !tier.kind.is_ram())
}

/// The tiers in compressed RAM.
pub(crate) fn in_ram(host: &Snapshot) -> impl Iterator<Item = &Tier> {
    host.tiers.iter().filter(|tier| tier.kind.is_ram())
}

/// What all disk tiers hold, as far as it is known.
pub(crate) fn held_on_disk(host: &Snapshot) -> Bytes {
    on_disk(host).filter_map(|tier| tier.used.get()).sum()
}

/// The tier that this device is.
pub(crate) fn tier_of<'a>(host: &'a Snapshot, device: &Zram) -> Option<&'a Tier> {
    let path = device.path();
    in_ram(host).find(|tier| tier.path.as_str() == path)
}

/// The device that this tier is.
pub(crate) fn device_of<'a>(host: &'a Snapshot, tier: &Tier) -> Option<&'a Zram> {
    host.compressed().find(|zram| tier.path.as_str() == zram.path())
}

/// Whether the host has no swap at all.
pub(crate) fn swap_is_off(host: &Snapshot) -> bool {
    host.tiers.is_empty() && host.memory.swap_total.get() == Some(Bytes::new(0))
}
