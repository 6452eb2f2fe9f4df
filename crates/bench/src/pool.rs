// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory from hugetlb pools, for comparison: it is in huge pages from the start and remains so,
//! and no other process can use the memory of a pool.

use std::io;

use pagewise_mappings::Region;
use pagewise_model::Bytes;

/// Zero-filled memory of a hugetlb pool; its pages are returned to the pool when this value is
/// dropped.
#[derive(Debug)]
pub struct PoolMemory(Region);

impl PoolMemory {
    /// Maps at least this many bytes, in huge pages of this size.
    ///
    /// # Errors
    /// ENOMEM if the pool has too few free pages, EINVAL if there is no pool of that size.
    pub fn map(bytes: usize, page: Bytes) -> io::Result<Self> {
        Region::map_pool(bytes, page.get()).map(Self)
    }

    /// The pool's memory as 64-bit words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.0.words()
    }

    /// The pool's memory as 64-bit words, for writing.
    pub fn words_mut(&mut self) -> &mut [u64] {
        self.0.words_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_none_is_refused() {
        for page in [0, 3, 4096, 1 << 60] {
            assert!(PoolMemory::map(1 << 20, Bytes::new(page)).is_err(), "{page}");
        }
    }
}
