// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from a seed, for any place, the number at that place in a pseudo-random permutation of
//! the numbers below `length`.
//!
//! Drawing without replacement must not need memory for the numbers that were drawn, because a
//! sample may be a large part of a large memory. So the order is computed: a Feistel network mixes
//! the two halves of a number in rounds, which is a bijection on the numbers of 2n bits. If a
//! result is not below `length`, it is mapped again until it is; there are at most four times as
//! many numbers as needed, so this takes fewer than four steps on average. The n-th draw is the
//! image of `n`, and does not depend on the draws before.

/// Number of rounds of the Feistel network; the tests of uniformity pass from four rounds on.
const ROUNDS: u64 = 8;

/// A permutation of the numbers below a length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    length: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    pub(crate) fn new(length: u64, seed: u64) -> Self {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        Self { length, half_bits: bits.div_ceil(2).max(1), seed: mix(seed) }
    }

    /// The number at this place of the permutation; `None` for places from `length` on.
    pub(crate) fn number_at(self, place: u64) -> Option<u64> {
        if place >= self.length {
            return None;
        }
        let mut number = self.permute_once(place);
        while number >= self.length {
            number = self.permute_once(number);
        }
        Some(number)
    }

    fn permute_once(self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..ROUNDS {
            let key = self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// Every bit of the result depends on every bit of the input.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let number = (number ^ (number >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every number below `length` occurs exactly once in the permutation.
        #[test]
        fn it_is_a_permutation(length in 0u64..3000, seed: u64) {
            let order = Permutation::new(length, seed);
            let mut seen: Vec<u64> = (0..length).filter_map(|place| order.number_at(place)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..length).collect::<Vec<_>>());
            prop_assert_eq!(order.number_at(length), None);
        }

        /// For lengths that are too large to list all places, each number of the permutation is
        /// below `length`.
        #[test]
        fn large_lengths_stay_within(length in 1u64.., seed: u64, place: u64) {
            let order = Permutation::new(length, seed);
            prop_assert!(order.number_at(place % length).is_some_and(|number| number < length));
        }
    }

    /// Chi-squared statistic of the counts; its mean is the number of cells minus 1, its standard
    /// deviation the square root of twice that.
    fn chi_squared(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum()
    }

    /// Over many seeds, every number occurs equally often, at the first place and at a later one.
    #[test]
    fn each_number_is_as_likely_as_any_other() {
        for place in [0, 1, 57, 99] {
            let mut counts = [0u64; 100];
            for seed in 0..20_000 {
                let number = Permutation::new(100, seed).number_at(place).unwrap();
                counts[usize::try_from(number).unwrap()] += 1;
            }
            let chi = chi_squared(&counts);
            assert!((50.0..160.0).contains(&chi), "place {place}: {chi}");
        }
    }

    /// Pairs of neighbours are as uniform as single numbers: draws are independent of each other.
    #[test]
    fn each_pair_is_as_likely_as_any_other() {
        let mut counts = [0u64; 12 * 12];
        for seed in 0..40_000 {
            let order = Permutation::new(12, seed);
            let (a, b) = (order.number_at(3).unwrap(), order.number_at(4).unwrap());
            counts[usize::try_from(a * 12 + b).unwrap()] += 1;
        }
        let possible: Vec<u64> =
            (0..144).filter(|cell| cell / 12 != cell % 12).map(|cell| counts[cell]).collect();
        assert_eq!(possible.iter().sum::<u64>(), 40_000, "no number twice");
        let chi = chi_squared(&possible);
        assert!((80.0..190.0).contains(&chi), "{chi}");
    }

    /// A sample from one permutation covers all parts of the range evenly.
    #[test]
    fn a_sample_is_spread_over_all_of_it() {
        let order = Permutation::new(1_234_567, 42);
        let mut counts = [0u64; 50];
        for place in 0..20_000 {
            counts[usize::try_from(order.number_at(place).unwrap() * 50 / 1_234_567).unwrap()] += 1;
        }
        let chi = chi_squared(&counts);
        assert!((20.0..90.0).contains(&chi), "{chi}");
    }
}
