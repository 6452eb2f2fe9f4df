// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How zsmalloc, the allocator of zram, uses its memory: by size class, and in bands of sizes for
//! display.
//!
//! An object is stored in the smallest class that it fits. The pages of a class are allocated as
//! zspages, groups of 1 to 16 pages. Slots of a zspage that hold no object are wasted until it is
//! compacted or filled. Incompressible pages are objects of the largest class; same-filled pages
//! are not stored at all.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Pages, Quantity};

/// One size class that has memory: a line of `/sys/kernel/debug/zsmalloc/zramN/classes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeClass {
    /// Number of the class in the pool.
    pub class: u32,
    /// Size of each slot of the class: the largest object that fits.
    pub object_size: Bytes,
    /// Number of slots in all zspages of the class.
    pub objects_allocated: u64,
    /// Number of these slots that hold an object.
    pub objects_used: u64,
    /// Number of pages of RAM allocated for the class.
    pub pages_used: Pages,
    /// Number of pages in each zspage of the class.
    pub pages_per_zspage: u64,
}

impl SizeClass {
    /// Total size of the class's slots that hold no object.
    #[must_use]
    pub fn unused_memory(&self) -> Bytes {
        let slots = self.objects_allocated.saturating_sub(self.objects_used);
        Bytes::new(slots.saturating_mul(self.object_size.get()))
    }
}

/// The size classes of one zram device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct SizeClasses(Vec<SizeClass>);

/// The sum over size classes whose objects are of similar sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeBand {
    /// Size of the largest object that fits into one of the classes.
    pub up_to: Bytes,
    /// Number of objects stored in these classes.
    pub objects: u64,
    /// RAM allocated for these classes.
    pub memory: Bytes,
    /// Total size of the slots in these classes that hold no object.
    pub unused: Bytes,
}

/// Number of bands; each band covers sizes in a range of an eighth of a page.
const BANDS: u64 = 8;

impl SizeClasses {
    /// Keeps the classes of `all` that have memory.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = SizeClass>) -> Self {
        let mut used: Vec<_> = all.into_iter().filter(|class| class.pages_used.get() > 0).collect();
        used.sort_by_key(|class| class.object_size);
        Self(used)
    }

    /// Every class that has memory, in order of size.
    #[must_use]
    pub fn classes(&self) -> &[SizeClass] {
        &self.0
    }

    /// Sums the classes over bands of an eighth of a page; bands without memory are left out. The
    /// last band contains the incompressible pages.
    #[must_use]
    pub fn bands(&self, page_size: Bytes) -> Vec<SizeBand> {
        let step = (page_size.get() / BANDS).max(1);
        let mut bands: Vec<SizeBand> = Vec::new();
        for class in &self.0 {
            let up_to = Bytes::new(class.object_size.get().div_ceil(step).saturating_mul(step));
            if bands.last().is_none_or(|band| band.up_to != up_to) {
                bands.push(SizeBand {
                    up_to,
                    objects: 0,
                    memory: Bytes::new(0),
                    unused: Bytes::new(0),
                });
            }
            if let Some(band) = bands.last_mut() {
                band.add(class, page_size);
            }
        }
        bands
    }

    /// The sum of all bands.
    #[must_use]
    pub fn sum(&self, page_size: Bytes) -> SizeBand {
        let (up_to, nothing) = (page_size, Bytes::new(0));
        let mut sum = SizeBand { up_to, objects: 0, memory: nothing, unused: nothing };
        self.0.iter().for_each(|class| sum.add(class, page_size));
        sum
    }
}

impl SizeBand {
    fn add(&mut self, class: &SizeClass, page_size: Bytes) {
        self.objects = self.objects.saturating_add(class.objects_used);
        self.memory = self.memory.saturating_add(class.pages_used.to_bytes(page_size));
        self.unused = self.unused.saturating_add(class.unused_memory());
    }
}

impl Quantity for SizeClasses {
    fn shown(&self) -> String {
        format!("{} size classes with memory", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(number: u32, size: u64, [allocated, used, pages]: [u64; 3]) -> SizeClass {
        SizeClass {
            class: number,
            object_size: Bytes::new(size),
            objects_allocated: allocated,
            objects_used: used,
            pages_used: Pages::new(pages),
            pages_per_zspage: 1,
        }
    }

    #[test]
    fn bands_add_up_to_the_sum() {
        let all = SizeClasses::new([
            class(0, 32, [128, 100, 1]),
            class(30, 512, [8, 8, 1]),
            class(31, 528, [0, 0, 0]),
            class(60, 1024, [8, 5, 2]),
            class(254, 4096, [3, 3, 3]),
        ]);
        assert_eq!(all.classes().len(), 4, "a class without memory is left out");
        let page = Bytes::new(4096);
        let bands = all.bands(page);
        let ends: Vec<u64> = bands.iter().map(|band| band.up_to.get()).collect();
        assert_eq!(ends, [512, 1024, 4096]);
        assert_eq!(bands[0].objects, 108);
        assert_eq!(bands[0].memory, Bytes::new(2 * 4096));
        assert_eq!(bands[0].unused, Bytes::new(28 * 32));
        assert_eq!(bands[1].unused, Bytes::new(3 * 1024));
        let sum = all.sum(page);
        assert_eq!(sum.objects, bands.iter().map(|band| band.objects).sum::<u64>());
        assert_eq!(sum.memory.get(), bands.iter().map(|band| band.memory.get()).sum::<u64>());
        assert_eq!(sum.unused.get(), 28 * 32 + 3 * 1024);
    }

    #[test]
    fn counters_that_contradict_each_other_do_not_wrap() {
        assert_eq!(class(1, u64::MAX, [u64::MAX, 0, 1]).unused_memory(), Bytes::new(u64::MAX));
        assert_eq!(class(1, 64, [3, 5, 1]).unused_memory(), Bytes::new(0));
        let odd = SizeClasses::new([class(1, u64::MAX, [1, 1, u64::MAX])]);
        assert_eq!(odd.bands(Bytes::new(0)).len(), 1);
    }
}
