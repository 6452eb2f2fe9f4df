// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws ranks from the Zipf distribution with a given exponent (inverse transform with a
//! cumulative table), and pages by rank.
//!
//! The table takes eight bytes for each rank. It is exact, since the choice of evicted pages is
//! judged by these probabilities.

use fastrand::Rng;

/// A Zipf distribution: rank k, from 0, has a probability proportional to (k + 1) to the power of
/// minus the exponent.
#[derive(Debug)]
pub(crate) struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// A distribution over `ranks` ranks, at least one.
    pub(crate) fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = Vec::with_capacity(ranks);
        let mut rank = 0.0_f64;
        for _ in 0..ranks.max(1) {
            rank += 1.0;
            sum += rank.powf(-exponent);
            cumulative.push(sum);
        }
        cumulative.iter_mut().for_each(|share| *share /= sum);
        Self { cumulative }
    }

    /// Draws a random rank.
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let drawn = rng.f64();
        let at = self.cumulative.partition_point(|share| *share <= drawn);
        at.min(self.cumulative.len() - 1)
    }

    /// The probability of this rank.
    pub(crate) fn probability(&self, rank: usize) -> f64 {
        let before = rank.checked_sub(1).map_or(0.0, |before| self.cumulative[before]);
        self.cumulative[rank] - before
    }
}

/// Pages that are accessed with a Zipf distribution, with shuffled ranks.
#[derive(Debug)]
pub(crate) struct ZipfPages {
    zipf: Zipf,
    /// Number of the page that has each rank.
    order: Vec<u32>,
}

impl ZipfPages {
    pub(crate) fn new(pages: usize, exponent: f64, rng: &mut Rng) -> Self {
        let mut order: Vec<u32> = (0..u32::try_from(pages).unwrap_or(u32::MAX)).collect();
        rng.shuffle(&mut order);
        Self { zipf: Zipf::new(pages, exponent), order }
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        usize::try_from(self.order[self.zipf.draw(rng)]).unwrap_or(usize::MAX)
    }

    /// The access frequency of each page.
    pub(crate) fn frequencies(&self) -> impl Iterator<Item = (usize, f64)> {
        let page = |rank: usize| usize::try_from(self.order[rank]).unwrap_or(usize::MAX);
        (0..self.order.len()).map(move |rank| (page(rank), self.zipf.probability(rank)))
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::Zipf;

    /// The frequencies of drawn ranks pass a chi-squared test at the 0.1 % level, with nine degrees
    /// of freedom.
    #[test]
    fn ranks_come_as_often_as_they_should() {
        const DRAWS: u32 = 100_000;
        for exponent in [0.0, 0.7, 1.0, 1.5] {
            let (zipf, mut rng) = (Zipf::new(10, exponent), Rng::with_seed(4));
            let mut counts = [0u32; 10];
            (0..DRAWS).for_each(|_| counts[zipf.draw(&mut rng)] += 1);
            let weights: Vec<f64> = (1..=10).map(|k| f64::from(k).powf(-exponent)).collect();
            let all: f64 = weights.iter().sum();
            let chi: f64 = counts
                .iter()
                .zip(weights)
                .map(|(count, weight)| (f64::from(*count), weight / all * f64::from(DRAWS)))
                .map(|(found, expected)| (found - expected).powi(2) / expected)
                .sum();
            assert!(chi < 27.88, "exponent {exponent}: {counts:?}");
        }
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_fall(ranks in 1usize..2000, exponent in 0.0f64..3.0) {
            let zipf = Zipf::new(ranks, exponent);
            let all: Vec<f64> = (0..ranks).map(|rank| zipf.probability(rank)).collect();
            prop_assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(all.windows(2).all(|two| two[0] >= two[1] - 1e-12));
        }
    }
}
