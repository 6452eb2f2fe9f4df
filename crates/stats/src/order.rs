// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws the random order in which the arms run, from a seed.
//!
//! The order within each pair is random, which makes the comparison valid for any drift of the
//! machine: if two arms are equal, exchanging their names changes only signs. A strictly
//! alternating order could coincide with something else that alternates.

use fastrand::Rng;

/// Returns for each round the indices of the arms, in the order in which they run.
pub fn draw_rounds(seed: u64, arms: usize, rounds: u32) -> Vec<Vec<usize>> {
    let mut rng = Rng::with_seed(seed);
    let shuffled = |_| {
        let mut round: Vec<usize> = (0..arms).collect();
        rng.shuffle(&mut round);
        round
    };
    (0..rounds).map(shuffled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_arm_and_a_seed_repeats() {
        let all = draw_rounds(7, 3, 50);
        for round in &all {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert_eq!(all, draw_rounds(7, 3, 50));
        assert_ne!(all, draw_rounds(8, 3, 50));
        assert_eq!(all[..20], draw_rounds(7, 3, 20), "more pairs go on where fewer ended");
    }

    #[test]
    fn either_arm_comes_first_about_as_often() {
        let first = draw_rounds(1, 2, 1000).iter().filter(|round| round[0] == 0).count();
        assert!((400..600).contains(&first), "{first}");
    }
}
