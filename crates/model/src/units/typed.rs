// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses quantities that people type: `256M`, `1.5s`, `2%`.
//!
//! Each kind of quantity has one parser, which arguments, experiment files and workloads share.
//! Limits are set by the caller: [`Percent::parse_within`] and [`parse_duration_from`] check them
//! and mention them in the error.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

use crate::{Bytes, Percent};

const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

/// Error for a text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a size as 256M or 2G, found {0:?}")]
pub struct NotASize(String);

/// Parses a whole number with a binary unit: `640K`, `256M`, `2G`.
impl FromStr for Bytes {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let wrong = || NotASize(text.to_owned());
        let (digits, shift) = UNITS
            .into_iter()
            .find_map(|(letter, shift)| Some((text.strip_suffix(letter)?, shift)))
            .ok_or_else(wrong)?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
        number.checked_mul(1 << shift).map(Self::new).ok_or_else(wrong)
    }
}

impl Bytes {
    /// Formats the size as a user would type it: with the largest unit that leaves a whole number,
    /// such as `640K`, `256M` or `2G`. A remainder smaller than one KiB is dropped.
    #[must_use]
    pub fn format_typed(self) -> String {
        let is_whole = |(_, shift): &(char, u32)| self.get() % (1 << shift) == 0;
        let (letter, shift) = UNITS.into_iter().find(is_whole).unwrap_or(('K', 10));
        format!("{}{letter}", self.get() >> shift)
    }
}

/// The longest duration that the parsers accept: a day.
pub const LONGEST: Duration = Duration::from_secs(86_400);

/// Error for a text that is not a time, or whose time is out of limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotADuration {
    /// The text could not be parsed as a time.
    #[error("expected a time as 200ms, 1s, 2m or 3h, found {0:?}")]
    Unreadable(String),
    /// The time is too short.
    #[error("expected a time of at least {least:?}, found {found:?}")]
    TooShort {
        /// The shortest time that would be accepted.
        least: Duration,
        /// The text that was typed.
        found: String,
    },
    /// The time is longer than [`LONGEST`].
    #[error("at most a day (24h)")]
    TooLong,
}

/// Parses a time with its units, such as `200ms`, `1.5s`, `2m` or `1h30m`, up to a day; `0` needs
/// no unit.
///
/// # Errors
/// If the text is not a time, or the time is too long.
pub fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    parse_duration_from(text, Duration::ZERO)
}

/// Parses a time with its units. The time must not be shorter than `least`.
///
/// # Errors
/// If the text is not a time, or the time is shorter than `least` or longer than a day.
pub fn parse_duration_from(text: &str, least: Duration) -> Result<Duration, NotADuration> {
    let duration = match text {
        "0" => Duration::ZERO,
        _ => parse_friendly_duration(text)
            .ok_or_else(|| NotADuration::Unreadable(text.to_owned()))?,
    };
    if duration > LONGEST {
        return Err(NotADuration::TooLong);
    }
    if duration < least {
        return Err(NotADuration::TooShort { least, found: text.to_owned() });
    }
    Ok(duration)
}

fn parse_friendly_duration(text: &str) -> Option<Duration> {
    const PARSER: SpanParser = SpanParser::new();
    let complete = with_digits_beside_the_point(text);
    PARSER.parse_unsigned_duration(complete.as_deref().unwrap_or(text)).ok()
}

/// Rewrites `.5s`, `1.s` and fractions of more than nine digits to the form that jiff accepts;
/// returns `None` for other text.
fn with_digits_beside_the_point(text: &str) -> Option<String> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let (whole, rest) =
        text.split_once('.').filter(|(whole, _)| whole.bytes().all(|it| is_digit(&it)))?;
    let (digits, unit) = rest.split_at(rest.bytes().take_while(is_digit).count());
    let digits = digits.get(..digits.len().min(9))?;
    let is_number = !whole.is_empty() || !digits.is_empty();
    is_number.then(|| format!("0{whole}.{digits:0<1}{unit}"))
}

/// Error for a text that is not a percentage, or whose percentage is out of limits.
#[derive(Debug, Clone, PartialEq)]
pub struct NotAPercentage {
    within: Option<RangeInclusive<f64>>,
    found: String,
}

impl fmt::Display for NotAPercentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = match &self.within {
            Some(within) => format!(" from {} to {}", within.start(), within.end()),
            None => String::new(),
        };
        write!(f, "expected a percentage{limits}, such as 2%, found {:?}", self.found)
    }
}

impl std::error::Error for NotAPercentage {}

/// Parses a non-negative number; the percent sign is optional.
impl FromStr for Percent {
    type Err = NotAPercentage;

    fn from_str(text: &str) -> Result<Self, NotAPercentage> {
        let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        let wrong = || NotAPercentage { within: None, found: text.to_owned() };
        number.map(Self::new).ok_or_else(wrong)
    }
}

impl Percent {
    /// Parses a percentage that must lie within the limits `within`.
    ///
    /// # Errors
    /// If the text is not a percentage, or the percentage is out of the limits.
    pub fn parse_within(text: &str, within: RangeInclusive<f64>) -> Result<Self, NotAPercentage> {
        let percent = text.parse().ok().filter(|percent: &Self| within.contains(&percent.get()));
        let wrong = || NotAPercentage { within: Some(within), found: text.to_owned() };
        percent.ok_or_else(wrong)
    }

    /// The percentage as a fraction of one, such as 0.02 for 2 %.
    #[must_use]
    pub fn share(self) -> f64 {
        self.get() / 100.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!("512M".parse(), Ok(Bytes::new(512 << 20)));
        assert_eq!("2G".parse(), Ok(Bytes::new(2 << 30)));
        for bad in ["", "M", "512", "-1M", "+1M", "1.5G", "1 M", "99999999999G", "1é", "1m"] {
            let error = bad.parse::<Bytes>().unwrap_err().to_string();
            assert_eq!(error, format!("expected a size as 256M or 2G, found {bad:?}"));
        }
    }

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [
            ("200ms", 200),
            ("1.5s", 1500),
            (".5s", 500),
            ("1.s", 1000),
            ("0.2500000000001s", 250),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("24h", 86_400_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in [
            "", "1", "s", "-1s", "1s ago", "25h", "1d", ".s", "1..5s", "nans", "infs", "1e3s", "é",
            ".",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_duration(&format!("{}s", "9".repeat(400))).is_err());
        assert_eq!(parse_duration("86401s"), Err(NotADuration::TooLong));
        let least = Duration::from_secs(1);
        assert_eq!(parse_duration_from("1s", least), Ok(least));
        let error = parse_duration_from("999ms", least).unwrap_err().to_string();
        assert_eq!(error, "expected a time of at least 1s, found \"999ms\"");
    }

    #[test]
    fn percentages_are_held_against_limits() {
        let within = |text| Percent::parse_within(text, 0.0..=50.0).map(Percent::get);
        for (text, percent) in [("2%", 2.0), ("2", 2.0), ("2 %", 2.0), ("0%", 0.0), ("50%", 50.0)] {
            assert_eq!(within(text), Ok(percent), "{text}");
        }
        for bad in ["", "%", "-1%", "50.1%", "nan%", "inf", "five%"] {
            let error = within(bad).unwrap_err().to_string();
            let expected = "expected a percentage from 0 to 50, such as 2%, found ";
            assert_eq!(error, format!("{expected}{bad:?}"));
        }
        assert_eq!("1000%".parse(), Ok(Percent::new(1000.0)));
        assert_eq!(Percent::new(2.0).share(), 0.02);
    }

    proptest! {
        /// Parsing a printed size gives the same value.
        #[test]
        fn printing_and_reading_a_size_agree(kib in 0u64..1 << 50) {
            let size = Bytes::new(kib << 10);
            prop_assert_eq!(size.format_typed().parse(), Ok(size));
        }

        /// No parsed time is longer than a day, and no text causes a panic.
        #[test]
        fn no_text_is_a_panic(text in "[0-9a-z.,: -]{0,20}") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert!(duration <= LONGEST);
            }
            let _ = text.parse::<Percent>();
            let _ = text.parse::<Bytes>();
        }
    }
}
