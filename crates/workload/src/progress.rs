// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a workload is.

/// Called with what is being done and how much of that is done, from 0 to 1; often.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;

/// So many of so many.
pub(super) fn part(done: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { done as f64 / all as f64 }
}
