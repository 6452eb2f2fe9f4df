// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes pages, from a compression ratio and a seed, that compress like a user's memory but contain
//! none of its data.
//!
//! The blocks of a deleted file stay readable on the disk, so pages of other programs are never
//! written to a file system; pages made here are written instead. A disk takes the same time for
//! any contents; a file system or drive that compresses sees the same ratio. Each page begins with
//! noise and ends with zeros. The same seed makes the same pages.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Minimum number of bytes of noise per page, so that no page is same-filled.
const LEAST_NOISE: usize = 64;

/// Generates stand-in pages with a given compression ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StandIn {
    noise_per_page: f64,
    seed: u64,
}

impl StandIn {
    /// Makes a generator. If the ratio is not known, its pages consist of noise only.
    #[must_use]
    pub fn new(original_per_compressed: Option<f64>, seed: u64) -> Self {
        let known = original_per_compressed.filter(|ratio| *ratio >= 1.0);
        Self { noise_per_page: known.map_or(1.0, f64::recip), seed }
    }

    /// Fills `page` with the contents of the stand-in page of this number.
    pub fn fill(&self, number: u64, page: &mut [u8]) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a page's length, cut to it"
        )]
        let noise = (page.len() as f64 * self.noise_per_page) as usize;
        let (noisy, rest) = page.split_at_mut(noise.max(LEAST_NOISE).min(page.len()));
        Rng::with_seed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fill(noisy);
        rest.fill(0);
    }

    /// Generates `count` pages of `size` bytes and passes each to `take`.
    pub fn each(&self, count: usize, size: usize, mut take: impl FnMut(&[u8])) {
        let mut page = vec![0; size];
        for number in (0..).take(count) {
            self.fill(number, &mut page);
            take(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pages(ratio: Option<f64>, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        StandIn::new(ratio, 3).each(count, 4096, |page| all.extend_from_slice(page));
        all
    }

    proptest! {
        /// The pages compress with the requested ratio.
        #[test]
        fn the_ratio_is_kept(ratio in 1.0f64..20.0) {
            let all = pages(Some(ratio), 16);
            let packed: usize = all.chunks(4096).map(|page| lz4_flex::compress(page).len()).sum();
            let found = all.len() as f64 / packed as f64;
            prop_assert!((0.8..1.1).contains(&(found / ratio)), "{found} for {ratio}");
        }
    }

    #[test]
    fn each_page_is_another_and_the_same_again() {
        let all = pages(Some(3.0), 64);
        let different: std::collections::HashSet<&[u8]> = all.chunks(4096).collect();
        assert_eq!(different.len(), 64);
        assert_eq!(all, pages(Some(3.0), 64));
        let mut one = vec![9; 4096];
        StandIn::new(Some(3.0), 3).fill(5, &mut one);
        assert_eq!(one, all[5 * 4096..6 * 4096]);
    }

    #[test]
    fn without_a_ratio_they_do_not_compress_and_none_is_filled_with_one_word() {
        for wrong in [None, Some(0.5), Some(f64::NAN)] {
            assert!(lz4_flex::compress(&pages(wrong, 4)).len() >= 4 * 4096);
        }
        let dense = pages(Some(1e9), 4);
        assert!(dense.chunks(4096).all(|page| page[..8] != page[8..16]));
    }
}
