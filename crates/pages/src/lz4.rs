// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page → the bytes that the kernel's lz4 would make of it, without making them.
//!
//! The block format says what a sequence of literals and a match costs; which matches are found is
//! the encoder's choice, and this one chooses as the kernel's does: a table of 2^13 positions by
//! four bytes, acceleration 1, and no search beyond twelve bytes before the end. liblz4 searches
//! one position further, so that one page in 30 to 2,500 comes out differently there.
//!
//! Source of the format: the LZ4 block format description. Of the search: as it is commonly known of
//! LZ4's fast encoder; that it is the kernel's was measured against zram, page by page.

use crate::bytes::{LARGEST_PAGE, Positions, common, hash, word};

const MULTIPLIER: u32 = 2_654_435_761;
const MIN_MATCH: usize = 4;
/// The last bytes of a block are always literals.
const LAST_LITERALS: usize = 5;
/// No match starts nearer to the end than this.
const LAST_START: usize = 12;
/// After this many misses (as a power of two) the search takes larger steps.
const PATIENCE: u32 = 6;

/// The encoder's memory, reused from page to page.
#[derive(Debug, Default)]
pub struct Lz4 {
    seen: Positions,
}

impl Lz4 {
    /// The compressed size in bytes. Of a page larger than 64 KiB the size of its first
    /// part only.
    pub fn size(&mut self, page: &[u8]) -> usize {
        let page = &page[..page.len().min(LARGEST_PAGE)];
        if page.len() <= LAST_START {
            return literals(page.len());
        }
        self.seen.forget();
        let mut size = 0;
        let mut anchor = 0;
        let mut at = 1;
        while let Some((start, from)) = self.find(page, at) {
            let (start, from) = back(page, start, from, anchor);
            let (mut here, mut from) = (start, from);
            let mut run = start - anchor;
            loop {
                let end = page.len() - LAST_LITERALS;
                let more = common(page, here + MIN_MATCH, from + MIN_MATCH, end);
                size += literals(run) + 2 + extra(more);
                here += MIN_MATCH + more;
                anchor = here;
                if here > page.len() - LAST_START {
                    return size + literals(page.len() - anchor);
                }
                self.put(page, here - 2);
                match self.swap(page, here) {
                    Some(before) => (from, run) = (before, 0),
                    None => break,
                }
            }
            at = here + 1;
        }
        size + literals(page.len() - anchor)
    }

    /// From `at` on the first position whose four bytes the table knows, and where it knows them from.
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
        self.seen.replace(hash(word(page, at), MULTIPLIER), at);
    }

    /// Remembers `at`; the position remembered before, where the same four bytes are.
    fn swap(&mut self, page: &[u8], at: usize) -> Option<usize> {
        let value = word(page, at);
        let before = self.seen.replace(hash(value, MULTIPLIER), at);
        (word(page, before) == value).then_some(before)
    }
}

/// Both ends of a match, moved back over equal bytes that are literals so far.
fn back(page: &[u8], mut start: usize, mut from: usize, anchor: usize) -> (usize, usize) {
    while start > anchor && from > 0 && page[start - 1] == page[from - 1] {
        (start, from) = (start - 1, from - 1);
    }
    (start, from)
}

/// A token with its literals.
fn literals(count: usize) -> usize {
    1 + extra(count) + count
}

/// The bytes that a length needs beyond the token's four bits.
fn extra(length: usize) -> usize {
    if length < 15 { 0 } else { (length - 15) / 255 + 1 }
}
