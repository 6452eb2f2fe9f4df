// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small reads that all encoders share.

/// Four bytes of a page, as a little-endian machine reads them.
pub(crate) fn word(page: &[u8], at: usize) -> u32 {
    let bytes = page.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

fn long(page: &[u8], at: usize) -> u64 {
    let bytes = page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
}

/// How many bytes from `a` and from `b` on are equal, looking at `a` before `end` only.
pub(crate) fn common(page: &[u8], a: usize, b: usize, end: usize) -> usize {
    let mut equal = 0;
    while a + equal + 8 <= end {
        let different = long(page, a + equal) ^ long(page, b + equal);
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
