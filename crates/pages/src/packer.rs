// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compresses pages and restores them, with the libraries from which the kernel's algorithms are
//! derived.
//! They are used to estimate the costs of algorithms without a zram device. There is no such
//! library for lzo, for which only the compressed size can be computed here.

use std::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use lz4::block::CompressionMode;
use zstd::zstd_safe::{CCtx, CParameter, DCtx};

use crate::codec::Algorithm;

/// Compresses and decompresses pages with one algorithm. It has working memory of its own, so use
/// one per thread.
pub struct Packer(Kind);

enum Kind {
    Lz4(Option<CompressionMode>),
    Zstd(Box<(CCtx<'static>, DCtx<'static>)>),
    Deflate(Box<(Compress, Decompress)>),
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packer")
    }
}

/// Error: the bytes were not compressed with this algorithm, or the page has another size.
#[derive(Debug, PartialEq, Eq)]
pub struct NotPacked;

impl fmt::Display for NotPacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a compressed page, found something else")
    }
}

impl std::error::Error for NotPacked {}

impl Packer {
    /// Creates a packer for the algorithm; `None` for lzo and lzo-rle.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Option<Self> {
        Some(Self(match algorithm {
            Algorithm::Lz4 => Kind::Lz4(None),
            Algorithm::Lz4hc(level) => Kind::Lz4(Some(CompressionMode::HIGHCOMPRESSION(level))),
            Algorithm::Zstd(level) => {
                let mut context = CCtx::create();
                // this fails only for values that are out of range, which these are not
                let _ = context.set_parameter(CParameter::CompressionLevel(level));
                Kind::Zstd(Box::new((context, DCtx::create())))
            }
            Algorithm::Deflate(level) => {
                let pack = Compress::new_with_window_bits(Compression::new(level), false, WINDOW);
                let unpack = Decompress::new_with_window_bits(false, WINDOW);
                Kind::Deflate(Box::new((pack, unpack)))
            }
            Algorithm::Lzo | Algorithm::LzoRle => return None,
        }))
    }

    /// Compresses the page into `packed`.
    ///
    /// # Errors
    /// If the library returns an error, which does not happen for any page.
    pub fn pack(&mut self, page: &[u8], packed: &mut Vec<u8>) -> Result<(), NotPacked> {
        packed.resize(page.len() + page.len() / 8 + 64, 0);
        let length = match &mut self.0 {
            Kind::Lz4(mode) => lz4::block::compress_to_buffer(page, *mode, false, packed).ok(),
            Kind::Zstd(both) => both.0.compress2(packed.as_mut_slice(), page).ok(),
            Kind::Deflate(both) => deflate(&mut both.0, page, packed),
        };
        packed.truncate(length.ok_or(NotPacked)?);
        Ok(())
    }

    /// Decompresses `packed` into `page`.
    ///
    /// # Errors
    /// If `packed` is not a page of this length that was compressed with this algorithm.
    pub fn unpack(&mut self, packed: &[u8], page: &mut [u8]) -> Result<(), NotPacked> {
        let requested = page.len();
        let length = match &mut self.0 {
            Kind::Lz4(_) => {
                let most = i32::try_from(requested).ok();
                lz4::block::decompress_to_buffer(packed, most, page).ok()
            }
            Kind::Zstd(both) => both.1.decompress(page, packed).ok(),
            Kind::Deflate(both) => inflate(&mut both.1, packed, page),
        };
        if length == Some(requested) { Ok(()) } else { Err(NotPacked) }
    }
}

/// Binary logarithm of the size in bytes of deflate's window in zram: 2 KiB.
const WINDOW: u8 = 11;

fn deflate(stream: &mut Compress, page: &[u8], packed: &mut [u8]) -> Option<usize> {
    stream.reset();
    match stream.compress(page, packed, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
        _ => None,
    }
}

fn inflate(stream: &mut Decompress, packed: &[u8], page: &mut [u8]) -> Option<usize> {
    stream.reset(false);
    match stream.decompress(packed, page, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => usize::try_from(stream.total_out()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::DEFAULTS;

    proptest! {
        /// Compressed pages are restored, and other bytes are refused.
        #[test]
        fn pages_survive(pieces in prop::collection::vec((any::<u8>(), 1usize..300), 1..60)) {
            let mut page: Vec<u8> = Vec::new();
            pieces.iter().for_each(|(byte, length)| page.extend(std::iter::repeat_n(byte, *length)));
            page.resize(4096, 7);
            for algorithm in DEFAULTS {
                let Some(mut packer) = Packer::new(algorithm) else { continue };
                let (mut packed, mut out) = (Vec::new(), vec![0; 4096]);
                for _ in 0..2 {
                    packer.pack(&page, &mut packed).unwrap();
                    packer.unpack(&packed, &mut out).unwrap();
                    prop_assert!(out == page, "{}", algorithm);
                }
                prop_assert_eq!(packer.unpack(&packed, &mut out[..4095]), Err(NotPacked));
                prop_assert_eq!(packer.unpack(&packed[..packed.len() - 1], &mut out), Err(NotPacked));
                prop_assert_eq!(packer.unpack(&[], &mut out), Err(NotPacked));
            }
        }
    }
}
