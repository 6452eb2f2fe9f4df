// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sample drawn without replacement → a mean or a share of the whole, with the interval that holds
//! the truth in 95 of 100 samples.
//!
//! Means: the normal approximation with the finite-population correction, s/√n·√(1−n/N). Shares: the
//! score interval of Wilson, whose sample is enlarged by the same correction, because the normal
//! one gives a share of nothing no width at all.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and sizes of pages are positive and far below 2^53"
)]

use pagewise_model::Ends;

/// Of the normal distribution 95 % lie within so many standard deviations.
pub(crate) const Z: f64 = 1.959_964;

/// Sums over the pages of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Sums {
    /// Counts a page.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// Of so many pages, whose values and their squares add up to these.
    pub(crate) fn of(count: f64, sum: f64, squares: f64) -> Self {
        Self { count: count as u64, sum, squares }
    }

    /// Takes over what another thread counted.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Pages counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of the sample; zero of an empty one.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The interval of the mean of all `population` pages.
    #[must_use]
    pub fn mean_interval(&self, population: u64) -> Ends<f64> {
        let half = Z * self.standard_error(population);
        [(self.mean() - half).max(0.0), self.mean() + half]
    }

    /// The sum of squared deviations from the mean.
    pub(crate) fn deviations(&self) -> f64 {
        (self.squares - self.sum * self.mean()).max(0.0)
    }

    /// How far the mean of the sample strays, as a standard deviation.
    fn standard_error(&self, population: u64) -> f64 {
        let count = self.count as f64;
        if self.count < 2 || self.count >= population {
            return 0.0;
        }
        let variance = self.deviations() / (count - 1.0);
        (variance / count * left_out(self.count, population)).sqrt()
    }

    /// How many pages of `population` are to be looked at in all for a mean that is within
    /// `error` of itself (0.02 for 2 %) in 95 of 100 samples, judged by those that were.
    #[must_use]
    pub fn needed(&self, error: f64, population: u64) -> u64 {
        let mean = self.mean();
        if self.count < 2 || mean <= 0.0 {
            return self.count;
        }
        let count = self.count as f64;
        let variance = self.deviations() / (count - 1.0);
        let infinite = variance * (Z / (error * mean)).powi(2);
        let finite = infinite / (1.0 + infinite / population as f64);
        (finite.ceil() as u64).min(population)
    }
}

/// The share of the population that the sample leaves out.
fn left_out(count: u64, population: u64) -> f64 {
    1.0 - count as f64 / population as f64
}

/// The interval of how many of `population` pages are of a kind, where `found` of `count` are.
#[must_use]
pub fn pages_interval(found: u64, count: u64, population: u64) -> Ends<u64> {
    if count == 0 {
        return [0, population];
    }
    if count >= population {
        return [found, found];
    }
    let n = count as f64 / left_out(count, population);
    let share = found as f64 / count as f64;
    let center = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let spread = (share * (1.0 - share) / n + (Z / (2.0 * n)).powi(2)).sqrt();
    let half = Z / (1.0 + Z * Z / n) * spread;
    let at_least = ((center - half) * population as f64).floor().max(found as f64);
    let unseen = population - (count - found);
    let at_most = ((center + half) * population as f64).ceil().min(unseen as f64);
    [at_least as u64, at_most as u64]
}

/// So many pages of the population, where `found` of `count` are.
#[must_use]
pub fn pages(found: u64, count: u64, population: u64) -> u64 {
    match count {
        0 => 0,
        _ => (u128::from(found) * u128::from(population) / u128::from(count)) as u64,
    }
}
