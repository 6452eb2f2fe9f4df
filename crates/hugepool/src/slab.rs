// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of one size class in a part of a huge page. This module handles block numbers only, not
//! memory.
//!
//! The bitmap of free blocks is stored outside of the blocks: a write beyond the end of a block
//! cannot damage it, and a double release is detected.

use crate::Error;
use crate::bits::BitSet;
use crate::size_class::SizeClass;

/// Consecutive spans of a huge page that hold blocks of one size class.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) class: SizeClass,
    /// Size of each block in bytes, at most 256 KiB.
    size: u32,
    /// Number of spans that the slab takes.
    pub(crate) spans: usize,
    capacity: usize,
    free: usize,
    blocks: BitSet,
}

impl Slab {
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for its bitmap.
    pub(crate) fn new(class: SizeClass, span: usize) -> Result<Self, Error> {
        let spans = class.slab_spans(span);
        let capacity = spans * span / class.size();
        let size = u32::try_from(class.size()).map_err(|_| Error::TooLarge)?;
        Ok(Self {
            class,
            size,
            spans,
            capacity,
            free: capacity,
            blocks: BitSet::new_full(capacity)?,
        })
    }

    /// Takes the first free block; returns its offset from the start of the slab in bytes.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let block = self.blocks.smallest()?;
        self.blocks.remove(block);
        self.free -= 1;
        Some(block * self.size as usize)
    }

    /// Releases the block at an offset from the start of the slab.
    ///
    /// # Errors
    /// [`Error::WrongBlock`] if no block begins there, [`Error::DoubleRelease`] if the block is free.
    pub(crate) fn put(&mut self, offset: usize) -> Result<(), Error> {
        // Offsets are below the size of a huge page; a 32-bit division is faster.
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let (block, rest) = ((offset / self.size) as usize, offset % self.size);
        if rest != 0 || block >= self.capacity {
            return Err(Error::WrongBlock);
        }
        if self.blocks.contains(block) {
            return Err(Error::DoubleRelease);
        }
        self.blocks.insert(block);
        self.free += 1;
        Ok(())
    }

    pub(crate) fn has_free(&self) -> bool {
        self.free > 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free == self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_given_once_until_it_is_taken_back() {
        let class = SizeClass::for_size(1000).unwrap();
        let mut slab = Slab::new(class, 64 << 10).unwrap();
        let offsets: Vec<usize> = std::iter::from_fn(|| slab.take()).collect();
        assert_eq!(offsets.len(), (64 << 10) / 1024);
        assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] == 1024));
        assert!(!slab.has_free());
        slab.put(2048).unwrap();
        assert_eq!(slab.put(2048), Err(Error::DoubleRelease));
        assert_eq!(slab.put(2047), Err(Error::WrongBlock));
        assert_eq!(slab.put(64 << 10), Err(Error::WrongBlock));
        assert_eq!(slab.take(), Some(2048));
        for offset in offsets {
            slab.put(offset).unwrap();
        }
        assert!(slab.is_empty());
    }
}
