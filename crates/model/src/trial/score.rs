// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The confidence interval of a share that was found in a sample.

use crate::Ends;

/// Number of standard deviations around the mean that contain 95 % of the values of a normal
/// distribution.
pub const NORMAL_95: f64 = 1.959_964;

/// Computes the 95 % confidence interval (Wilson's score interval) of a share that was found in
/// `count` independent draws. Unlike the normal approximation, the interval has a width even if the
/// share is 0 or 1. `count` need not be a whole number, because draws may be weighted.
#[must_use]
pub fn score_interval(share: f64, count: f64) -> Ends<f64> {
    const Z: f64 = NORMAL_95;
    let center = (share + Z * Z / (2.0 * count)) / (1.0 + Z * Z / count);
    let spread = (share * (1.0 - share) / count + (Z / (2.0 * count)).powi(2)).sqrt();
    let half = Z / (1.0 + Z * Z / count) * spread;
    [center - half, center + half]
}
