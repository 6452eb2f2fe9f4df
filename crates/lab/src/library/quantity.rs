// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `5%` and `120s` in a file → a share and a time.

use std::time::Duration;

use serde::Deserialize;

/// A share of one, typed as a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Percent(pub(super) f64);

impl TryFrom<String> for Percent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
        let sane = number.filter(|number| (0.0..=50.0).contains(number));
        let wrong = || format!("expected a percentage from 0 to 50 as \"5%\", found {text:?}");
        sane.map(|number| Self(number / 100.0)).ok_or_else(wrong)
    }
}

/// A time, typed with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) Duration);

/// A run that lasts longer is no experiment.
const LONGEST: u64 = 24 * 3600;

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("expected a time as \"120s\" or \"10m\", found {text:?}");
        let (digits, unit) = [("s", 1), ("m", 60), ("h", 3600)]
            .into_iter()
            .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
            .ok_or_else(wrong)?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        let seconds = number.checked_mul(unit).filter(|seconds| (1..=LONGEST).contains(seconds));
        seconds.map(|seconds| Self(Duration::from_secs(seconds))).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_shares_of_one() {
        assert_eq!(Percent::try_from("5%".to_owned()), Ok(Percent(0.05)));
        for bad in ["", "5", "%", "-1%", "51%", "nan%", "five%"] {
            assert!(Percent::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("120s", 120), ("10m", 600), ("1h", 3600)] {
            assert_eq!(Time::try_from(text.to_owned()), Ok(Time(Duration::from_secs(seconds))));
        }
        for bad in ["", "120", "s", "0s", "-1s", "+1s", "1.5s", "25h", "99999999999999999999s"] {
            assert!(Time::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
