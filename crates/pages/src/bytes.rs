// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that the lz4 and lzo encoders share: they read words of a page, and keep a table of
//! the positions at which four-byte words occurred last.

/// Size of the largest page that is supported; positions in it fit into 16 bits.
pub(crate) const LARGEST_PAGE: usize = 1 << 16;

pub(crate) const HASH_BITS: u32 = 13;

/// Maps the hash of four bytes to the position at which such bytes occurred last; 0 if they have
/// not occurred.
#[derive(Debug)]
pub(crate) struct Positions(Box<[u16; 1 << HASH_BITS]>);

impl Default for Positions {
    fn default() -> Self {
        Self(Box::new([0; 1 << HASH_BITS]))
    }
}

impl Positions {
    pub(crate) fn forget(&mut self) {
        self.0.fill(0);
    }

    /// Stores a position for a hash, and returns the position that was stored before.
    #[expect(clippy::cast_possible_truncation, reason = "positions are below LARGEST_PAGE")]
    pub(crate) fn replace(&mut self, hash: usize, at: usize) -> usize {
        usize::from(std::mem::replace(&mut self.0[hash], at as u16))
    }
}

/// Computes the hash of four bytes for an encoder; each encoder has its own multiplier.
pub(crate) fn hash(value: u32, multiplier: u32) -> usize {
    (value.wrapping_mul(multiplier) >> (32 - HASH_BITS)) as usize
}

/// Reads four bytes of a page as a little-endian number.
pub(crate) fn read_word(page: &[u8], at: usize) -> u32 {
    let bytes = page.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

fn read_long(page: &[u8], at: usize) -> u64 {
    let bytes = page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
}

/// Returns how many bytes from `a` on equal those from `b` on; bytes at `end` and after it are not
/// compared.
pub(crate) fn common_length(page: &[u8], a: usize, b: usize, end: usize) -> usize {
    let mut equal = 0;
    while a + equal + 8 <= end {
        let different = read_long(page, a + equal) ^ read_long(page, b + equal);
        if different != 0 {
            return equal + (different.trailing_zeros() / 8) as usize;
        }
        equal += 8;
    }
    while a + equal < end && page[a + equal] == page[b + equal] {
        equal += 1;
    }
    equal
}
