// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about swap areas (tiers): which of them are on a disk, what kind of disk that is, and
//! which device belongs to which area. Whether an area is full is decided in `pagewise_model`.

use pagewise_model::{Bytes, Disk, Name, Snapshot, Tier, Zram};

/// The kind of a disk, as far as it matters for swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// NVMe or another disk without moving parts.
    Flash,
    /// A disk of a virtual machine, whose hardware is not known.
    Virtual,
    /// A hard disk with rotating platters.
    Spinning,
    /// A memory card or eMMC, which wears out by writing.
    Card,
    /// A disk or file system that is reached over a network, so that writing to it needs memory.
    Network,
}

/// The kind of this disk; `None` if the kernel does not report it, or if the name of the disk is
/// unknown. A virtual disk claims to be rotational unless it was configured otherwise.
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

/// A reason why writing to a swap area needs memory, which is scarce when the kernel swaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedsMemory {
    /// The swap file or device is itself in RAM without compression, so that a swapped-out page
    /// only moves within RAM.
    InRam,
    /// The swap area is a loop device: the file system below it has to allocate memory to write.
    Loop,
    /// The swap area is a volume of ZFS, which allocates memory to write.
    Zfs,
    /// The swap area is on a disk or file system that is reached over a network.
    Network,
}

/// The reason why writing to this swap area needs memory; `None` if it needs none, or if this is
/// not known.
pub fn needs_memory(tier: &Tier) -> Option<NeedsMemory> {
    const IN_RAM: [&str; 3] = ["tmpfs", "ramfs", "rootfs"];
    let is_in_ram = |name: &Name| IN_RAM.contains(&name.as_str());
    let starts = |name: &str, start: &str| {
        let rest = name.strip_prefix(start);
        rest.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let disk = &tier.disk;
    if disk.backing_file_system.value().is_some_and(is_in_ram) {
        return Some(NeedsMemory::InRam);
    }
    // the name in the path is sufficient if no file of /sys was collected
    let in_path = tier.path.as_str().strip_prefix("/dev/");
    let names =
        [disk.name.value().map(Name::as_str), disk.lowest.value().map(Name::as_str), in_path];
    let is_any = |start| names.into_iter().flatten().any(|name| starts(name, start));
    if is_any("ram") {
        Some(NeedsMemory::InRam)
    } else if is_any("loop") {
        Some(NeedsMemory::Loop)
    } else if is_any("zd") || in_path.is_some_and(|name| name.starts_with("zvol/")) {
        Some(NeedsMemory::Zfs)
    } else if disk_kind(disk, false) == Some(DiskKind::Network)
        || ["nbd", "rbd", "drbd"].into_iter().any(is_any)
    {
        Some(NeedsMemory::Network)
    } else {
        None
    }
}

/// The swap areas on disks.
pub fn on_disk(host: &Snapshot) -> impl Iterator<Item = &Tier> {
    host.tiers.iter().filter(|tier| !tier.kind.is_ram())
}

/// The swap areas in compressed RAM.
pub fn in_ram(host: &Snapshot) -> impl Iterator<Item = &Tier> {
    host.tiers.iter().filter(|tier| tier.kind.is_ram())
}

/// Total size of the pages in all swap areas on disks, as far as it is known.
pub fn stored_on_disk(host: &Snapshot) -> Bytes {
    on_disk(host).filter_map(|tier| tier.used.get()).sum()
}

/// The swap area that is on this zram device; `None` if the device is not used as swap.
pub fn tier_of<'a>(host: &'a Snapshot, device: &Zram) -> Option<&'a Tier> {
    let path = device.path();
    in_ram(host).find(|tier| tier.path.as_str() == path)
}

/// The zram device that this swap area is on; `None` if the area is on a disk.
pub fn device_of<'a>(host: &'a Snapshot, tier: &Tier) -> Option<&'a Zram> {
    host.compressed_devices().find(|zram| tier.path.as_str() == zram.path())
}

/// Whether the host has no swap at all.
pub fn is_swap_off(host: &Snapshot) -> bool {
    host.tiers.is_empty() && host.memory.swap_total.get() == Some(Bytes::new(0))
}
