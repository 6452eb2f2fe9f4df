// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of a workload.

/// A function that is called frequently with the present activity and its progress from 0 to 1.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;

/// The fraction of the work that is done, from 0 to 1.
pub(super) fn share(done: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { done as f64 / all as f64 }
}
