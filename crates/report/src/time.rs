// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time at which a snapshot was taken, for people and programs.

use jiff::Timestamp;
use pagewise_model::Snapshot;

/// When the host was read, in UTC; `None` if the host had no clock or the time is out of range.
pub(crate) fn time_of(snapshot: &Snapshot) -> Option<Timestamp> {
    timestamp(snapshot.taken.unix_seconds)
}

/// Converts seconds since 1970, UTC; `None` if that is no valid time.
pub(crate) fn timestamp(seconds: f64) -> Option<Timestamp> {
    let usable = seconds.is_finite() && seconds > 0.0;
    let duration = usable.then(|| jiff::SignedDuration::try_from_secs_f64(seconds).ok())?;
    Timestamp::from_duration(duration?).ok()?.round(jiff::Unit::Millisecond).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_seconds(seconds: f64) -> Option<String> {
        let mut snapshot = Snapshot::default();
        snapshot.taken.unix_seconds = seconds;
        time_of(&snapshot).map(|time| time.to_string())
    }

    #[test]
    fn times_are_utc_and_impossible_ones_are_none() {
        assert_eq!(format_seconds(1_795_183_353.25).as_deref(), Some("2026-11-20T14:02:33.25Z"));
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(format_seconds(seconds), None);
        }
    }
}
