// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes how much memory is in huge pages, how much of it is bloat, and how many address ranges
//! are worth collapsing.
//!
//! Bloat is memory in huge pages that was never written: subpages that contain only zeros. A range
//! of the size of a huge page is worth collapsing if at least half of its pages are in use and none
//! of them is in a huge page; with fewer pages in use, memory would grow more than is gained.
//! Ranges can be counted only if every page was read.

use std::collections::HashMap;

use pagewise_model::{HugeView, MemoryKind, Reading, Source};

use crate::interval::Population;

/// Where a page is in memory, and how it is mapped.
#[derive(Debug, Clone, Copy)]
pub struct PagePosition {
    /// Page number: the address of the page divided by the page size.
    pub number: u64,
    /// The kind of memory that the page belongs to.
    pub kind: MemoryKind,
    /// Whether the page is mapped as part of a huge page; `None` if that is unknown.
    pub huge: Option<bool>,
    /// The weight of this mapping of the page: less than 1 if other mappings in the population show
    /// the same page.
    pub share: f64,
}

impl Default for PagePosition {
    fn default() -> Self {
        Self { number: 0, kind: MemoryKind::default(), huge: None, share: 1.0 }
    }
}

/// Counts of pages in huge pages, and of ranges worth collapsing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Huge {
    known: u64,
    mapped: f64,
    zeros: f64,
    /// For each range with the size of a huge page, the number of its pages that are not part of a
    /// huge page.
    small: HashMap<u64, u32>,
    /// Number of ranges worth collapsing in the sources that were added with `add_source`.
    collapsible: u64,
}

impl Huge {
    /// Counts a page; a huge page has `per_range` pages.
    pub(crate) fn add(&mut self, place: PagePosition, is_zero: bool, per_range: u64) {
        let Some(huge) = place.huge else { return };
        self.known += 1;
        if huge {
            self.mapped += place.share;
            self.zeros += if is_zero { place.share } else { 0.0 };
        } else {
            *self.small.entry(place.number / per_range.max(1)).or_default() += 1;
        }
    }

    /// Adds the counts of another process. Its ranges are counted now, because its addresses have
    /// no relation to those of other processes.
    pub(crate) fn add_source(&mut self, other: &Self, per_range: u64) {
        self.known += other.known;
        self.mapped += other.mapped;
        self.zeros += other.zeros;
        self.collapsible += other.collapsible(per_range);
    }

    /// Number of ranges worth collapsing into a huge page.
    fn collapsible(&self, per_range: u64) -> u64 {
        let is_worth = |pages: &&u32| u64::from(**pages) * 2 >= per_range;
        self.collapsible + self.small.values().filter(is_worth).count() as u64
    }

    /// Adds the counts of another thread for the same process.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.known += other.known;
        self.mapped += other.mapped;
        self.zeros += other.zeros;
        for (range, pages) in &other.small {
            *self.small.entry(*range).or_default() += pages;
        }
    }

    /// Extrapolates the counts from the sample to all pages.
    pub(crate) fn view(&self, all: &Population, per_range: u64) -> HugeView {
        let absent = |why: &'static str| Reading::absent(why, Source::none());
        if self.known == 0 {
            return HugeView {
                mapped_pages: absent("the kernel does not tell which pages are mapped huge"),
                zero_pages: absent("the kernel does not tell which pages are mapped huge"),
                collapsible_ranges: absent("the kernel does not tell which pages are mapped huge"),
            };
        }
        let found = |count| Reading::found(all.pages_of(count), Source::none());
        HugeView {
            mapped_pages: found(self.mapped),
            zero_pages: found(self.zeros),
            collapsible_ranges: if all.is_sample() {
                absent("unknown from a sample; --exact reads every page")
            } else {
                Reading::found(self.collapsible(per_range), Source::none())
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Sums;

    /// Creates a population of `all` pages of which `sampled` were sampled.
    fn sampled_population(sampled: u64, all: u64) -> Population {
        let mut sums = Sums::default();
        (0..sampled).for_each(|_| sums.add(1.0));
        Population::new(sums, all)
    }

    fn seen(pages: impl IntoIterator<Item = (u64, Option<bool>, bool)>) -> Huge {
        let mut huge = Huge::default();
        for (number, is_huge, is_zero) in pages {
            huge.add(
                PagePosition { number, huge: is_huge, ..PagePosition::default() },
                is_zero,
                512,
            );
        }
        huge
    }

    #[test]
    fn half_a_range_is_worth_collapsing_and_less_is_not() {
        let pages =
            |first: u64, count: u64| (first..first + count).map(|at| (at, Some(false), false));
        let mut huge = seen(pages(0, 256).chain(pages(512, 255)));
        huge.merge(&seen((1024..1536).map(|at| (at, Some(true), at % 4 == 0))));
        let view = huge.view(&sampled_population(1023, 1023), 512);
        assert_eq!(view.collapsible_ranges.get(), Some(1));
        assert_eq!((view.mapped_pages.get(), view.zero_pages.get()), (Some(512), Some(128)));
    }

    #[test]
    fn ranges_of_other_processes_are_other_ranges() {
        let one = seen((0..200).map(|at| (at, Some(false), false)));
        let large = seen((0..300).map(|at| (at, Some(false), false)));
        let mut all = Huge::default();
        for source in [&one, &one, &large] {
            all.add_source(source, 512);
        }
        assert_eq!(all.view(&sampled_population(700, 700), 512).collapsible_ranges.get(), Some(1));
    }

    #[test]
    fn a_sample_knows_shares_and_no_ranges() {
        let view = seen([(0, Some(true), true), (1, Some(false), false)])
            .view(&sampled_population(2, 1000), 512);
        assert_eq!((view.mapped_pages.get(), view.zero_pages.get()), (Some(500), Some(500)));
        assert_eq!(view.collapsible_ranges.get(), None);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_no_zero() {
        assert_eq!(
            seen([(0, None, true)]).view(&sampled_population(1, 1), 512).mapped_pages.get(),
            None
        );
    }
}
