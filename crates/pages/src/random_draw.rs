// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides from a seed and a share whether a page is in the sample. The decision does not depend on
//! the caller or on the order of calls. Each page has the same probability, independently of all
//! others, so that the sample is uniform.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 of the numbers of 64 bits; `as` saturates"
)]

/// Decides which pages are drawn.
#[derive(Debug, Clone, Copy)]
pub struct RandomDraw {
    seed: u64,
    /// A page is drawn if its random number is at most this.
    most: u64,
}

impl RandomDraw {
    /// Creates a draw that selects about `requested` of `population` pages.
    #[must_use]
    pub fn new(seed: u64, requested: u64, population: u64) -> Self {
        let share = requested as f64 / population.max(1) as f64;
        let most = if share < 1.0 { (share * u64::MAX as f64) as u64 } else { u64::MAX };
        Self { seed: mix(seed), most }
    }

    /// Creates a draw that selects every page.
    #[must_use]
    pub const fn all() -> Self {
        Self { seed: 0, most: u64::MAX }
    }

    /// Whether this page of a source is in the sample.
    #[must_use]
    pub fn draws(&self, source: usize, page: u64) -> bool {
        self.most == u64::MAX || mix(page ^ mix(self.seed ^ source as u64)) <= self.most
    }
}

/// Mixes a number so that every bit of the result depends on every bit of the input (the finalizer
/// of splitmix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In any stretch of consecutive pages, of sources with consecutive numbers, the number of
    /// drawn pages differs from its expectation by at most 6 standard deviations.
    #[test]
    fn every_stretch_of_every_source_has_its_share() {
        for seed in 0..20 {
            let lot = RandomDraw::new(seed, 100, 1000);
            for source in 0..5 {
                for first in [0, 1 << 20, 0x7f00_0000_0000] {
                    let drawn = (first..first + 1000).filter(|page| lot.draws(source, *page));
                    let drawn = drawn.count();
                    assert!((43..157).contains(&drawn), "{seed} {source} {first:x}: {drawn}");
                }
            }
        }
    }

    /// Whether two neighbouring pages are drawn is independent: of 100,000 pairs, both pages are
    /// drawn in about 1 %.
    #[test]
    fn neighbours_are_independent() {
        let lot = RandomDraw::new(7, 1, 10);
        let both = |page: &u64| lot.draws(0, *page) && lot.draws(0, page + 1);
        let pairs = (0..100_000).filter(both).count();
        assert!((800..1200).contains(&pairs), "{pairs}");
        let sources = (0..100_000).filter(|page| lot.draws(0, *page) && lot.draws(1, *page));
        let pairs = sources.count();
        assert!((800..1200).contains(&pairs), "{pairs}");
    }

    #[test]
    fn all_is_all_and_none_is_none() {
        assert!((0..1000).all(|page| RandomDraw::all().draws(3, page)));
        assert!((0..1000).all(|page| RandomDraw::new(1, 1000, 1000).draws(3, page)));
        assert!(!(0..1000).any(|page| RandomDraw::new(1, 0, 1000).draws(3, page)));
    }
}
