// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes compressed sizes with the libraries from which the kernel's zstd, deflate and lz4hc are
//! derived.
//!
//! How accurate they are was measured, see docs/measured/scan.md: the same version of a library
//! with the same parameters gives the same sizes as the kernel; another version gives similar
//! sizes.

use flate2::{Compress, Compression, FlushCompress};
use lz4::block::CompressionMode;
use zstd::zstd_safe::{CCtx, CParameter, Strategy};

/// How a kernel calls the zstd library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZstdCall {
    /// The kernel passes the parameters for a source of one page, as zram does since it has
    /// `algorithm_params`.
    ForPage,
    /// The kernel passes the parameters for a source of unknown length, as the crypto API did.
    ForAnyLength,
}

/// Size of the output buffer in bytes, sufficient for incompressible pages.
fn output_room(page: usize) -> usize {
    page + page / 8 + 64
}

pub(crate) struct Zstd {
    context: CCtx<'static>,
    out: Vec<u8>,
}

impl Zstd {
    pub(crate) fn new(level: i32, call: ZstdCall) -> Self {
        let mut context = CCtx::create();
        let parameters = match call {
            ZstdCall::ForPage => vec![CParameter::CompressionLevel(level)],
            ZstdCall::ForAnyLength => vec![
                CParameter::CompressionLevel(level),
                CParameter::WindowLog(21),
                CParameter::ChainLog(16),
                CParameter::HashLog(17),
                CParameter::SearchLog(1),
                CParameter::MinMatch(5),
                CParameter::Strategy(Strategy::ZSTD_dfast),
            ],
        };
        for parameter in parameters {
            // this fails only for values that are out of range, which these are not
            let _ = context.set_parameter(parameter);
        }
        Self { context, out: Vec::new() }
    }

    pub(crate) fn size(&mut self, page: &[u8]) -> usize {
        self.out.resize(output_room(page.len()), 0);
        self.context.compress2(self.out.as_mut_slice(), page).unwrap_or(page.len())
    }
}

pub(crate) struct Deflate {
    stream: Compress,
    out: Vec<u8>,
}

impl Deflate {
    /// A raw deflate encoder with a window of 2 KiB.
    pub(crate) fn new(level: u32) -> Self {
        let stream = Compress::new_with_window_bits(Compression::new(level), false, 11);
        Self { stream, out: Vec::new() }
    }

    pub(crate) fn size(&mut self, page: &[u8]) -> usize {
        self.out.resize(output_room(page.len()), 0);
        self.stream.reset();
        match self.stream.compress(page, &mut self.out, FlushCompress::Finish) {
            Ok(flate2::Status::StreamEnd) => {
                usize::try_from(self.stream.total_out()).unwrap_or(usize::MAX)
            }
            _ => page.len(),
        }
    }
}

pub(crate) struct Lz4hc {
    level: i32,
    out: Vec<u8>,
}

impl Lz4hc {
    pub(crate) fn new(level: i32) -> Self {
        Self { level, out: Vec::new() }
    }

    pub(crate) fn size(&mut self, page: &[u8]) -> usize {
        self.out.resize(output_room(page.len()), 0);
        let mode = Some(CompressionMode::HIGHCOMPRESSION(self.level));
        lz4::block::compress_to_buffer(page, mode, false, &mut self.out).unwrap_or(page.len())
    }
}
