// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interval of a share that was found in a sample.

use crate::Ends;

/// 95 % of a normal distribution lie within so many standard deviations of its mean.
pub const NORMAL_95: f64 = 1.959_964;

/// The 95 % interval (Wilson's score interval) of a share that was found among `count` independent draws.
/// Unlike the normal interval it has a width if the share is 0 or 1. `count` is a fraction if draws are
/// weighted.
#[must_use]
pub fn score_interval(share: f64, count: f64) -> Ends<f64> {
    const Z: f64 = NORMAL_95;
    let center = (share + Z * Z / (2.0 * count)) / (1.0 + Z * Z / count);
    let spread = (share * (1.0 - share) / count + (Z / (2.0 * count)).powi(2)).sqrt();
    let half = Z / (1.0 + Z * Z / count) * spread;
    [center - half, center + half]
}
