// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much more memory programs can get: the available memory, and memory that could still be
//! swapped out.
//!
//! `MemAvailable` is the kernel's own estimate of what can be allocated without swapping. It does
//! not include the low watermarks and the page cache that is in use. Source: the kernel's
//! `si_mem_available` and `Documentation/filesystems/proc.rst`.

use pagewise_model::{Bytes, Percent, Snapshot, Tier};

use crate::{ratio, tiers};

/// How much memory programs on this host can still get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headroom {
    /// Size of RAM (`MemTotal`); not 0.
    pub total: Bytes,
    /// Available memory: `MemAvailable` plus the part of ZFS's cache that ZFS frees when memory is
    /// short.
    pub available: Bytes,
    /// How much RAM swapping out could still free; `None` if it could not be determined.
    pub swap: Option<Bytes>,
    /// Used part of all swap in percent; `None` without swap.
    pub swap_filled: Option<Percent>,
}

/// Computes the headroom of a host; `None` if the kernel does not report the size of RAM or the
/// available memory.
pub fn measure_headroom(host: &Snapshot) -> Option<Headroom> {
    Some(Headroom {
        total: host.memory.total.get().filter(|&total| total > Bytes::new(0))?,
        available: available_memory(host)?,
        swap: swap_room(host),
        swap_filled: swap_filled_percent(host),
    })
}

/// Memory that programs can get without swapping: `MemAvailable` plus the part of ZFS's cache that
/// is freed when memory is short, which the kernel does not include.
pub fn available_memory(host: &Snapshot) -> Option<Bytes> {
    let of_zfs = host.memory.zfs_cache.reclaimable().unwrap_or_default();
    let total = host.memory.total.get()?;
    Some(host.memory.available.get()?.saturating_add(of_zfs).min(total))
}

impl Headroom {
    /// How much memory programs can still get: available memory, and RAM that swapping would free.
    pub fn bytes_left(&self) -> Bytes {
        self.available.saturating_add(self.swap.unwrap_or(Bytes::new(0)))
    }
}

fn swap_filled_percent(host: &Snapshot) -> Option<Percent> {
    let (total, free) = (host.memory.swap_total.get()?, host.memory.swap_free.get()?);
    total.saturating_sub(free).percent_of(total)
}

/// RAM that swapping out to all swap areas would still free. It is limited to the memory that can
/// be swapped out.
fn swap_room(host: &Snapshot) -> Option<Bytes> {
    if tiers::is_swap_off(host) {
        return Some(Bytes::new(0));
    }
    let rooms: Option<Vec<Bytes>> = host.tiers.iter().map(|tier| tier_room(host, tier)).collect();
    let rooms: Bytes = rooms.filter(|rooms| !rooms.is_empty())?.into_iter().sum();
    let memory = &host.memory;
    let anon = memory.active_anon.get()?.saturating_add(memory.inactive_anon.get()?);
    Some(rooms.min(anon))
}

/// How much RAM is freed if this swap area is filled: on a disk, as much as the area can take; in
/// compressed RAM, less than that because the compressed pages take RAM.
fn tier_room(host: &Snapshot, tier: &Tier) -> Option<Bytes> {
    let free = tier.size.get()?.saturating_sub(tier.used.get()?);
    if !tier.kind.is_ram() {
        return Some(free);
    }
    Some(Percent::new(100.0 * (1.0 - 1.0 / ratio::ratio(host))).share_of(free))
}

#[cfg(test)]
mod tests {
    use pagewise_testkit::made_host::{calm, mib};

    use super::*;

    #[test]
    fn compressed_swap_frees_a_part_of_what_it_takes() {
        // the device has 3.5 GiB free and a compression ratio of 2
        assert_eq!(measure_headroom(&calm().end).unwrap().swap, Some(mib(1792)));
    }
}
