// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Estimates the memory that a zsmalloc pool takes when every page is stored once, from the
//! compressed sizes of a sample.
//!
//! An object takes its share of a zspage, so that the sum over all objects can be computed from the
//! sample's mean. In addition, each class has a last zspage that is not full. How much of it is
//! empty depends on the remainder of a number of objects that is known only approximately. If the
//! error of this number may exceed the objects of a zspage, every remainder is equally likely: the
//! mean is half a zspage and the standard deviation 0.29 of a zspage. For a class with few objects,
//! the likely numbers are tried one by one (a negative binomial distribution: the number in the
//! pages that were not sampled, given the number in the sample). The variances of the classes are
//! added, because their remainders are independent.
//!
//! Size classes that do not occur in the sample have a last zspage, too. The share of all pages in
//! such classes is about the share of the sample's pages whose class occurs once (Good-Turing). It
//! is not known which classes these are, except that their sizes are near sizes in the sample.
//! Their number is estimated from the number of classes that occur once and twice (Chao).

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and sizes of pages are positive and far below 2^53"
)]

use pagewise_model::Ends;

use crate::interval::{Sums, Z};
use crate::zsmalloc::{Class, ClassPages, ClassSample, Zsmalloc};

/// Estimates zram's `mem_used_total` after all pages of `places` were stored, from the sampled
/// pages in `stored`; `parts` contains the sum of their shares of zspages.
#[must_use]
pub fn used_pages(
    pool: &Zsmalloc,
    stored: &ClassPages,
    parts: &Sums,
    places: u64,
) -> (u64, Ends<u64>) {
    if parts.count() >= places {
        let exact = pool.used_after_fresh_fill(stored).get();
        return (exact, [exact, exact]);
    }
    let of_classes = UnusedSpace::estimate(pool, stored, parts.count(), places);
    let all = places as f64;
    let used = parts.mean() * all + of_classes.mean;
    let [low, high] = parts.mean_interval(places).map(|mean| mean * all);
    let [below, above] = [parts.mean() * all - low, high - parts.mean() * all];
    // the two parts are independent, so the squares of their half-widths are added
    let low = used - below.hypot(Z * of_classes.variance.sqrt());
    let high = used + above.hypot(Z * of_classes.variance.sqrt());
    let whole = |bytes: f64| bytes.max(0.0).round() as u64;
    (whole(used), [whole(low), whole(high)])
}

/// Estimate of the unused bytes in zspages that are not full.
#[derive(Debug, Clone, Copy, Default)]
struct UnusedSpace {
    mean: f64,
    variance: f64,
}

impl UnusedSpace {
    fn estimate(pool: &Zsmalloc, stored: &ClassPages, sampled: u64, places: u64) -> Self {
        let classes: Vec<(Class, ClassSample)> = stored.of_classes(pool).collect();
        let (n, all) = (sampled.max(1) as f64, places as f64);
        let per_drawn = (all - n) / n;
        let seen: f64 = classes.iter().map(|(_, seen)| seen.shares).sum();
        let met_once = classes.iter().filter(|(_, seen)| seen.objects == 1);
        let unseen: f64 = met_once.map(|(_, seen)| seen.shares).sum();
        let known = (1.0 - unseen / seen.max(f64::MIN_POSITIVE)).max(0.0);
        let near = probabilities_near_sample(&classes);
        let (mut rest, mut not_met, mut begun) = (Self::default(), Self::default(), 0.0);
        for ((class, seen), near) in classes.iter().zip(near) {
            let (of_seen, of_unseen) = (per_drawn * seen.shares * known, per_drawn * unseen * near);
            let uneven = if seen.shares > 0.0 { seen.squares / seen.shares } else { 1.0 };
            let left = ClassCount {
                least: seen.shares,
                mean: of_seen + of_unseen,
                variance: of_unseen + of_seen * (1.0 + per_drawn) * uneven,
            };
            let of_class = left.estimate_unused(pool.zspage_bytes(*class), class.objects as f64);
            if seen.objects == 0 {
                not_met.add(of_class);
                begun += 1.0 - (-of_unseen).exp();
            } else {
                rest.add(of_class);
            }
        }
        // `begun` is the expected number of new classes if every possible class may occur; if the
        // estimated number of classes that are not in the sample is smaller, that number is used
        let scale =
            if begun > 0.0 { (estimate_classes_not_met(&classes) / begun).min(1.0) } else { 0.0 };
        // the number of classes that occur once in the sample is random, so the square of its error
        // is added to the variance
        let mean = not_met.mean * scale;
        let luck = (2.0 * mean).powi(2) / count_classes_met(&classes, 1).max(1.0);
        rest.add(Self { mean, variance: not_met.variance * scale + luck });
        rest
    }

    fn add(&mut self, other: Self) {
        self.mean += other.mean;
        self.variance += other.variance;
    }
}

/// Estimates the number of size classes that do not occur in the sample, from the numbers of
/// classes that occur once and twice (Chao's estimator).
fn estimate_classes_not_met(classes: &[(Class, ClassSample)]) -> f64 {
    count_classes_met(classes, 1).powi(2) / (2.0 * (count_classes_met(classes, 2) + 1.0))
}

/// Returns the number of size classes that occur exactly `times` times in the sample.
fn count_classes_met(classes: &[(Class, ClassSample)], times: u64) -> f64 {
    classes.iter().filter(|(_, seen)| seen.objects == times).count() as f64
}

/// Size classes within this distance of a class in the sample may occur among the pages that were
/// not sampled.
const NEAR: usize = 4;

/// Returns the probability of each size class for a page whose class is not in the sample. Its size
/// is assumed to be near sizes in the sample.
fn probabilities_near_sample(classes: &[(Class, ClassSample)]) -> Vec<f64> {
    let mut weights = vec![0.0; classes.len()];
    for (at, _) in classes.iter().enumerate().filter(|(_, (_, seen))| seen.objects > 0) {
        for (other, weight) in weights.iter_mut().enumerate().skip(at.saturating_sub(NEAR)) {
            if other > at + NEAR {
                break;
            }
            *weight += 1.0 / (1 + other.abs_diff(at)) as f64;
        }
    }
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum.max(f64::MIN_POSITIVE)).collect()
}

/// Number of objects of a size class among all pages: at least those in the sample, plus an
/// estimate for the pages that were not sampled.
#[derive(Debug, Clone, Copy)]
struct ClassCount {
    least: f64,
    mean: f64,
    variance: f64,
}

impl ClassCount {
    /// Estimates the unused bytes in the last zspage of the class; a zspage has `bytes` bytes and
    /// `objects` objects.
    fn estimate_unused(self, bytes: f64, objects: f64) -> UnusedSpace {
        let deviation = self.variance.sqrt();
        if 7.0 * deviation > 4.0 * objects {
            let spread = bytes * ((objects * objects - 1.0) / 12.0).sqrt() / objects;
            let mean = bytes * (objects - 1.0) / (2.0 * objects);
            return UnusedSpace { mean, variance: spread * spread };
        }
        let empty = |more: f64| {
            let count = (self.least + more).round();
            (count / objects).ceil() * bytes - count * bytes / objects
        };
        let (mut sum, mut squares, mut weights) = (0.0, 0.0, 0.0);
        let last = (self.mean + 5.0 * deviation).ceil() as u32 + 3;
        for (more, likely) in self.likelihoods(last).into_iter().enumerate() {
            let empty = empty(more as f64);
            weights += likely;
            sum += likely * empty;
            squares += likely * empty * empty;
        }
        let mean = sum / weights;
        UnusedSpace { mean, variance: (squares / weights - mean * mean).max(0.0) }
    }

    /// Returns the probability of each number of objects up to `last`, which is a negative binomial
    /// distribution with this mean and variance.
    fn likelihoods(self, last: u32) -> Vec<f64> {
        let beyond = (self.variance - self.mean).max(self.mean * 1e-6);
        let size = if beyond > 0.0 { self.mean * self.mean / beyond } else { 0.0 };
        let odds = if size > 0.0 { self.mean / (size + self.mean) } else { 0.0 };
        let (mut all, mut log) = (Vec::new(), size * (1.0 - odds).ln());
        for number in 0..=last {
            all.push(log.exp());
            let number = f64::from(number);
            log += ((number + size) / (number + 1.0) * odds).ln();
        }
        all
    }
}
