// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of the files of a ring, such as `1795822500-0003.ring`. They consist of the time at which
//! the file began, in seconds since 1970, and of a number that is one higher than that of the file
//! before.
//!
//! The files are ordered by this number, because the clock may be set back.

use std::fmt;

const END: &str = ".ring";
const INDEX_END: &str = ".index";

/// When a file of a ring began, and its position among the files of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// Time of the first reading in the file, in seconds since 1970, according to the clock at that
    /// time.
    pub unix_seconds: u64,
    /// Number of the file, counted over all files that the ring has ever had.
    pub number: u64,
}

impl FileName {
    /// Parses the name of a file; `None` if it is not the name of a file of a ring.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (time, number) = name.strip_suffix(END)?.split_once('-')?;
        let parse = |digits: &str| {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_plain)
        };
        let parsed = Self { unix_seconds: parse(time)?, number: parse(number)? };
        // a file whose name is spelled in another way was not written by a ring
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl FileName {
    /// Returns the name of the index for this file.
    pub(crate) fn index_name(self) -> String {
        format!("{}-{:04}{INDEX_END}", self.unix_seconds, self.number)
    }

    /// Returns the file to which the index with this name belongs.
    pub(crate) fn from_index_name(name: &str) -> Option<Self> {
        Self::parse(&format!("{}{END}", name.strip_suffix(INDEX_END)?))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:04}{END}", self.unix_seconds, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_and_no_other_is() {
        let name = FileName { unix_seconds: 1_795_822_500, number: 3 };
        assert_eq!(name.to_string(), "1795822500-0003.ring");
        assert_eq!(FileName::parse("1795822500-0003.ring"), Some(name));
        for other in [
            "1795822500-3.ring",
            "01795822500-0003.ring",
            "-0003.ring",
            "1-+001.ring",
            "lock",
            "1-0001.ring.x",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
        let late = FileName { unix_seconds: 1, number: 123_456 };
        assert_eq!(FileName::parse(&late.to_string()), Some(late));
    }
}
