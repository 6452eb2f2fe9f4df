// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much memory programs can still get: what is available, and what swap could still take.
//!
//! `MemAvailable` is the kernel's own estimate of what can be allocated without swapping; it already
//! leaves the low watermarks and the part of the page cache that is in use out. Source: the kernel's
//! `si_mem_available` and `Documentation/filesystems/proc.rst`.

use pagewise_model::{Bytes, Level, Percent, Snapshot, Tier};

use super::{advice, tiers};

/// Available memory below a share of RAM, and below a size on large hosts: 4 GiB that can be had at
/// once are enough headroom for any allocation that is not a bulk one, whatever share of RAM they are.
const GRADES: [(Level, f64, Bytes); 3] = [
    (Level::Critical, 2.5, Bytes::new(1 << 30)),
    (Level::Short, 5.0, Bytes::new(2 << 30)),
    (Level::Tight, 10.0, Bytes::new(4 << 30)),
];

/// Swap filled to this share counts as nearly full.
pub(crate) const NEARLY_FULL_PERCENT: f64 = 90.0;

/// The headroom of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Headroom {
    pub(crate) total: Bytes,
    pub(crate) available: Bytes,
    /// RAM that swapping out could still free; `None` if it could not be determined.
    pub(crate) swap: Option<Bytes>,
    /// How far swap as a whole is filled; `None` without swap.
    pub(crate) swap_filled: Option<Percent>,
}

/// `None` if the kernel does not say how much memory there is or how much is available.
pub(crate) fn room(host: &Snapshot) -> Option<Headroom> {
    Some(Headroom {
        total: host.memory.total.get().filter(|&total| total > Bytes::new(0))?,
        available: host.memory.available.get()?,
        swap: swap_room(host),
        swap_filled: swap_filled(host),
    })
}

impl Headroom {
    /// What programs can still get: available memory, and RAM that swapping out would free.
    pub(crate) fn left(&self) -> Bytes {
        self.available.saturating_add(self.swap.unwrap_or(Bytes::new(0)))
    }

    /// How low available memory is. Swap with room makes it one level milder, but never calm: the
    /// kernel is already reclaiming then.
    pub(crate) fn level(&self) -> Level {
        let level = grade(self.available, self.total);
        if grade(self.left(), self.total) > Level::Calm {
            return level;
        }
        match level {
            Level::Critical => Level::Short,
            Level::Short => Level::Tight,
            other => other,
        }
    }

    /// How full swap is: worth a word while memory is available, worse when it is not.
    pub(crate) fn swap_level(&self) -> Level {
        match self.swap_filled {
            Some(filled) if filled.get() >= NEARLY_FULL_PERCENT => {
                if grade(self.available, self.total) > Level::Calm {
                    Level::Short
                } else {
                    Level::Tight
                }
            }
            _ => Level::Calm,
        }
    }

    /// Available memory at which the host stops being calm.
    pub(crate) fn tight_below(&self) -> Bytes {
        threshold(self.total, GRADES[2].1, GRADES[2].2)
    }
}

fn grade(available: Bytes, total: Bytes) -> Level {
    let reached =
        GRADES.iter().find(|&&(_, percent, size)| available < threshold(total, percent, size));
    reached.map_or(Level::Calm, |&(level, ..)| level)
}

fn threshold(total: Bytes, percent: f64, size: Bytes) -> Bytes {
    share_of(total, percent).min(size)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of at most 100 % of a size, which is never negative"
)]
fn share_of(whole: Bytes, percent: f64) -> Bytes {
    Bytes::new((whole.get() as f64 * percent / 100.0) as u64)
}

fn swap_filled(host: &Snapshot) -> Option<Percent> {
    let (total, free) = (host.memory.swap_total.get()?, host.memory.swap_free.get()?);
    total.saturating_sub(free).percent_of(total)
}

/// What all tiers together could still free, and no more than there is to swap out.
fn swap_room(host: &Snapshot) -> Option<Bytes> {
    if tiers::swap_is_off(host) {
        return Some(Bytes::new(0));
    }
    let rooms: Option<Vec<Bytes>> = host.tiers.iter().map(|tier| tier_room(host, tier)).collect();
    let rooms: Bytes = rooms.filter(|rooms| !rooms.is_empty())?.into_iter().sum();
    let memory = &host.memory;
    let anon = memory.active_anon.get()?.saturating_add(memory.inactive_anon.get()?);
    Some(rooms.min(anon))
}

/// RAM that filling this tier would free: all of what a disk takes, a part of what compressed RAM
/// takes.
fn tier_room(host: &Snapshot, tier: &Tier) -> Option<Bytes> {
    let free = tier.size.get()?.saturating_sub(tier.used.get()?);
    if !tier.kind.is_ram() {
        return Some(free);
    }
    Some(share_of(free, 100.0 * (1.0 - 1.0 / advice::ratio(host))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{calm, gib, mib};

    fn level_with(available: Bytes, swap: Bytes) -> Level {
        let room = Headroom { total: gib(16), available, swap: Some(swap), swap_filled: None };
        room.level()
    }

    #[test]
    fn available_memory_is_graded_and_swap_helps_by_one_level() {
        let none = Bytes::new(0);
        assert_eq!(level_with(gib(2), none), Level::Calm);
        assert_eq!(level_with(mib(1600), none), Level::Tight);
        assert_eq!(level_with(mib(800), none), Level::Short);
        assert_eq!(level_with(mib(230), none), Level::Critical);
        assert_eq!(level_with(mib(230), gib(4)), Level::Short);
        assert_eq!(level_with(mib(230), mib(100)), Level::Critical);
        assert_eq!(level_with(mib(1600), gib(4)), Level::Tight);
    }

    #[test]
    fn a_large_host_is_not_tight_with_gigabytes_available() {
        let room = Headroom { total: gib(1024), available: gib(20), swap: None, swap_filled: None };
        assert_eq!(room.level(), Level::Calm);
    }

    #[test]
    fn compressed_swap_frees_a_part_of_what_it_takes() {
        // 3.5 GiB free in a device that halves what it stores
        assert_eq!(room(&calm().end).unwrap().swap, Some(mib(1792)));
    }

    proptest! {
        #[test]
        fn less_room_is_never_milder(
            total in 1u64 << 24..1 << 44,
            available in 0.0f64..1.0,
            less in 0.0f64..1.0,
            swap in 0u64..1 << 44,
            filled in 0.0f64..100.0,
        ) {
            let size = |share: f64| share_of(Bytes::new(total), share * 100.0);
            let at = |available, swap, filled| Headroom {
                total: Bytes::new(total),
                available,
                swap: Some(Bytes::new(swap)),
                swap_filled: Some(Percent::new(filled)),
            };
            let before = at(size(available), swap, filled);
            for worse in [
                at(size(available * less), swap, filled),
                at(size(available), swap / 2, filled),
                at(size(available), swap, f64::midpoint(filled, 100.0)),
            ] {
                prop_assert!(worse.level() >= before.level());
                prop_assert!(worse.swap_level() >= before.swap_level());
            }
        }
    }
}
