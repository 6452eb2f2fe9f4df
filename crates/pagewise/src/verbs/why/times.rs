// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses and prints times in UTC, as people type and read them.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use pagewise_model::{Name, Refusal};

/// Parses a time in UTC; returns seconds since 1970. A time without a day is the last such time
/// before `now` (also in seconds since 1970).
pub(in crate::verbs) fn parse(text: &str, now: f64) -> anyhow::Result<f64> {
    let text = text.trim();
    let refused = || {
        let what = format!(
            "expected a time such as 03:12 or '2026-11-27 03:12', found {}",
            Name::from(text)
        );
        Refusal::with_advice(what, "times are in UTC; `date -u` prints the time now")
    };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(seconds(time));
    }
    if let Ok(time) = text.parse::<DateTime>() {
        return Ok(seconds(time.to_zoned(TimeZone::UTC).map_err(|_| refused())?.timestamp()));
    }
    // last, because this parser also accepts a time of day
    let time: Time = text.parse().map_err(|_| refused())?;
    let now = timestamp(now).ok_or_else(refused)?;
    let today = now.to_zoned(TimeZone::UTC).date();
    let at = |date: jiff::civil::Date| date.to_datetime(time).to_zoned(TimeZone::UTC);
    let then = at(today).map_err(|_| refused())?.timestamp();
    if then <= now {
        return Ok(seconds(then));
    }
    Ok(seconds(at(today.saturating_sub(1.day())).map_err(|_| refused())?.timestamp()))
}

/// Formats a time in UTC, for people.
pub(in crate::verbs) fn describe(unix_seconds: f64) -> String {
    let time = timestamp(unix_seconds).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn timestamp(unix_seconds: f64) -> Option<Timestamp> {
    let duration = SignedDuration::try_from_secs_f64(unix_seconds).ok()?;
    Timestamp::from_duration(duration).ok()
}

fn seconds(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28 02:00:00 UTC.
    const NOW: f64 = 1_795_831_200.0;

    #[test]
    fn a_time_without_a_day_is_the_last_that_passed() {
        let read = |text: &str| describe(parse(text, NOW).unwrap());
        assert_eq!(read("01:30"), "2026-11-28 01:30:00");
        assert_eq!(read("03:12"), "2026-11-27 03:12:00");
        assert_eq!(read("03:12:05"), "2026-11-27 03:12:05");
        assert_eq!(read("2026-11-26 03:12"), "2026-11-26 03:12:00");
        assert_eq!(read("2026-11-26T03:12:07"), "2026-11-26 03:12:07");
        assert_eq!(read("2026-11-26T03:12:07+01:00"), "2026-11-26 02:12:07");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "25:00", "yesterday", "\u{1b}[2J", "9999999999999"] {
            let refused = parse(text, NOW).unwrap_err().to_string();
            assert!(refused.starts_with("expected a time such as 03:12"), "{refused}");
            assert!(!refused.contains('\u{1b}'), "{refused}");
        }
    }
}
