// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A seed → an order that is the same every time.

use pagewise_model::Access;

/// Numbers that look random (splitmix64).
#[derive(Debug, Clone)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0. The bias of the remainder is below 2⁻³² for any length of ours.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.number() % end).unwrap_or(0)
    }

    pub(super) fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }
}

/// Neighbours of which a random order touches one: as many as the widest readahead brings.
pub(super) const BLOCK: usize = 8;

/// The pages to touch, in order. Random access touches one page of each block of [`BLOCK`]
/// neighbours: if it touched all of them, every page read ahead would be used in the end, and
/// readahead would look good at what it is bad at.
pub(super) fn of(access: Access, pages: usize, seed: u64) -> Vec<usize> {
    match access {
        Access::Sequential => (0..pages).collect(),
        Access::Random => {
            let mut draw = Draw::new(seed);
            let one = |start| start + draw.below(BLOCK.min(pages - start));
            let chosen = (0..pages).step_by(BLOCK).map(one).collect();
            draw.shuffled(chosen)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every block once, no page that is not there, and the same again for the same seed.
        #[test]
        fn random_order_touches_every_block_once(pages in 0usize..5000, seed: u64) {
            let order = of(Access::Random, pages, seed);
            prop_assert!(order.iter().all(|&page| page < pages));
            let mut blocks: Vec<usize> = order.iter().map(|page| page / BLOCK).collect();
            blocks.sort_unstable();
            prop_assert_eq!(blocks, (0..pages.div_ceil(BLOCK)).collect::<Vec<_>>());
            prop_assert_eq!(of(Access::Random, pages, seed), order);
        }

        #[test]
        fn shuffling_loses_nothing(items in prop::collection::vec(any::<u8>(), 0..50), seed: u64) {
            let mut shuffled = Draw::new(seed).shuffled(items.clone());
            let mut items = items;
            shuffled.sort_unstable();
            items.sort_unstable();
            prop_assert_eq!(shuffled, items);
        }
    }

    /// Each of the 24 orders of four things comes as often as any other.
    #[test]
    fn every_order_is_as_likely_as_any_other() {
        let mut counts = std::collections::BTreeMap::<Vec<u8>, u32>::new();
        let mut draw = Draw::new(7);
        (0..24_000).for_each(|_| *counts.entry(draw.shuffled(vec![0, 1, 2, 3])).or_default() += 1);
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
