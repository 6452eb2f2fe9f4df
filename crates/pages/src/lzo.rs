// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page → the bytes that the kernel's lzo or lzo-rle would make of it, without making them.
//!
//! What an instruction costs is the stream format's: a copy from up to 2 KiB back takes two bytes
//! for 3 to 8 of them, any other three and more; up to three literals hide in the instruction before
//! them. lzo-rle begins with its version and has one instruction more, for a run of zeros.
//! Which copies are found is the encoder's choice, as in lz4.rs: a table of 2^13 positions by four
//! bytes, larger steps the longer nothing is found, no search in the last 20 bytes.
//!
//! Source of the format: the kernel's document "LZO stream format as understood by Linux's LZO
//! decompressor". Of the search: hash, table size, step and tail as they are commonly known of the
//! LZO1X-1 family, from memory and without a source text at hand; where they left zram's sizes, the
//! start and the last bytes, they were mended until no page written to a zram device differed.

use crate::bytes::{LARGEST_PAGE, Positions, common, hash, word};

const MULTIPLIER: u32 = 0x1824_429d;
/// The shortest copy that is looked for.
const MIN_MATCH: usize = 4;
/// No copy starts this near to the end.
const TAIL: usize = 20;
/// The first bytes are not searched: a stream begins with literals.
const HEAD: usize = 5;
/// Every so many bytes without a copy the step grows by one.
const PATIENCE: usize = 32;
const NEAR: usize = 0x800;
const LONGEST_NEAR: usize = 8;
const LONGEST_SHORT: usize = 33;
const LONGEST_ZEROS: usize = 0x7ff + MIN_MATCH;
const END: usize = 3;

/// The encoder's memory, reused from page to page.
#[derive(Debug)]
pub struct Lzo {
    seen: Positions,
    runs: bool,
}

impl Lzo {
    /// Plain lzo.
    #[must_use]
    pub fn plain() -> Self {
        Self { seen: Positions::default(), runs: false }
    }

    /// lzo-rle, with its instruction for runs of zeros.
    #[must_use]
    pub fn with_runs() -> Self {
        Self { runs: true, ..Self::plain() }
    }

    /// The compressed size in bytes. Of a page larger than 64 KiB the size of its first
    /// part only.
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
        let value = word(page, at);
        if self.runs && value == 0 {
            return Some(Copy::Zeros(zeros(page, at, end)));
        }
        let from = self.seen.replace(hash(value, MULTIPLIER), at);
        (word(page, from) == value)
            .then(|| Copy::Back { length: equal(page, at, from, end), distance: at - from })
    }
}

/// How many bytes are equal, the four included. Eight are compared at a time, as long as they begin before the end.
fn equal(page: &[u8], at: usize, from: usize, end: usize) -> usize {
    let mut length = MIN_MATCH;
    loop {
        let more = common(page, at + length, from + length, at + length + 8);
        length += more;
        if more < 8 || at + length >= end {
            return length;
        }
    }
}

/// How many zeros follow, in one instruction.
fn zeros(page: &[u8], at: usize, end: usize) -> usize {
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

/// What is written so far.
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
