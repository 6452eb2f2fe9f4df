// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compression algorithms that kernels offer for compressed RAM, with the kernel's names, and
//! the encoders that compute the compressed size with each of them.

use std::fmt;
use std::str::FromStr;

use pagewise_model::Compressor;

use crate::library::{Deflate, Lz4hc, Zstd, ZstdCall};
use crate::lz4::Lz4;
use crate::lzo::Lzo;

/// A compression algorithm, with its level if it has levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// `lz4`, which has no levels.
    Lz4,
    /// `lz4hc` with its level.
    Lz4hc(i32),
    /// `lzo`, which has no levels.
    Lzo,
    /// `lzo-rle`, which has no levels.
    LzoRle,
    /// `zstd` with its level.
    Zstd(i32),
    /// `deflate` with its level.
    Deflate(u32),
}

/// All algorithms, each with the level that the kernel uses by default.
pub const DEFAULTS: [Algorithm; 6] = [
    Algorithm::Lz4,
    Algorithm::LzoRle,
    Algorithm::Lzo,
    Algorithm::Zstd(3),
    Algorithm::Lz4hc(9),
    Algorithm::Deflate(6),
];

impl Algorithm {
    /// The name that the kernel uses for the algorithm.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Lz4hc(_) => "lz4hc",
            Self::Lzo => "lzo",
            Self::LzoRle => "lzo-rle",
            Self::Zstd(_) => "zstd",
            Self::Deflate(_) => "deflate",
        }
    }

    /// The compression level; `None` if the algorithm has no levels.
    #[must_use]
    pub fn level(self) -> Option<i32> {
        match self {
            Self::Lz4hc(level) | Self::Zstd(level) => Some(level),
            Self::Deflate(level) => i32::try_from(level).ok(),
            Self::Lz4 | Self::Lzo | Self::LzoRle => None,
        }
    }

    fn with_level(self, level: i32) -> Option<Self> {
        match self {
            Self::Zstd(_) => (-7..=22).contains(&level).then_some(Self::Zstd(level)),
            Self::Lz4hc(_) => (1..=12).contains(&level).then_some(Self::Lz4hc(level)),
            Self::Deflate(_) => {
                u32::try_from(level).ok().filter(|level| *level <= 9).map(Self::Deflate)
            }
            Self::Lz4 | Self::Lzo | Self::LzoRle => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Compressor::from(*self).fmt(f)
    }
}

impl From<Algorithm> for Compressor {
    fn from(algorithm: Algorithm) -> Self {
        Self { level: algorithm.level(), ..Self::new(algorithm.name()) }
    }
}

/// Converts a compressor without a level to the algorithm with the kernel's default level.
impl TryFrom<&Compressor> for Algorithm {
    type Error = NoSuchAlgorithm;

    fn try_from(wanted: &Compressor) -> Result<Self, NoSuchAlgorithm> {
        let name = wanted.algorithm.as_str();
        let known = DEFAULTS.into_iter().find(|algorithm| algorithm.name() == name);
        let chosen = match wanted.level {
            None => known,
            Some(level) => known.and_then(|known| known.with_level(level)),
        };
        chosen.ok_or_else(|| NoSuchAlgorithm(wanted.to_string()))
    }
}

/// Error for a text that is not the name of a known algorithm, or that contains a level which the
/// algorithm does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct NoSuchAlgorithm(String);

impl fmt::Display for NoSuchAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = DEFAULTS.map(Self::display_name).join(", ");
        write!(f, "expected one of {known}, found {:?}", self.0)
    }
}

impl NoSuchAlgorithm {
    fn display_name(algorithm: Algorithm) -> String {
        match algorithm.level() {
            Some(_) => format!("{}[:LEVEL]", algorithm.name()),
            None => algorithm.name().to_owned(),
        }
    }
}

impl std::error::Error for NoSuchAlgorithm {}

/// Parses the name of an algorithm, with or without a level: `zstd` or `zstd:7`.
impl FromStr for Algorithm {
    type Err = NoSuchAlgorithm;

    fn from_str(text: &str) -> Result<Self, NoSuchAlgorithm> {
        let wanted: Compressor = text.parse().map_err(|_| NoSuchAlgorithm(text.to_owned()))?;
        Self::try_from(&wanted)
    }
}

/// An encoder that computes compressed sizes. Its working memory is reused for each page, so use
/// one encoder per thread.
pub struct Sizer(Kind);

enum Kind {
    Lz4(Lz4),
    Lzo(Lzo),
    Lz4hc(Lz4hc),
    Zstd(Zstd),
    Deflate(Deflate),
}

impl fmt::Debug for Sizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sizer")
    }
}

impl Sizer {
    /// Creates an encoder that computes the sizes of a kernel that calls zstd in this way.
    #[must_use]
    pub fn new(algorithm: Algorithm, zstd: ZstdCall) -> Self {
        Self(match algorithm {
            Algorithm::Lz4 => Kind::Lz4(Lz4::default()),
            Algorithm::Lzo => Kind::Lzo(Lzo::plain()),
            Algorithm::LzoRle => Kind::Lzo(Lzo::with_runs()),
            Algorithm::Lz4hc(level) => Kind::Lz4hc(Lz4hc::new(level)),
            Algorithm::Zstd(level) => Kind::Zstd(Zstd::new(level, zstd)),
            Algorithm::Deflate(level) => Kind::Deflate(Deflate::new(level)),
        })
    }

    /// Returns the compressed size of a page in bytes, which may be larger than the page.
    pub fn size(&mut self, page: &[u8]) -> usize {
        match &mut self.0 {
            Kind::Lz4(lz4) => lz4.size(page),
            Kind::Lzo(lzo) => lzo.size(page),
            Kind::Lz4hc(lz4hc) => lz4hc.size(page),
            Kind::Zstd(zstd) => zstd.size(page),
            Kind::Deflate(deflate) => deflate.size(page),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_the_kernels() {
        assert_eq!("lzo-rle".parse(), Ok(Algorithm::LzoRle));
        assert_eq!("zstd".parse(), Ok(Algorithm::Zstd(3)));
        assert_eq!("zstd:-5".parse(), Ok(Algorithm::Zstd(-5)));
        for wrong in ["", "zstd:", "zstd:99", "lz4:1", "842", "deflate:-1"] {
            let error = wrong.parse::<Algorithm>().unwrap_err().to_string();
            assert!(error.starts_with("expected one of lz4, lzo-rle"), "{error}");
        }
        for algorithm in DEFAULTS {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
    }

    proptest! {
        /// For any page, the encoder does not panic, and the size is above 0 and at most an eighth
        /// larger than the page. Pages compressed before do not change the result.
        #[test]
        fn every_page_has_a_size(
            pieces in prop::collection::vec((any::<u8>(), 1usize..600, any::<bool>()), 1..60),
            shift in 0usize..3,
        ) {
            let mut page: Vec<u8> = Vec::new();
            for (byte, length, run) in pieces {
                let noise = |at: usize| at.to_le_bytes()[0].wrapping_mul(byte) ^ byte.rotate_left(3);
                page.extend((0..length).map(|at| if run { byte } else { noise(at) }));
            }
            page.resize(4096 << (2 * shift), 0);
            for algorithm in DEFAULTS {
                let mut sizer = Sizer::new(algorithm, ZstdCall::ForPage);
                let size = sizer.size(&page);
                prop_assert!(size > 0 && size <= page.len() + page.len() / 8 + 64, "{algorithm}: {size}");
                sizer.size(&vec![0x5a; page.len()]);
                prop_assert_eq!(sizer.size(&page), size, "{}", algorithm);
            }
        }
    }
}
