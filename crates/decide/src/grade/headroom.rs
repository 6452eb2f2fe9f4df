// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades how short of memory a host is, by its available memory.

use pagewise_facts::room::{self, Headroom};
use pagewise_model::{Bytes, Level, Percent, Snapshot};

/// A host is short of memory if its available memory is below the smaller of a share of RAM and a
/// size. On large hosts, 4 GiB are enough for all but bulk allocations, however small a share of
/// RAM they are.
const GRADES: [(Level, f64, Bytes); 3] = [
    (Level::Critical, 2.5, Bytes::new(1 << 30)),
    (Level::Short, 5.0, Bytes::new(2 << 30)),
    (Level::Tight, 10.0, Bytes::new(4 << 30)),
];

/// Swap counts as nearly full if at least this percentage of it is in use.
const NEARLY_FULL_PERCENT: f64 = 90.0;

/// Grades how short of memory this host is, by its available memory; `None` if that is unknown.
pub(crate) fn level_of_host(host: &Snapshot) -> Option<Level> {
    room::measure_headroom(host).map(|room| level(&room))
}

/// Grades how short of memory a host with this much available memory is. Free swap makes the grade
/// one level better, but never calm, because the kernel is already reclaiming.
pub(crate) fn level(room: &Headroom) -> Level {
    let level = grade(room.available, room.total);
    if grade(room.bytes_left(), room.total) > Level::Calm {
        return level;
    }
    match level {
        Level::Critical => Level::Short,
        Level::Short => Level::Tight,
        other => other,
    }
}

/// Grades full swap: tight while memory is available, short otherwise.
pub(crate) fn swap_level(room: &Headroom) -> Level {
    match room.swap_filled {
        Some(filled) if filled.get() >= NEARLY_FULL_PERCENT => {
            if grade(room.available, room.total) > Level::Calm {
                Level::Short
            } else {
                Level::Tight
            }
        }
        _ => Level::Calm,
    }
}

/// The amount of available memory below which the host is no longer calm.
pub(crate) fn tight_threshold(room: &Headroom) -> Bytes {
    threshold(room.total, GRADES[2].1, GRADES[2].2)
}

fn grade(available: Bytes, total: Bytes) -> Level {
    let reached =
        GRADES.iter().find(|&&(_, percent, size)| available < threshold(total, percent, size));
    reached.map_or(Level::Calm, |&(level, ..)| level)
}

fn threshold(total: Bytes, percent: f64, size: Bytes) -> Bytes {
    Percent::new(percent).share_of(total).min(size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{gib, mib};

    fn level_with(available: Bytes, swap: Bytes) -> Level {
        let room = Headroom { total: gib(16), available, swap: Some(swap), swap_filled: None };
        level(&room)
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
        assert_eq!(level(&room), Level::Calm);
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
            let size = |share: f64| Percent::new(share * 100.0).share_of(Bytes::new(total));
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
                prop_assert!(level(&worse) >= level(&before));
                prop_assert!(swap_level(&worse) >= swap_level(&before));
            }
        }
    }
}
