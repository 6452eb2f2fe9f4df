// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reproducible random orders, each from a seed.

use fastrand::Rng;
use pagewise_model::Access;

/// Puts the items into a random order.
pub(super) fn shuffle<T>(rng: &mut Rng, mut items: Vec<T>) -> Vec<T> {
    rng.shuffle(&mut items);
    items
}

/// Number of pages in a block: as many as the largest readahead. In random order, one page of each
/// block is touched.
pub(super) const BLOCK: usize = 8;

/// The pages to touch, in order. Random access touches one page of each block of [`BLOCK`]
/// neighbours: if it touched all of them, every page that was read ahead would be used in the end,
/// and readahead would seem useful for random access, which is not true.
pub(super) fn order_of_touches(access: Access, pages: usize, seed: u64) -> Vec<usize> {
    match access {
        Access::Sequential => (0..pages).collect(),
        Access::Random => {
            let mut rng = Rng::with_seed(seed);
            let one = |start| start + rng.usize(..BLOCK.min(pages - start));
            let chosen = (0..pages).step_by(BLOCK).map(one).collect();
            shuffle(&mut rng, chosen)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Properties: every block is touched once, only existing pages are, and the same seed
        /// gives the same order.
        #[test]
        fn random_order_touches_every_block_once(pages in 0usize..5000, seed: u64) {
            let order = order_of_touches(Access::Random, pages, seed);
            prop_assert!(order.iter().all(|&page| page < pages));
            let mut blocks: Vec<usize> = order.iter().map(|page| page / BLOCK).collect();
            blocks.sort_unstable();
            prop_assert_eq!(blocks, (0..pages.div_ceil(BLOCK)).collect::<Vec<_>>());
            prop_assert_eq!(order_of_touches(Access::Random, pages, seed), order);
        }
    }
}
