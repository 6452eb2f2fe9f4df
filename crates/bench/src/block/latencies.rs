// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A histogram of the latencies of requests, and quantiles of it.

use hdrhistogram::Histogram;

/// Maximum latency in nanoseconds, an hour; longer ones are counted as this long.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of latencies in nanoseconds, with two significant digits.
pub(super) type Latencies = Histogram<u64>;

pub(super) fn new_latencies() -> Latencies {
    // the arguments are constants within the limits of the histogram
    Histogram::new_with_bounds(1, LONGEST_NS, 2).unwrap_or_else(|_| unreachable!("valid bounds"))
}

/// The latency at a quantile: the middle of the histogram's bucket.
pub(super) fn quantile(latencies: &Latencies, share: f64) -> f64 {
    latencies.median_equivalent(latencies.value_at_quantile(share)) as f64
}
