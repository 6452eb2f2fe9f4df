// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the memory that zsmalloc takes for objects of given sizes.
//!
//! Objects are stored in zspages: chains of a few pages that are divided into equal slots. Object
//! sizes are rounded up in steps (of 16 bytes for pages of 4 KiB), and for each step the chain
//! length that wastes the least memory is used. Steps that divide a zspage in the same way share
//! their zspages: they are one size class. The maximum chain length and the choice depend on the
//! kernel, which is described by a [`Rule`]. A slot also contains a handle of eight bytes. An
//! object that would need a slot of a whole page is *huge*: it is stored uncompressed.
//!
//! For a fresh pool the result is exact, in whatever order pages are stored. A pool that has been
//! used for some time takes more memory. The slot table (at least 16 bytes per page of disksize)
//! belongs to zram and is not included.
//!
//! Sources: the kernel's zsmalloc documentation for the layout, and `mem_used_total` of real
//! devices for all numbers.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of pages are positive and far below 2^53"
)]

use pagewise_model::Bytes;

/// Size in bytes of the smallest slot for an object.
const SMALLEST: usize = 32;
/// Number of steps to which object sizes are rounded, per page.
const STEPS: usize = 256;
/// Number of bytes in each slot that zsmalloc uses for its own handle.
const HANDLE: usize = 8;

/// How a kernel version chooses the number of pages in a zspage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The kernel chooses the length with the highest utilisation in whole percent, of at most 4
    /// pages, as Linux 6.1 does.
    UsedPercent,
    /// The kernel chooses the length with the least waste, of at most `longest` pages, as Linux
    /// 6.12 does; a size that is a power of two takes one page.
    LeastWaste {
        /// Maximum number of pages in a zspage (`CONFIG_ZSMALLOC_CHAIN_SIZE`, usually 8).
        longest: usize,
    },
}

/// A size class: how its zspages are divided into slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Size of a slot for one object, in bytes.
    pub place: usize,
    /// Number of pages in a zspage.
    pub pages: usize,
    /// Number of slots for objects in a zspage.
    pub objects: usize,
}

impl Class {
    fn split_at(place: usize, page: usize, rule: Rule) -> Self {
        let pages = rule.choose_chain_length(place, page);
        Self { place, pages, objects: pages * page / place }
    }

    fn is_cut_like(&self, other: &Self) -> bool {
        (self.pages, self.objects) == (other.pages, other.objects)
    }
}

impl Rule {
    fn choose_chain_length(self, place: usize, page: usize) -> usize {
        let waste = |pages: &usize| pages * page % place;
        let used = |pages: &usize| (pages * page - waste(pages)) * 100 / (pages * page);
        // if several chain lengths waste the same amount, the shortest is used
        match self {
            Self::UsedPercent => (1..=4).rev().max_by_key(used),
            Self::LeastWaste { .. } if place.is_power_of_two() => None,
            Self::LeastWaste { longest } => (1..=longest).min_by_key(waste),
        }
        .unwrap_or(1)
    }
}

/// The size classes that zsmalloc has with one kernel and page size.
#[derive(Debug, Clone)]
pub struct Zsmalloc {
    page: usize,
    /// The size classes, sorted by the size of their slots.
    classes: Vec<Class>,
    /// For each step of object sizes, the index of its class in `classes`.
    of_step: Vec<usize>,
    huge: usize,
}

impl Zsmalloc {
    /// Creates the size classes of a kernel with this `rule`, for pages of `page` bytes (a power of
    /// two).
    #[must_use]
    pub fn new(page: usize, rule: Rule) -> Self {
        let step = page / STEPS;
        let steps = (page - SMALLEST).div_ceil(step);
        let mut classes: Vec<Class> = Vec::new();
        let mut of_step = Vec::new();
        let mut huge = page;
        for place in (0..=steps).rev().map(|at| (SMALLEST + at * step).min(page)) {
            let class = Class::split_at(place, page, rule);
            if huge == page && class.pages != 1 && class.objects != 1 {
                huge = place + 1 - HANDLE;
            }
            // if several steps have the same division, the largest slot is used
            if !classes.last().is_some_and(|last| last.is_cut_like(&class)) {
                classes.push(class);
            }
            of_step.push(classes.len());
        }
        classes.reverse();
        let of_step = of_step.into_iter().rev().map(|from_end| classes.len() - from_end).collect();
        Self { page, classes, of_step, huge }
    }

    /// The compressed size, in bytes, from which on a page is stored uncompressed.
    #[must_use]
    pub fn huge_threshold(&self) -> usize {
        self.huge
    }

    /// All size classes, sorted by the size of their slots.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Number of bytes that a page with this compressed size adds to zram's `compr_data_size`.
    #[must_use]
    pub fn stored_size(&self, size: usize) -> usize {
        if size >= self.huge { self.page } else { size }
    }

    /// Returns the class for a page with this compressed size, as an index into [`Self::classes`].
    #[must_use]
    pub fn class_of(&self, size: usize) -> usize {
        let needed = self.stored_size(size) + HANDLE;
        let step = needed.saturating_sub(SMALLEST).div_ceil(self.page / STEPS);
        self.of_step[step.min(self.of_step.len() - 1)]
    }

    /// Number of bytes of a zspage that a page with this compressed size takes.
    #[must_use]
    pub fn share_of_zspage(&self, size: usize) -> f64 {
        let class = self.classes[self.class_of(size)];
        self.zspage_bytes(class) / class.objects as f64
    }

    /// Size of a zspage in bytes.
    pub(crate) fn zspage_bytes(&self, class: Class) -> f64 {
        (class.pages * self.page) as f64
    }

    /// Returns counters of stored pages per class that are all zero.
    #[must_use]
    pub fn empty_class_pages(&self) -> ClassPages {
        ClassPages { classes: vec![ClassSample::default(); self.classes.len()] }
    }

    /// Returns zram's `mem_used_total` after these pages were stored on a new device.
    #[must_use]
    pub fn used_after_fresh_fill(&self, stored: &ClassPages) -> Bytes {
        let zspages = |(class, seen): (Class, ClassSample)| {
            let pages = seen.shares.round() as u64;
            pages.div_ceil(class.objects as u64) * (class.pages * self.page) as u64
        };
        Bytes::new(stored.of_classes(self).map(zspages).sum())
    }
}

/// The sampled objects that are stored in one size class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ClassSample {
    /// Number of sampled places whose page is stored in this class.
    pub(crate) objects: u64,
    /// Sum of the shares of these places, and the sum of the squares of the shares.
    pub(crate) shares: f64,
    pub(crate) squares: f64,
}

/// Number of stored pages in each size class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassPages {
    classes: Vec<ClassSample>,
}

impl ClassPages {
    /// Counts a page with this compressed size.
    pub fn add(&mut self, pool: &Zsmalloc, size: usize) {
        self.add_share(pool, size, 1.0);
    }

    /// Counts a place that has this share of a page.
    pub fn add_share(&mut self, pool: &Zsmalloc, size: usize, share: f64) {
        let seen = &mut self.classes[pool.class_of(size)];
        seen.objects += 1;
        seen.shares += share;
        seen.squares += share * share;
    }

    /// Number of stored pages in each size class.
    #[must_use]
    pub fn objects(&self) -> Vec<u64> {
        self.classes.iter().map(|seen| seen.shares.ceil() as u64).collect()
    }

    pub(crate) fn of_classes(&self, pool: &Zsmalloc) -> impl Iterator<Item = (Class, ClassSample)> {
        pool.classes.iter().copied().zip(self.classes.iter().copied())
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.classes.iter_mut().zip(&other.classes) {
            ours.objects += theirs.objects;
            ours.shares += theirs.shares;
            ours.squares += theirs.squares;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_are_as_many_as_measured() {
        let new = Zsmalloc::new(4096, Rule::LeastWaste { longest: 8 });
        let old = Zsmalloc::new(4096, Rule::UsedPercent);
        assert_eq!((new.classes.len(), new.huge_threshold()), (119, 3625));
        assert_eq!((old.classes.len(), old.huge_threshold()), (69, 3257));
    }

    /// Fills a pool in a simple way: objects are stored one by one, in a new zspage if no other has
    /// a free slot.
    fn pack(pool: &Zsmalloc, sizes: &[usize]) -> u64 {
        let mut free = vec![0usize; pool.classes.len()];
        let mut pages = 0;
        for size in sizes {
            let at = pool.class_of(*size);
            if free[at] == 0 {
                free[at] = pool.classes[at].objects;
                pages += pool.classes[at].pages;
            }
            free[at] -= 1;
        }
        (pages * pool.page) as u64
    }

    fn any_pool() -> impl Strategy<Value = Zsmalloc> {
        let rule = prop_oneof![
            Just(Rule::UsedPercent),
            (4usize..=16).prop_map(|longest| Rule::LeastWaste { longest })
        ];
        (prop_oneof![Just(4096), Just(16384), Just(65536)], rule)
            .prop_map(|(page, rule)| Zsmalloc::new(page, rule))
    }

    proptest! {
        #[test]
        fn a_fresh_fill_takes_what_packing_takes(
            pool in any_pool(),
            sizes in prop::collection::vec(1usize..70_000, 0..400),
        ) {
            let mut stored = pool.empty_class_pages();
            sizes.iter().for_each(|size| stored.add(&pool, *size));
            prop_assert_eq!(pool.used_after_fresh_fill(&stored).get(), pack(&pool, &sizes));
        }

        /// A slot has room for the object and its handle, and is never larger than a page.
        #[test]
        fn every_size_has_a_place(pool in any_pool(), size in 1usize..70_000) {
            let class = pool.classes[pool.class_of(size)];
            let room = pool.stored_size(size) + HANDLE;
            prop_assert!(class.place >= room.min(pool.page), "{class:?} for {size}");
            prop_assert!(class.place <= pool.page);
            prop_assert_eq!(class.objects, class.pages * pool.page / class.place);
        }
    }
}
