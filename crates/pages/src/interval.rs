// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Estimates a mean or a share of a population from a sample that was drawn without replacement,
//! with an interval that contains the true value in 95 of 100 samples.
//!
//! The units of the population are *places*: mappings of pages. The weight of a place is its share
//! of its page: 1, unless other places of the population show the same page. The sum of the shares
//! is the number of pages. For a value that every page has:
//!
//! - the total is the mean of share × value, multiplied by the number of places;
//! - the mean per page is the quotient of two such totals. Its interval is that of the mean of the
//!   residuals, share × (value − mean), divided by the mean share. If every share is 1, this is the
//!   same as the interval of the mean per place.
//!
//! Interval of a mean: s/√n·√(1−n/N) with Student's quantile, corrected for the sample's skewness
//! by Hall's transformation (1992). The correction is needed because the mean is too low more often
//! than too high if a few pages are far larger than the others, so that a symmetric interval would
//! miss the true value. Interval of a share of pages: Wilson's score interval, with the sample size
//! enlarged by the finite population correction, because the normal interval has no width for a
//! share of zero. For pages with unequal weights s, the sample size is (Σs)²/Σs².

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and sizes of pages are positive and far below 2^53"
)]

use pagewise_model::{Ends, NORMAL_95, score_interval};

/// Number of standard deviations around the mean that contain 95 % of a normal distribution.
pub(crate) const Z: f64 = NORMAL_95;

/// Sums of shares and values over the places of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    count: u64,
    /// Sums of the first, second and third powers of share × value.
    values: [f64; 3],
    /// Sums of the first, second and third powers of the shares.
    shares: [f64; 3],
    /// Sums of share² × value, share³ × value, share³ × value².
    crossed: [f64; 3],
}

impl Sums {
    /// Adds a page that is shown by no other place, with its value.
    pub fn add(&mut self, value: f64) {
        self.add_share(value, 1.0);
    }

    /// Adds a place with its value and its share of the page that it shows.
    pub fn add_share(&mut self, value: f64, share: f64) {
        self.count += 1;
        let own = share * value;
        let square = share * share;
        add_all(&mut self.values, [own, own * own, own * own * own]);
        add_all(&mut self.shares, [share, square, square * share]);
        add_all(&mut self.crossed, [share * own, square * own, share * own * own]);
    }

    /// Creates the sums of `count` pages from the sum of their values and the sum of the squares of
    /// their values.
    pub(crate) fn from_sums(count: f64, sum: f64, squares: f64) -> Self {
        let values = [sum, squares, 0.0];
        Self { count: count as u64, values, shares: [count; 3], crossed: [sum, sum, squares] }
    }

    /// Adds the sums of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        add_all(&mut self.values, other.values);
        add_all(&mut self.shares, other.shares);
        add_all(&mut self.crossed, other.crossed);
    }

    /// Returns how many places were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of share × value over the places; 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.per_place(self.values[0])
    }

    fn per_place(&self, sum: f64) -> f64 {
        if self.count == 0 { 0.0 } else { sum / self.count as f64 }
    }

    /// The mean of the value per page instead of per place.
    #[must_use]
    pub fn mean_of_page(&self) -> f64 {
        if self.shares[0] > 0.0 { self.values[0] / self.shares[0] } else { 0.0 }
    }

    /// The mean share per place: 1 unless places show the same page.
    #[must_use]
    pub fn mean_share(&self) -> f64 {
        if self.count == 0 { 1.0 } else { self.per_place(self.shares[0]) }
    }

    /// The 95 % interval of [`Self::mean`] over all `population` places.
    #[must_use]
    pub fn mean_interval(&self, population: u64) -> Ends<f64> {
        interval(self.count, self.values, population)
    }

    /// The 95 % interval of [`Self::mean_of_page`].
    #[must_use]
    pub fn mean_of_page_interval(&self, population: u64) -> Ends<f64> {
        let mean = self.mean_of_page();
        let [first, second, third] = self.values;
        let remain = [
            first - mean * self.shares[0],
            second - 2.0 * mean * self.crossed[0] + mean * mean * self.shares[1],
            third - 3.0 * mean * self.crossed[2] + 3.0 * mean * mean * self.crossed[1]
                - mean.powi(3) * self.shares[2],
        ];
        let [below, above] = deviation_of_mean(self.count, remain, population);
        let share = self.mean_share();
        [(mean - below / share).max(0.0), mean + above / share]
    }

    /// The 95 % interval of [`Self::mean_share`].
    #[must_use]
    pub fn mean_share_interval(&self, population: u64) -> Ends<f64> {
        interval(self.count, self.shares, population)
    }

    /// Returns the sums for the same places with a value of 1 each, so that only their shares
    /// matter.
    pub(crate) fn with_shares_as_values(&self) -> Self {
        let [_, square, cube] = self.shares;
        Self { values: self.shares, crossed: [square, cube, cube], ..*self }
    }

    /// Returns the effective sample size: the number of places with share 1 that would give the
    /// same accuracy.
    fn effective_sample_size(&self) -> f64 {
        if self.shares[1] > 0.0 { self.shares[0] * self.shares[0] / self.shares[1] } else { 0.0 }
    }

    /// Returns the sum of the squared deviations of the values from their mean.
    pub(crate) fn deviations(&self) -> f64 {
        (self.values[1] - self.values[0] * self.mean()).max(0.0)
    }

    /// Returns how many of the `population` places must be sampled in total so that the relative
    /// error of the mean is at most `error` (0.02 for 2 %) in 95 of 100 samples. It is estimated
    /// from the places so far.
    #[must_use]
    pub fn needed_sample(&self, error: f64, population: u64) -> u64 {
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

fn add_all(sums: &mut [f64; 3], more: [f64; 3]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// The 95 % interval of a mean, from the sums of first, second and third powers.
fn interval(count: u64, powers: [f64; 3], population: u64) -> Ends<f64> {
    let mean = if count == 0 { 0.0 } else { powers[0] / count as f64 };
    let [below, above] = deviation_of_mean(count, powers, population);
    [(mean - below).max(0.0), mean + above]
}

/// Limit of the skewness for which the interval is corrected, because a larger skewness cannot be
/// estimated well from a sample.
const MOST_SKEWED: f64 = 0.4;

/// Returns how far the population's mean may be below and above the sample's mean.
fn deviation_of_mean(sampled: u64, powers: [f64; 3], population: u64) -> Ends<f64> {
    if sampled < 2 || sampled >= population {
        return [0.0, 0.0];
    }
    let count = sampled as f64;
    let [mean, square, cube] = powers.map(|sum| sum / count);
    let spread = (square - mean * mean).max(0.0);
    let left_out = share_left_out(sampled, population);
    let error = (spread / (count - 1.0) * left_out).sqrt();
    if error <= 0.0 {
        return [0.0, 0.0];
    }
    let third = cube - 3.0 * mean * square + 2.0 * mean.powi(3);
    // drawing without replacement reduces the skewness of the mean, and reverses it if nearly all
    // places are drawn
    let of_finite = (1.0 - 2.0 * count / population as f64) / left_out.sqrt();
    let skewed = third / spread.powf(1.5) / count.sqrt() * of_finite;
    let skewed = skewed.clamp(-MOST_SKEWED, MOST_SKEWED);
    let student = Z + (Z.powi(3) + Z) / (4.0 * (count - 1.0));
    [error * remove_skew(student, skewed), -error * remove_skew(-student, skewed)]
}

/// The inverse of Hall's transformation.
fn remove_skew(quantile: f64, skewed: f64) -> f64 {
    if skewed.abs() < 1e-6 {
        return quantile;
    }
    ((1.0 + skewed * (quantile - skewed / 6.0)).cbrt() - 1.0) * 3.0 / skewed
}

/// Returns the fraction of the population that was not sampled.
fn share_left_out(count: u64, population: u64) -> f64 {
    1.0 - count as f64 / population as f64
}

/// Returns the 95 % interval for the number of pages of a kind among `population` pages, if `found`
/// of `count` sampled pages are of this kind.
#[must_use]
pub fn pages_interval(found: u64, count: u64, population: u64) -> Ends<u64> {
    if count == 0 {
        return [0, population];
    }
    if count >= population {
        return [found, found];
    }
    let n = count as f64 / share_left_out(count, population);
    let [low, high] = score_interval(found as f64 / count as f64, n);
    let at_least = (low * population as f64).floor().max(found as f64);
    let unseen = population - (count - found);
    let at_most = (high * population as f64).ceil().min(unseen as f64);
    [at_least as u64, at_most as u64]
}

/// A population of places, of which some were sampled.
#[derive(Debug, Clone, Copy)]
pub struct Population {
    /// Number of places at which pages were found.
    pub places: u64,
    /// Estimated number of different pages: less than `places` if several places show the same
    /// page.
    pub pages: u64,
    /// The 95 % interval of the number of pages.
    pub pages_interval: Ends<u64>,
    sums: Sums,
}

impl Population {
    /// Creates a population of `places` places, of which those in `sampled` were sampled.
    #[must_use]
    pub fn new(sampled: Sums, places: u64) -> Self {
        let scale = |share: f64| (share * places as f64).round() as u64;
        let pages_interval = match sampled.count {
            0 => [0, places],
            _ => sampled.mean_share_interval(places).map(|share| scale(share.min(1.0))),
        };
        Self { places, pages: scale(sampled.mean_share()), pages_interval, sums: sampled }
    }

    /// Whether some places were not sampled.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        self.sums.count < self.places
    }

    /// Whether no two places show the same page.
    fn has_one_place_per_page(&self) -> bool {
        self.pages == self.places
    }

    /// Estimates the number of pages of a kind in the population, if `found` pages of the sample
    /// are of this kind.
    #[must_use]
    pub fn pages_of(&self, found: f64) -> u64 {
        if self.has_one_place_per_page() {
            return pages(found.round() as u64, self.sums.count, self.pages);
        }
        let share = if self.sums.shares[0] > 0.0 { found / self.sums.shares[0] } else { 0.0 };
        (share * self.pages as f64).round() as u64
    }

    /// The 95 % interval of [`Self::pages_of`].
    #[must_use]
    pub fn pages_of_interval(&self, found: f64) -> Ends<u64> {
        if self.has_one_place_per_page() {
            return pages_interval(found.round() as u64, self.sums.count, self.pages);
        }
        if self.sums.count == 0 {
            return [0, self.pages];
        }
        if !self.is_sample() {
            return [self.pages_of(found); 2];
        }
        let n = self.sums.effective_sample_size() / share_left_out(self.sums.count, self.places);
        let [low, high] = score_interval(found / self.sums.shares[0], n);
        let all = self.pages as f64;
        [(low * all).floor().max(0.0) as u64, (high * all).ceil().min(all) as u64]
    }
}

/// Estimates the number of pages of a kind among `population` pages, if `found` of `count` sampled
/// pages are of this kind.
#[must_use]
pub fn pages(found: u64, count: u64, population: u64) -> u64 {
    match count {
        0 => 0,
        _ => (u128::from(found) * u128::from(population) / u128::from(count)) as u64,
    }
}
