// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `48M` in a file → [`Bytes`].

use std::fmt;
use std::str::FromStr;

use pagewise_model::Bytes;
use serde::{Deserialize, Serialize};

/// A size with a binary unit, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub Bytes);

const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

impl Size {
    /// Of so many MiB.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(Bytes::new(count << 20))
    }

    /// Of so many KiB.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(Bytes::new(count << 10))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a size as 256M or 2G, found {text:?}");
        let (digits, shift) = UNITS
            .into_iter()
            .find_map(|(letter, shift)| Some((text.strip_suffix(letter)?, shift)))
            .ok_or_else(wrong)?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        number.checked_mul(1 << shift).map(|bytes| Self(Bytes::new(bytes))).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        let whole = |(_, shift): &(char, u32)| bytes % (1 << shift) == 0;
        let (letter, shift) = UNITS.into_iter().find(whole).unwrap_or(('K', 10));
        write!(f, "{}{letter}", bytes >> shift)
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for text in ["48M", "2G", "640K"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for bad in ["", "M", "512", "-1M", "+1M", "1.5G", "1 M", "99999999999G", "1é", "1m"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
