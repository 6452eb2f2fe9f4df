// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the size of a page compressed by the kernel's lz4. The compressed data are not
//! produced.
//!
//! The block format determines the size of a sequence, which consists of literals and a match.
//! Which matches are found depends on the encoder. This encoder imitates the kernel's: a table of
//! 2^13 positions of four-byte words, acceleration 1, and no search in the last twelve bytes.
//! liblz4 would not do, because it searches one position further, so that one page in 30 to 2,500
//! has another size.
//!
//! Source of the format: the LZ4 block format description. Source of the search: general knowledge
//! about LZ4's fast encoder. That the kernel does the same was verified page by page with zram.

use crate::bytes::{LARGEST_PAGE, Positions, common_length, hash, read_word};

const MULTIPLIER: u32 = 2_654_435_761;
const MIN_MATCH: usize = 4;
/// Number of bytes at the end of a block that are always literals.
const LAST_LITERALS: usize = 5;
/// Minimum distance of the start of a match from the end of the block, in bytes.
const LAST_START: usize = 12;
/// Binary logarithm of the number of misses after which the search takes larger steps.
const PATIENCE: u32 = 6;

/// The encoder's working memory, reused for each page.
#[derive(Debug, Default)]
pub struct Lz4 {
    seen: Positions,
}

impl Lz4 {
    /// Returns the size of the page after compression, in bytes. Of a page larger than 64 KiB, only
    /// the first 64 KiB are considered.
    pub fn size(&mut self, page: &[u8]) -> usize {
        let page = &page[..page.len().min(LARGEST_PAGE)];
        if page.len() <= LAST_START {
            return size_of_literals(page.len());
        }
        self.seen.forget();
        let mut size = 0;
        let mut anchor = 0;
        let mut at = 1;
        while let Some((start, from)) = self.find(page, at) {
            let (start, from) = extend_backwards(page, start, from, anchor);
            let (mut here, mut from) = (start, from);
            let mut run = start - anchor;
            loop {
                let end = page.len() - LAST_LITERALS;
                let more = common_length(page, here + MIN_MATCH, from + MIN_MATCH, end);
                size += size_of_literals(run) + 2 + extra_length_bytes(more);
                here += MIN_MATCH + more;
                anchor = here;
                if here > page.len() - LAST_START {
                    return size + size_of_literals(page.len() - anchor);
                }
                self.put(page, here - 2);
                match self.swap(page, here) {
                    Some(before) => (from, run) = (before, 0),
                    None => break,
                }
            }
            at = here + 1;
        }
        size + size_of_literals(page.len() - anchor)
    }

    /// Returns the first position from `at` on whose four bytes are in the table, with the position
    /// at which they occurred before.
    fn find(&mut self, page: &[u8], at: usize) -> Option<(usize, usize)> {
        let (mut here, mut tries) = (at, 1usize << PATIENCE);
        let mut step = 1;
        loop {
            let next = here + step;
            step = tries >> PATIENCE;
            tries += 1;
            if next > page.len() - LAST_START {
                return None;
            }
            if let Some(from) = self.swap(page, here) {
                return Some((here, from));
            }
            here = next;
        }
    }

    fn put(&mut self, page: &[u8], at: usize) {
        self.seen.replace(hash(read_word(page, at), MULTIPLIER), at);
    }

    /// Stores the position `at` in the table. Returns the position that was stored for the same
    /// hash, if the same four bytes are there.
    fn swap(&mut self, page: &[u8], at: usize) -> Option<usize> {
        let value = read_word(page, at);
        let before = self.seen.replace(hash(value, MULTIPLIER), at);
        (read_word(page, before) == value).then_some(before)
    }
}

/// Extends a match backwards as long as the bytes before it are equal and are still literals.
/// Returns the start of the match and of its source.
fn extend_backwards(
    page: &[u8],
    mut start: usize,
    mut from: usize,
    anchor: usize,
) -> (usize, usize) {
    while start > anchor && from > 0 && page[start - 1] == page[from - 1] {
        (start, from) = (start - 1, from - 1);
    }
    (start, from)
}

/// Returns the number of bytes that a token and the literals after it take.
fn size_of_literals(count: usize) -> usize {
    1 + extra_length_bytes(count) + count
}

/// Returns the number of bytes that encode a length in addition to the four bits in the token.
fn extra_length_bytes(length: usize) -> usize {
    if length < 15 { 0 } else { (length - 15) / 255 + 1 }
}
