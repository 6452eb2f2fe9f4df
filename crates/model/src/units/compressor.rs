// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A compression algorithm of the kernel with its level, as `lz4` or `zstd:7`.
//!
//! This spelling is used wherever people read or type it: in arguments, tables, charts and errors.
//! The kernel's files use other spellings, such as `algo=zstd level=7`, which the code that writes
//! these files creates. Whether a kernel offers the algorithm and its level is not checked here.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Name;

/// A compression algorithm and its level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Compressor {
    /// The kernel's name for the algorithm.
    pub algorithm: Name,
    /// Compression level of the algorithm; missing for the kernel's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
}

/// A compressor as deserialized from a document. Its name must still be checked, because somebody
/// may have edited the document.
#[derive(Deserialize)]
struct UncheckedCompressor {
    algorithm: String,
    #[serde(default)]
    level: Option<i32>,
}

impl TryFrom<UncheckedCompressor> for Compressor {
    type Error = NotACompressor;

    fn try_from(unchecked: UncheckedCompressor) -> Result<Self, NotACompressor> {
        let UncheckedCompressor { algorithm, level } = unchecked;
        let plain: Self = algorithm.parse()?;
        match plain.level {
            None => Ok(Self { level, ..plain }),
            Some(_) => Err(NotACompressor(algorithm)),
        }
    }
}

impl<'de> Deserialize<'de> for Compressor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UncheckedCompressor::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

impl Compressor {
    /// Creates a compressor with the kernel's default level.
    #[must_use]
    pub fn new(algorithm: &str) -> Self {
        Self { algorithm: Name::from(algorithm), level: None }
    }

    /// Creates a compressor with this level.
    #[must_use]
    pub fn with_level(algorithm: &str, level: i32) -> Self {
        Self { level: Some(level), ..Self::new(algorithm) }
    }
}

/// Prints the compressor as `algorithm:level`, or only the algorithm.
impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Some(level) => f.pad(&format!("{}:{level}", self.algorithm)),
            None => self.algorithm.fmt(f),
        }
    }
}

/// Error for a text that is not a valid algorithm name, with or without a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a name as lz4 or zstd:7, found {0:?}")]
pub struct NotACompressor(String);

/// Parses `algorithm:level`, or only the algorithm. A name consists of letters, digits, `-` and
/// `_`, because it becomes part of what is written to the kernel.
impl FromStr for Compressor {
    type Err = NotACompressor;

    fn from_str(text: &str) -> Result<Self, NotACompressor> {
        let wrong = || NotACompressor(text.to_owned());
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(wrong());
        }
        Ok(Self { level, ..Self::new(name) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_a_name_or_a_level_is_refused() {
        assert_eq!("lzo-rle".parse(), Ok(Compressor::new("lzo-rle")));
        assert_eq!("zstd:-5".parse(), Ok(Compressor::with_level("zstd", -5)));
        for wrong in ["", ":3", "zstd:", "zstd:x", "zstd:1:2", "../x", "lz4 ", "zstd:9999999999"] {
            let error = wrong.parse::<Compressor>().unwrap_err().to_string();
            assert_eq!(error, format!("expected a name as lz4 or zstd:7, found {wrong:?}"));
        }
    }

    #[test]
    fn a_document_can_name_no_other_algorithm_than_a_command_line() {
        let read = serde_json::from_str::<Compressor>;
        assert_eq!(
            read(r#"{"algorithm":"zstd","level":3}"#).unwrap(),
            Compressor::with_level("zstd", 3)
        );
        assert_eq!(read(r#"{"algorithm":"lz4"}"#).unwrap(), Compressor::new("lz4"));
        for wrong in
            [r#"{"algorithm":"lz4 level=1"}"#, r#"{"algorithm":"zstd:3"}"#, r#"{"algorithm":""}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// Parsing a printed compressor gives the same value.
        #[test]
        fn printing_and_reading_agree(name in "[a-z0-9_-]{1,12}", level in any::<Option<i32>>()) {
            let one = Compressor { level, ..Compressor::new(&name) };
            prop_assert_eq!(one.to_string().parse(), Ok(one));
        }
    }
}
