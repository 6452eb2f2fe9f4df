// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assigns sizes of small blocks to size classes, and computes how many blocks of a class share a
//! slab.
//!
//! Classes are 16 bytes apart up to 128 bytes; above that, there are eight classes per power of
//! two, so that rounding up wastes at most 1/8 of a block. The largest class is 256 KiB.
//!
//! A block's offset in its slab is a multiple of its class, and slabs are aligned to spans. So
//! blocks are aligned to the largest power of two that divides their class.

/// Alignment of every block in bytes, and the size of the smallest class.
pub(crate) const QUANTUM: usize = 16;
/// Classes below this index have at most 16 KiB; threads cache only these.
pub(crate) const KEPT: usize = 64;
/// The largest block size that has a class, in bytes.
pub(crate) const LARGEST: usize = 256 << 10;
/// Number of size classes.
pub(crate) const COUNT: usize = 8 + 8 * 11;

const LINEAR: usize = 128;
/// Slabs get more spans until the unused rest is at most this part of them (1/16).
const WASTE: usize = 16;
const MOST_SPANS: usize = 16;

/// A size class: an index below [`COUNT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    /// Whether threads cache free blocks of the class.
    #[inline]
    pub(crate) fn is_cached_by_threads(self) -> bool {
        self.index() < KEPT
    }

    /// The smallest size class for a size from 1 to [`LARGEST`]; `None` for other sizes.
    #[inline]
    pub(crate) fn for_size(size: usize) -> Option<Self> {
        let last = size.wrapping_sub(1);
        if last >= LARGEST {
            return None;
        }
        // The class is computed without a branch on the size: up to 255, steps are 16 bytes; above
        // that, an eighth of a power of two.
        let doubling = ((last | 255).ilog2() - 7) as usize;
        Self::from_index((last >> (4 + doubling)) + 8 * doubling)
    }

    /// The smallest size class for a size whose blocks have the alignment (a power of two).
    #[inline]
    pub(crate) fn for_layout(size: usize, alignment: usize) -> Option<Self> {
        if alignment <= QUANTUM {
            return Self::for_size(size);
        }
        let mut class = Self::for_size(size.checked_next_multiple_of(alignment)?)?;
        while class.size() % alignment != 0 {
            class = Self::from_index(class.index() + 1)?;
        }
        Some(class)
    }

    #[inline]
    pub(crate) fn from_index(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|index| usize::from(*index) < COUNT).map(Self)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..COUNT).filter_map(Self::from_index)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The size of blocks of this class in bytes.
    #[inline]
    pub(crate) fn size(self) -> usize {
        let index = self.index();
        if index < 8 {
            return (index + 1) * QUANTUM;
        }
        let base = LINEAR << ((index - 8) / 8);
        base + (index % 8 + 1) * (base / 8)
    }

    /// The number of spans of a slab of this class: the smallest number that wastes little.
    pub(crate) fn slab_spans(self, span: usize) -> usize {
        let is_dense = |spans: &usize| (spans * span) % self.size() <= spans * span / WASTE;
        let fewest = self.size().div_ceil(span);
        (fewest..=MOST_SPANS).find(is_dense).unwrap_or(fewest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_gets_the_smallest_class_that_holds_it() {
        let sizes: Vec<usize> = SizeClass::all().map(SizeClass::size).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        assert_eq!((sizes[0], sizes[COUNT - 1]), (QUANTUM, LARGEST));
        let step = if cfg!(miri) { 97 } else { 1 };
        for size in (1..=LARGEST).step_by(step) {
            let smallest = sizes.iter().find(|class| **class >= size);
            assert_eq!(SizeClass::for_size(size).map(SizeClass::size).as_ref(), smallest);
        }
        assert_eq!(SizeClass::for_size(0), None);
        assert_eq!(SizeClass::for_size(LARGEST + 1), None);
        assert_eq!(SizeClass::for_size(usize::MAX), None);
    }

    #[test]
    fn kept_classes_are_those_up_to_16_kib() {
        let first = SizeClass::from_index(KEPT).unwrap();
        let last = SizeClass::from_index(KEPT - 1).unwrap();
        assert_eq!((last.size(), first.size()), (16 << 10, 18 << 10));
    }

    #[test]
    fn rounding_up_wastes_at_most_an_eighth() {
        let sizes: Vec<usize> = SizeClass::all().map(SizeClass::size).collect();
        for pair in sizes.windows(2).filter(|pair| pair[0] >= LINEAR) {
            assert!(pair[1] - pair[0] <= pair[1] / 8, "{pair:?}");
        }
    }

    #[test]
    fn classes_of_a_layout_are_multiples_of_its_alignment() {
        for alignment in (0..17).map(|shift| 1usize << shift) {
            for size in [1, 17, 100, 129, 1000, 5000, 40_000, LARGEST] {
                let class = SizeClass::for_layout(size, alignment).unwrap();
                assert!(class.size() >= size && class.size() % alignment.min(65_536) == 0);
            }
        }
        assert_eq!(SizeClass::for_layout(LARGEST, 2 * LARGEST), None);
        assert_eq!(SizeClass::for_layout(usize::MAX, 4096), None);
    }

    #[test]
    fn slabs_waste_little() {
        for span in [64 << 10, 1 << 20] {
            for class in SizeClass::all() {
                let bytes = class.slab_spans(span) * span;
                assert!(bytes % class.size() <= bytes / WASTE, "{class:?} of {}", class.size());
            }
        }
    }
}
