// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two snapshots of one host and the time between them: rates are computed from these.

use crate::{Evidence, Quantity, Reading, Snapshot, Source};

/// Two snapshots of one host, from which rates are computed; only one snapshot if there was no time
/// to take a second one.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// The earlier Snapshot; `None` if only one was taken. Rates are then not available.
    pub start: Option<Box<Snapshot>>,
    /// The later Snapshot: the current state.
    pub end: Snapshot,
}

/// How much a counter grew over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Growth of the counter, in its own unit.
    pub delta: u64,
    /// Growth of the counter per second.
    pub per_second: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// The file and line that the counter was read from.
    pub source: Source,
}

impl Change {
    /// Turns this change into the evidence of a finding.
    pub fn evidence(&self) -> Evidence {
        let value = format!("+{} in {:.1} s ({:.0}/s)", self.delta, self.seconds, self.per_second);
        Evidence::new(&self.source, value)
    }
}

/// A counter of the kernel: a value that only grows, except that a reset sets it back to 0.
pub trait Counter: Quantity + Copy {
    /// The counter as a plain number, in its own unit.
    fn count(self) -> u64;
}

impl Counter for u64 {
    fn count(self) -> u64 {
        self
    }
}

macro_rules! counter {
    ($($unit:ty),*) => {
        $(impl Counter for $unit {
            fn count(self) -> u64 {
                self.get()
            }
        })*
    };
}

counter!(crate::Micros, crate::Millis, crate::Nanos, crate::Pages, crate::Bytes);

impl Interval {
    /// Creates an interval from one snapshot, without an earlier one. It has no rates.
    pub fn single(end: Snapshot) -> Self {
        Self { start: None, end }
    }

    /// The time between the snapshots in seconds; `None` if there is only one or if the host was
    /// rebooted in between.
    pub fn seconds(&self) -> Option<f64> {
        let start = self.start.as_deref()?;
        if start.taken.boot_id.value() != self.end.taken.boot_id.value() {
            return None;
        }
        let seconds = self.end.taken.monotonic_seconds - start.taken.monotonic_seconds;
        (seconds > 0.0).then_some(seconds)
    }

    /// Computes how much the counter that `pick` selects grew. `None` if there is no earlier
    /// snapshot, if either value is missing, or if the counter decreased, which means that it was
    /// reset.
    pub fn change<T: Counter>(&self, pick: impl Fn(&Snapshot) -> Reading<T>) -> Option<Change> {
        let seconds = self.seconds()?;
        let before = pick(self.start.as_deref()?).get()?.count();
        let after = pick(&self.end);
        let delta = after.get()?.count().checked_sub(before)?;
        Some(Change { delta, per_second: delta as f64 / seconds, seconds, source: after.source })
    }

    /// How much a counter of `/proc/vmstat` grew.
    pub fn vmstat(&self, name: &str) -> Option<Change> {
        self.change(|snapshot| snapshot.vmstat.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    fn snapshot_at(seconds: f64, boot: &str, faults: u64) -> Snapshot {
        let line = Source::line("/proc/vmstat", 7);
        let mut snapshot = Snapshot::default();
        snapshot.taken.monotonic_seconds = seconds;
        snapshot.taken.boot_id = Reading::found(Name::from(boot), Source::file("/boot_id"));
        snapshot.vmstat =
            [(Name::from("pgmajfault"), Reading::found(faults, line))].into_iter().collect();
        snapshot
    }

    fn between(start: Snapshot, end: Snapshot) -> Interval {
        Interval { start: Some(Box::new(start)), end }
    }

    #[test]
    fn a_counter_has_a_rate_between_two_snapshots() {
        let change = between(snapshot_at(10.0, "a", 100), snapshot_at(12.0, "a", 150))
            .vmstat("pgmajfault")
            .unwrap();
        assert_eq!((change.delta, change.per_second), (50, 25.0));
        assert_eq!(change.evidence().value, "+50 in 2.0 s (25/s)");
    }

    #[test]
    fn a_clock_that_is_set_changes_no_rate() {
        let rate = |unix_before: f64, unix_after: f64| {
            let (mut start, mut end) = (snapshot_at(10.0, "a", 100), snapshot_at(12.0, "a", 150));
            start.taken.unix_seconds = unix_before;
            end.taken.unix_seconds = unix_after;
            between(start, end).vmstat("pgmajfault").unwrap().per_second
        };
        assert_eq!((rate(1e9, 1e9 - 3600.0), rate(0.0, 2e9)), (25.0, 25.0));
    }

    #[test]
    fn no_rate_across_boots_or_resets_or_missing_counters() {
        assert_eq!(
            between(snapshot_at(10.0, "a", 1), snapshot_at(12.0, "b", 2)).vmstat("pgmajfault"),
            None
        );
        assert_eq!(
            between(snapshot_at(10.0, "a", 2), snapshot_at(12.0, "a", 1)).vmstat("pgmajfault"),
            None
        );
        assert_eq!(
            between(snapshot_at(10.0, "a", 1), snapshot_at(12.0, "a", 2)).vmstat("pgfault"),
            None
        );
        assert_eq!(Interval::single(snapshot_at(10.0, "a", 1)).vmstat("pgmajfault"), None);
    }
}
