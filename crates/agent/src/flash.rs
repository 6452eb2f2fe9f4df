// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daily limit on what a zram device writes to its backing device, which wears flash.
//!
//! The kernel counts what was written since the device was set up (`bd_stat`); it counts whoever
//! asked for it. Before a writeback, the agent records on disk how much it grants, and the kernel
//! enforces that (`writeback_limit`). After a kill, the kernel's counter says what was written. After
//! a reboot or a reset of the device it does not: then all that was granted counts as written. So an
//! agent that is killed at any moment, or a machine that loses power, cannot exceed the limit.
//!
//! A day is a day of Unix time. If the clock is set to the day before, the later day stays in force. A
//! recorded day further ahead than that was of a wrong clock: what was written then counts as written
//! today, so that the limit is not spent until that day comes.
//!
//! If nothing is recorded, for example at the first start, all that the kernel has counted since the
//! device was set up counts as written today: it may have been.

use pagewise_model::{BdStat, Bytes};
use serde::{Deserialize, Serialize};

const DAY: u64 = 86_400;

/// What a device wrote today, as it is kept across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashAccount {
    /// The day in Unix time, in days.
    day: u64,
    /// Bytes written on this day.
    written: u64,
    /// Bytes that may have been written since the counter was last read.
    granted: u64,
    /// Names the device and the boot to which `counter` belongs.
    epoch: String,
    /// The kernel's counter when it was last read, in bytes.
    counter: u64,
}

impl FlashAccount {
    /// Counts what was written since the last call. `epoch` names the device as it was set up in this
    /// boot, `counter` is the kernel's.
    pub fn count(&mut self, unix_seconds: u64, epoch: &str, counter: Bytes) {
        let counter = counter.get();
        let day = unix_seconds / DAY;
        if day > self.day {
            self.day = day;
            self.written = 0;
        } else if day + 1 < self.day {
            self.day = day;
        }
        let written = if self.epoch == epoch && counter >= self.counter {
            counter - self.counter
        } else {
            self.granted.saturating_add(counter)
        };
        self.written = self.written.saturating_add(written);
        self.granted = 0;
        epoch.clone_into(&mut self.epoch);
        self.counter = counter;
    }

    /// What may still be written today, in whole units.
    pub fn left(&self, per_day: Bytes) -> Bytes {
        let left = per_day.get().saturating_sub(self.written.saturating_add(self.granted));
        Bytes::new(left - left % BdStat::UNIT)
    }

    /// Records that up to this many bytes may be written from now on. It has to be on disk before they
    /// are.
    pub fn grant(&mut self, bytes: Bytes) {
        self.granted = self.granted.saturating_add(bytes.get());
    }

    /// Bytes written today.
    pub fn written(&self) -> Bytes {
        Bytes::new(self.written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EPOCH: &str = "boot/1";

    fn at(day: u64) -> u64 {
        day * DAY + 5
    }

    #[test]
    fn what_others_write_counts_and_a_new_day_begins_with_the_whole_limit() {
        let limit = Bytes::new(10 * BdStat::UNIT + 1);
        let mut account = FlashAccount::default();
        account.count(at(2), EPOCH, Bytes::new(1 << 20));
        assert_eq!(account.left(limit), Bytes::new(0), "it may have been written today");
        account.count(at(3), EPOCH, Bytes::new(1 << 20));
        assert_eq!(account.left(limit), Bytes::new(10 * BdStat::UNIT));
        account.count(at(3), EPOCH, Bytes::new((1 << 20) + 4 * BdStat::UNIT));
        assert_eq!(account.left(limit), Bytes::new(6 * BdStat::UNIT));
        assert_eq!(account.written(), Bytes::new(4 * BdStat::UNIT));
        account.count(at(2), EPOCH, Bytes::new((1 << 20) + 4 * BdStat::UNIT));
        assert_eq!(account.left(limit), Bytes::new(6 * BdStat::UNIT), "the clock went back");
        account.count(at(4), EPOCH, Bytes::new((1 << 20) + 4 * BdStat::UNIT));
        assert_eq!(account.left(limit), Bytes::new(10 * BdStat::UNIT));
    }

    #[test]
    fn a_day_of_a_clock_that_was_far_ahead_does_not_stay_in_force() {
        let limit = Bytes::new(10 * BdStat::UNIT);
        let mut account = FlashAccount::default();
        account.count(at(9000), EPOCH, Bytes::new(10 * BdStat::UNIT));
        account.count(at(3), EPOCH, Bytes::new(10 * BdStat::UNIT));
        assert_eq!(account.left(limit), Bytes::new(0), "written at the same time");
        account.count(at(4), EPOCH, Bytes::new(10 * BdStat::UNIT));
        assert_eq!(account.left(limit), limit);
    }

    #[derive(Debug, Clone)]
    enum Event {
        /// The agent grants this much if it may, and the kernel writes this share of it.
        Write { wanted: u64, share: u8 },
        /// The agent is killed after the kernel wrote this share of a grant.
        Kill { wanted: u64, share: u8 },
        /// The same with the whole machine, whose counters begin at zero.
        PowerLoss { wanted: u64, share: u8 },
        /// Time passes.
        Hours(u8),
    }

    fn event() -> impl Strategy<Value = Event> {
        let amounts = || (0u64..40, 0u8..=100);
        prop_oneof![
            4 => amounts().prop_map(|(wanted, share)| Event::Write { wanted, share }),
            1 => amounts().prop_map(|(wanted, share)| Event::Kill { wanted, share }),
            1 => amounts().prop_map(|(wanted, share)| Event::PowerLoss { wanted, share }),
            2 => (1u8..30).prop_map(Event::Hours),
        ]
    }

    proptest! {
        /// Whatever happens, the flash takes at most the limit on each day.
        #[test]
        fn no_day_has_more_than_the_limit(
            limit in 0u64..100,
            events in proptest::collection::vec(event(), 1..100),
        ) {
            let limit = Bytes::new(limit * BdStat::UNIT);
            let (mut now, mut boot, mut counter) = (0u64, 0u32, 0u64);
            let mut by_day = std::collections::BTreeMap::<u64, u64>::new();
            // what is on disk; the agent's own copy ends with it
            let mut disk = FlashAccount::default();
            for event in events {
                let epoch = format!("boot{boot}/1");
                let mut account = disk.clone();
                account.count(now, &epoch, Bytes::new(counter));
                let mut write = |wanted: u64, share: u8, account: &mut FlashAccount| {
                    let granted = account.left(limit).get().min(wanted * BdStat::UNIT);
                    account.grant(Bytes::new(granted));
                    let units = granted / BdStat::UNIT * u64::from(share) / 100;
                    *by_day.entry(now / DAY).or_default() += units * BdStat::UNIT;
                    units * BdStat::UNIT
                };
                match event {
                    Event::Write { wanted, share } => {
                        counter += write(wanted, share, &mut account);
                        account.count(now, &epoch, Bytes::new(counter));
                    }
                    Event::Kill { wanted, share } => counter += write(wanted, share, &mut account),
                    Event::PowerLoss { wanted, share } => {
                        write(wanted, share, &mut account);
                        (boot, counter) = (boot + 1, 0);
                    }
                    Event::Hours(hours) => now += u64::from(hours) * 3600,
                }
                disk = account;
            }
            for (day, bytes) in by_day {
                prop_assert!(bytes <= limit.get(), "day {day}: {bytes}");
            }
        }

        /// Without kills, all of the limit can be used, in whole units.
        #[test]
        fn all_of_the_limit_can_be_used(limit in 0u64..1_000_000, slice in 1u64..50) {
            let limit = Bytes::new(limit);
            let (mut account, mut counter) = (FlashAccount::default(), 0);
            account.count(at(0), EPOCH, Bytes::new(0));
            loop {
                let granted = account.left(limit).get().min(slice * BdStat::UNIT);
                if granted == 0 {
                    break;
                }
                account.grant(Bytes::new(granted));
                counter += granted;
                account.count(at(0), EPOCH, Bytes::new(counter));
            }
            prop_assert_eq!(counter, limit.get() / BdStat::UNIT * BdStat::UNIT);
        }
    }
}
