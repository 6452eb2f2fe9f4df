// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities in an experiment file: `5%` is a fraction, `120s` a duration.

use std::time::Duration;

use pagewise_model::Percent;
use pagewise_model::typed::{NotADuration, NotAPercentage, parse_duration_from};
use serde::Deserialize;

/// A fraction of one, written as a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Share(pub(super) f64);

impl TryFrom<String> for Share {
    type Error = NotAPercentage;

    fn try_from(text: String) -> Result<Self, NotAPercentage> {
        Percent::parse_within(&text, 0.0..=50.0).map(|percent| Self(percent.share()))
    }
}

/// A duration of at least a second, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) Duration);

impl TryFrom<String> for Time {
    type Error = NotADuration;

    fn try_from(text: String) -> Result<Self, NotADuration> {
        parse_duration_from(&text, Duration::from_secs(1)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_shares_of_one_up_to_a_half() {
        for (text, share) in [("5%", 0.05), ("50%", 0.5)] {
            assert_eq!(Share::try_from(text.to_owned()), Ok(Share(share)));
        }
        assert!(Share::try_from("51%".to_owned()).is_err());
    }

    #[test]
    fn a_time_is_a_second_at_least() {
        assert_eq!(Time::try_from("1s".to_owned()), Ok(Time(Duration::from_secs(1))));
        for bad in ["0s", "999ms", "120", "25h"] {
            assert!(Time::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
