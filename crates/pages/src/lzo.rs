// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the size of a page compressed by the kernel's lzo or lzo-rle. The compressed data are
//! not produced.
//!
//! The stream format determines the size of an instruction: a copy of 3 to 8 bytes from at most 2
//! KiB back takes two bytes, any other copy three or more; up to three literals are stored in the
//! preceding instruction. lzo-rle begins with a version header and has an additional instruction
//! for a run of zeros. Which copies are found depends on the encoder, as with lz4 (`lz4.rs`). This
//! encoder has a table of 2^13 positions of four-byte words, takes larger steps the longer it finds
//! nothing, and does not search in the last 20 bytes.
//!
//! Source of the format: the kernel's document "LZO stream format as understood by Linux's LZO
//! decompressor". Source of the search: what is generally known about hash, table size, step and
//! tail of the LZO1X-1 family; no source text was used. The sizes were compared with those of a
//! zram device, and the encoder was corrected (at the start and in the last bytes) until no page
//! had another size.

use crate::bytes::{LARGEST_PAGE, Positions, common_length, hash, read_word};

const MULTIPLIER: u32 = 0x1824_429d;
/// Length in bytes of the shortest copy that the encoder searches for.
const MIN_MATCH: usize = 4;
/// Minimum distance of the start of a copy from the end of the page, in bytes.
const TAIL: usize = 20;
/// Number of bytes at the start of a page in which no copy is searched, because a stream begins
/// with literals.
const HEAD: usize = 5;
/// Number of bytes without a copy after which the search step grows by one.
const PATIENCE: usize = 32;
const NEAR: usize = 0x800;
const LONGEST_NEAR: usize = 8;
const LONGEST_SHORT: usize = 33;
const LONGEST_ZEROS: usize = 0x7ff + MIN_MATCH;
const END: usize = 3;

/// The encoder's working memory, reused for each page.
#[derive(Debug)]
pub struct Lzo {
    seen: Positions,
    runs: bool,
}

impl Lzo {
    /// Creates an encoder for lzo, which has no instruction for runs of zeros.
    #[must_use]
    pub fn plain() -> Self {
        Self { seen: Positions::default(), runs: false }
    }

    /// Creates an encoder for lzo-rle, which has an instruction for runs of zeros.
    #[must_use]
    pub fn with_runs() -> Self {
        Self { runs: true, ..Self::plain() }
    }

    /// Returns the size of the page after compression, in bytes. Of a page larger than 64 KiB, only
    /// the first 64 KiB are considered.
    pub fn size(&mut self, page: &[u8]) -> usize {
        let page = &page[..page.len().min(LARGEST_PAGE)];
        self.seen.forget();
        let mut stream = Stream { size: if self.runs { 2 } else { 0 } };
        let mut anchor = 0;
        let end = page.len().saturating_sub(TAIL);
        let mut at = HEAD;
        while at < end {
            match self.copy(page, at, end) {
                Some(copy) => {
                    stream.literals(at - anchor);
                    stream.copy(&copy);
                    at += copy.length();
                    anchor = at;
                }
                None => at += 1 + (at - anchor) / PATIENCE,
            }
        }
        stream.literals(page.len() - anchor);
        stream.size + END
    }

    fn copy(&mut self, page: &[u8], at: usize, end: usize) -> Option<Copy> {
        let value = read_word(page, at);
        if self.runs && value == 0 {
            return Some(Copy::Zeros(count_zeros(page, at, end)));
        }
        let from = self.seen.replace(hash(value, MULTIPLIER), at);
        (read_word(page, from) == value)
            .then(|| Copy::Back { length: match_length(page, at, from, end), distance: at - from })
    }
}

/// Returns the length of a match in bytes, including the four bytes that were found. It compares
/// eight bytes at a time, as long as these begin before the end.
fn match_length(page: &[u8], at: usize, from: usize, end: usize) -> usize {
    let mut length = MIN_MATCH;
    loop {
        let more = common_length(page, at + length, from + length, at + length + 8);
        length += more;
        if more < 8 || at + length >= end {
            return length;
        }
    }
}

/// Returns how many zero bytes follow in the page, at most as many as one instruction can encode.
fn count_zeros(page: &[u8], at: usize, end: usize) -> usize {
    let end = end.min(at + LONGEST_ZEROS);
    let run = page[at..end.max(at)].iter().take_while(|byte| **byte == 0).count();
    run.max(MIN_MATCH)
}

enum Copy {
    Back { length: usize, distance: usize },
    Zeros(usize),
}

impl Copy {
    fn length(&self) -> usize {
        match self {
            Self::Back { length, .. } | Self::Zeros(length) => *length,
        }
    }
}

/// The state of the compressed stream, of which only the size is kept.
struct Stream {
    size: usize,
}

impl Stream {
    fn literals(&mut self, count: usize) {
        let instruction = match count {
            ..=3 => 0,
            4..=18 => 1,
            more => 2 + (more - 18 - 1) / 255,
        };
        self.size += instruction + count;
    }

    fn copy(&mut self, copy: &Copy) {
        self.size += match *copy {
            Copy::Zeros(_) => 4,
            Copy::Back { length: ..=LONGEST_NEAR, distance: ..=NEAR } => 2,
            Copy::Back { length: ..=LONGEST_SHORT, .. } => 3,
            Copy::Back { length, .. } => 4 + (length - LONGEST_SHORT - 1) / 255,
        };
    }
}
