// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap tiers: which lie on a disk, what kind of disk that is, which device is which tier. Which is full, model says.

use pagewise_model::{Bytes, Disk, Name, Snapshot, Tier, Zram};

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
pub fn on_disk(host: &Snapshot) -> impl Iterator<Item = &Tier> {
    host.tiers.iter().filter(|tier| !tier.kind.is_ram())
}

/// The tiers in compressed RAM.
pub fn in_ram(host: &Snapshot) -> impl Iterator<Item = &Tier> {
    host.tiers.iter().filter(|tier| tier.kind.is_ram())
}

/// What all disk tiers hold, as far as it is known.
pub fn held_on_disk(host: &Snapshot) -> Bytes {
    on_disk(host).filter_map(|tier| tier.used.get()).sum()
}

/// The tier that this device is.
pub fn tier_of<'a>(host: &'a Snapshot, device: &Zram) -> Option<&'a Tier> {
    let path = device.path();
    in_ram(host).find(|tier| tier.path.as_str() == path)
}

/// The device that this tier is.
pub fn device_of<'a>(host: &'a Snapshot, tier: &Tier) -> Option<&'a Zram> {
    host.compressed().find(|zram| tier.path.as_str() == zram.path())
}

/// Whether the host has no swap at all.
pub fn swap_is_off(host: &Snapshot) -> bool {
    host.tiers.is_empty() && host.memory.swap_total.get() == Some(Bytes::new(0))
}
