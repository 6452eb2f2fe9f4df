// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates the sequence of accesses of `tiers` from its parameters and a seed.

use fastrand::Rng;

use super::super::Tiers;
use super::super::zipf::ZipfPages;

/// One access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// Whether the access goes to the cold set, otherwise to the hot one.
    pub(super) cold: bool,
    /// Page number in the accessed set.
    pub(super) page: usize,
    pub(super) write: bool,
}

/// An endless sequence of accesses, reproducible by its seed.
#[derive(Debug)]
pub(super) struct Accesses {
    cold_pages: usize,
    hot_pages: usize,
    cold_share: f64,
    /// The distribution over the pages of the hot set; `None` if all have the same probability.
    skewed: Option<ZipfPages>,
    write_share: f64,
    rng: Rng,
}

impl Accesses {
    /// Accesses to sets of these sizes; the hot one must have at least one page.
    pub(super) fn new(settings: &Tiers, cold_pages: usize, hot_pages: usize) -> Self {
        let mut rng = Rng::with_seed(settings.seed);
        let skewed = (settings.exponent > 0.0)
            .then(|| ZipfPages::new(hot_pages, settings.exponent, &mut rng));
        let (cold_share, write_share) = (settings.cold_share, settings.write_share);
        Self { cold_pages, hot_pages, cold_share, skewed, write_share, rng }
    }

    pub(super) fn draw(&mut self) -> Access {
        let rng = &mut self.rng;
        let cold = self.cold_share > 0.0 && rng.f64() < self.cold_share;
        let page = match &self.skewed {
            _ if cold => rng.usize(0..self.cold_pages),
            Some(skewed) => skewed.draw(rng),
            None => rng.usize(0..self.hot_pages),
        };
        let write = self.write_share > 0.0 && rng.f64() < self.write_share;
        Access { cold, page, write }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    /// Chi-squared test of counts against probabilities at the 0.1 % level (Wilson-Hilferty
    /// approximation).
    fn fits(counts: &[u32], probabilities: &[f64]) -> Result<(), String> {
        let draws: f64 = counts.iter().map(|count| f64::from(*count)).sum();
        let expected = |at: usize| probabilities[at] * draws;
        let chi: f64 = (0..counts.len())
            .map(|at| (f64::from(counts[at]) - expected(at)).powi(2) / expected(at))
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        let spread = 2.0 / (9.0 * freedom);
        let bound = freedom * (1.0 - spread + 3.09 * spread.sqrt()).powi(3);
        if chi < bound { Ok(()) } else { Err(format!("{chi} of {bound}: {counts:?}")) }
    }

    /// The number of accesses to each page of both sets.
    fn count_accesses(settings: &Tiers, cold: usize, hot: usize, draws: u32) -> [Vec<u32>; 2] {
        let mut accesses = Accesses::new(settings, cold, hot);
        let mut counts = [vec![0; cold], vec![0; hot]];
        for _ in 0..draws {
            let access = accesses.draw();
            counts[usize::from(!access.cold)][access.page] += 1;
        }
        counts
    }

    #[test]
    fn pages_of_a_uniform_set_are_as_likely_and_cold_ones_never_accessed() {
        let [cold, hot] = count_accesses(&Tiers::default(), 7, 20, 100_000);
        assert_eq!(cold, [0; 7]);
        fits(&hot, &[0.05; 20]).unwrap();
        let mixed = Tiers { cold_share: 0.25, ..Tiers::default() };
        let [cold, hot] = count_accesses(&mixed, 5, 5, 100_000);
        fits(&[cold, hot].concat(), &[[0.05; 5], [0.15; 5]].concat()).unwrap();
    }

    /// Compares the pages of a skewed set by rank, regardless of which page has a rank.
    #[test]
    fn pages_of_a_skewed_set_follow_the_distribution() {
        let skewed = Tiers { exponent: 0.9, ..Tiers::default() };
        let [_, mut hot] = count_accesses(&skewed, 1, 12, 200_000);
        assert!(!hot.is_sorted_by(|a, b| a >= b), "pages have their ranks in no order: {hot:?}");
        hot.sort_unstable_by(|a, b| b.cmp(a));
        let weights: Vec<f64> = (1..=12).map(|rank| f64::from(rank).powf(-0.9)).collect();
        let all: f64 = weights.iter().sum();
        fits(&hot, &weights.iter().map(|weight| weight / all).collect::<Vec<_>>()).unwrap();
    }

    /// The sequence of accesses computed without tables: the rank is found by summing weights.
    struct Naive {
        settings: Tiers,
        cold: usize,
        ranks: Vec<u32>,
        rng: Rng,
    }

    impl Naive {
        fn new(settings: &Tiers, cold: usize, hot: usize) -> Self {
            let mut rng = Rng::with_seed(settings.seed);
            let mut ranks: Vec<u32> = (0..u32::try_from(hot).unwrap()).collect();
            if settings.exponent > 0.0 {
                rng.shuffle(&mut ranks);
            }
            Self { settings: settings.clone(), cold, ranks, rng }
        }

        /// The possible pages: two if the drawn number is on the border of their ranks.
        fn draw(&mut self) -> (bool, Vec<usize>, bool) {
            let cold = self.settings.cold_share > 0.0 && self.rng.f64() < self.settings.cold_share;
            let pages = if cold {
                vec![self.rng.usize(0..self.cold)]
            } else if self.settings.exponent > 0.0 {
                self.draw_skewed()
            } else {
                vec![self.rng.usize(0..self.ranks.len())]
            };
            let writes = self.settings.write_share;
            (cold, pages, writes > 0.0 && self.rng.f64() < writes)
        }

        fn draw_skewed(&mut self) -> Vec<usize> {
            let weight = |rank: usize| ((rank + 1) as f64).powf(-self.settings.exponent);
            let all: f64 = (0..self.ranks.len()).map(weight).sum();
            let drawn = self.rng.f64() * all;
            let mut below = 0.0;
            let mut pages = Vec::new();
            for (rank, page) in self.ranks.iter().enumerate() {
                let above = below + weight(rank);
                if drawn > below - 1e-9 && drawn < above + 1e-9 {
                    pages.push(usize::try_from(*page).unwrap());
                }
                below = above;
            }
            pages
        }
    }

    proptest! {
        #[test]
        fn a_naive_sequence_agrees(
            (cold, hot) in (1usize..50, 1usize..50),
            exponent in prop_oneof![Just(0.0), 0.1f64..3.0],
            cold_share in prop_oneof![Just(0.0), 0.0f64..=1.0],
            write_share in prop_oneof![Just(0.0), 0.0f64..=1.0],
            seed: u64,
        ) {
            let settings = Tiers { exponent, cold_share, write_share, seed, ..Tiers::default() };
            let mut accesses = Accesses::new(&settings, cold, hot);
            let mut naive = Naive::new(&settings, cold, hot);
            for _ in 0..300 {
                let found = accesses.draw();
                let (cold, pages, write) = naive.draw();
                prop_assert_eq!((found.cold, found.write), (cold, write));
                prop_assert!(pages.contains(&found.page), "{:?} of {:?}", found, pages);
            }
        }

        /// The shares of accesses to the cold set and of writes are as requested, within five
        /// standard errors.
        #[test]
        fn shares_are_kept(cold_share in 0.0f64..=1.0, write_share in 0.0f64..=1.0, seed: u64) {
            const DRAWS: u32 = 5000;
            let settings = Tiers { cold_share, write_share, seed, ..Tiers::default() };
            let mut accesses = Accesses::new(&settings, 30, 30);
            let (mut cold, mut written) = (0, 0);
            for _ in 0..DRAWS {
                let access = accesses.draw();
                cold += u32::from(access.cold);
                written += u32::from(access.write);
            }
            for (count, share) in [(cold, cold_share), (written, write_share)] {
                let error = (share * (1.0 - share) / f64::from(DRAWS)).sqrt();
                let found = f64::from(count) / f64::from(DRAWS);
                prop_assert!((found - share).abs() <= 5.0 * error + 1e-3, "{found} for {share}");
            }
        }
    }
}
