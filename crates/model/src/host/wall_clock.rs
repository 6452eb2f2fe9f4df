// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the time that a log prints before a message.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;

/// The time of a message, as exact as the log prints it. Times of different kinds cannot be
/// compared.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum WallClock {
    /// Seconds since 1970, UTC.
    Absolute(f64),
    /// Seconds since 1970 in local time; the log does not name the time zone.
    Local(f64),
    /// Seconds since the beginning of the year; the log does not name the year, and a leap year is
    /// assumed.
    InSomeYear(f64),
}

impl WallClock {
    /// Parses the time in a log line. Accepted forms are `2026-11-20T10:00:01+01:00`, `2026-11-20
    /// 10:00:01`, `Nov 20 10:00:01`, `Fri Nov 20 10:00:01 2026`, and `@1763632801.000000` for the
    /// time that journald stored.
    pub fn parse(stamp: &str) -> Option<Self> {
        if let Some(seconds) = stamp.strip_prefix('@') {
            return seconds.parse().ok().map(Self::Absolute);
        }
        if let Ok(time) = insert_colon(stamp).parse::<Timestamp>() {
            return Some(Self::Absolute(time.as_microsecond() as f64 / 1e6));
        }
        if let Ok(time) = stamp.replace(',', ".").parse::<DateTime>() {
            return Some(Self::Local(seconds(time)?));
        }
        let with_year =
            |text: &str, form: &str| strtime::parse(form, text).ok()?.to_datetime().ok();
        if let Some(time) = with_year(stamp, "%a %b %d %H:%M:%S %Y") {
            return Some(Self::Local(seconds(time)?));
        }
        let time = with_year(&format!("{stamp} 1972"), "%b %d %H:%M:%S %Y")?;
        Some(Self::InSomeYear(
            seconds(time)? - seconds(jiff::civil::datetime(1972, 1, 1, 0, 0, 0, 0))?,
        ))
    }

    /// The number of seconds between two times of the same kind, never negative; `None` if the
    /// kinds differ.
    pub fn seconds_apart(self, other: Self) -> Option<f64> {
        match (self, other) {
            (Self::Absolute(one), Self::Absolute(other))
            | (Self::Local(one), Self::Local(other))
            | (Self::InSomeYear(one), Self::InSomeYear(other)) => Some((one - other).abs()),
            _ => None,
        }
    }
}

/// Inserts the colon into the time zone that `journalctl -o short-iso` omits before systemd 255.
fn insert_colon(stamp: &str) -> String {
    let bytes = stamp.as_bytes();
    let is_short = bytes.len() > 5
        && b"+-".contains(&bytes[bytes.len() - 5])
        && bytes[bytes.len() - 4..].iter().all(u8::is_ascii_digit)
        && stamp.contains(':');
    if is_short {
        let (begin, end) = stamp.split_at(stamp.len() - 2);
        format!("{begin}:{end}")
    } else {
        stamp.to_owned()
    }
}

fn seconds(time: DateTime) -> Option<f64> {
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(time.timestamp().as_microsecond() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_time_is_read() {
        use WallClock::{Absolute, InSomeYear, Local};
        for (stamp, expected) in [
            ("@1763632801.500000", Some(Absolute(1_763_632_801.5))),
            ("2025-11-20T11:00:01+01:00", Some(Absolute(1_763_632_801.0))),
            ("2025-11-20T11:00:01.500000+0100", Some(Absolute(1_763_632_801.5))),
            ("2025-11-20T10:00:01Z", Some(Absolute(1_763_632_801.0))),
            ("2025-11-20 10:00:01", Some(Local(1_763_632_801.0))),
            ("2025-11-20T10:00:01,500000", Some(Local(1_763_632_801.5))),
            ("Thu Nov 20 10:00:01 2025", Some(Local(1_763_632_801.0))),
            ("Jan 01 00:00:07", Some(InSomeYear(7.0))),
            ("Jan  2 00:00:07", Some(InSomeYear(86_407.0))),
            ("Feb 29 00:00:00", Some(InSomeYear(59.0 * 86_400.0))),
            ("10:00", None),
            ("é2025+0100", None),
            ("", None),
        ] {
            assert_eq!(WallClock::parse(stamp), expected, "{stamp}");
        }
        let apart = |one: &str, other: &str| {
            WallClock::parse(one).unwrap().seconds_apart(WallClock::parse(other).unwrap())
        };
        assert_eq!(apart("Jan  2 00:00:07", "Jan 01 00:00:07"), Some(86_400.0));
        assert_eq!(apart("Jan  2 00:00:07", "@7.0"), None);
    }
}
