// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes as written in a file, such as `48M`, as [`Bytes`].

use std::fmt;
use std::str::FromStr;

use pagewise_model::Bytes;
use pagewise_model::typed::NotASize;
use serde::{Deserialize, Serialize};

/// A size with a binary unit, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub Bytes);

impl Size {
    /// A size of `count` MiB.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(Bytes::new(count << 20))
    }

    /// A size of `count` KiB.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(Bytes::new(count << 10))
    }
}

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for Size {
    type Error = NotASize;

    fn try_from(text: String) -> Result<Self, NotASize> {
        text.parse()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.format_typed())
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
        assert!("512".parse::<Size>().is_err());
    }
}
