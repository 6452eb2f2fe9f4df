// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A seed → numbers that are random enough to choose offsets and orders by (splitmix64).

/// Gives other numbers for every seed, the same for the same.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, each number as often as any other but for one in 2⁶⁴ / `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let high = (u128::from(self.next()) * u128::from(end)) >> 64;
        u64::try_from(high).unwrap_or(0)
    }

    /// Any order is as likely as any other.
    pub(super) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            let other = usize::try_from(self.below(at as u64 + 1)).unwrap_or(at);
            all.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A shuffled list has what it had, and a seed gives one order only.
        #[test]
        fn shuffling_loses_nothing(seed: u64, length in 0usize..80) {
            let (mut one, mut two): (Vec<_>, Vec<_>) = ((0..length).collect(), (0..length).collect());
            Random::new(seed).shuffle(&mut one);
            Random::new(seed).shuffle(&mut two);
            prop_assert_eq!(&one, &two);
            one.sort_unstable();
            prop_assert_eq!(one, (0..length).collect::<Vec<_>>());
        }

        #[test]
        fn numbers_stay_below_their_end(seed: u64, end in 1u64..) {
            prop_assert!(Random::new(seed).below(end) < end);
        }
    }

    #[test]
    fn every_offset_is_drawn_about_as_often() {
        let (mut random, mut drawn) = (Random::new(1), [0u32; 8]);
        (0..80_000).for_each(|_| drawn[usize::try_from(random.below(8)).unwrap()] += 1);
        // five standard deviations of a binomial: 5 × 93.5
        assert!(drawn.iter().all(|&count| count.abs_diff(10_000) < 468), "{drawn:?}");
    }
}
