// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap tiers: which is fast, which device stands behind one. Which is full, model says.

use pagewise_model::{Bytes, Snapshot, Tier, TierKind, Zram};

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
