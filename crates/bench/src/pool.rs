// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory from the pools of huge pages (hugetlb), to compare with: it is huge from the beginning and stays
//! so, and nobody else can use what a pool holds.

use std::io;

use pagewise_mappings::Region;
use pagewise_model::Bytes;

/// Words of zero in pages of a pool; they go back to it with this.
#[derive(Debug)]
pub struct PoolMemory(Region);

impl PoolMemory {
    /// At least so many bytes, in pages of that size.
    ///
    /// # Errors
    /// ENOMEM where the pool has too few free pages, EINVAL where there is none of that size.
    pub fn map(bytes: usize, page: Bytes) -> io::Result<Self> {
        Region::pool(bytes, page.get()).map(Self)
    }

    /// All of it.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.0.words()
    }

    /// All of it, to be written.
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
