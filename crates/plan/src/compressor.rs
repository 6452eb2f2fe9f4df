// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses the algorithm of a new zram device if `bench` did not measure any.

use pagewise_facts::swap_choice::{DENSE, FAST, algorithm};
use pagewise_model::plan::Goal;
use pagewise_model::{Compressor, Name, Snapshot};

/// Returns the compression algorithm for a goal. For the goal ratio it is the one with the best
/// ratio, if the kernel offers it; otherwise it is the one that findings recommend.
pub(crate) fn choose_for_goal(goal: Goal, host: &Snapshot) -> Compressor {
    if goal == Goal::Ratio && is_offered(host, DENSE) {
        return Compressor::new(DENSE);
    }
    Compressor::new(recommended_algorithm(host).as_str())
}

/// Returns the algorithm that findings recommend for the existing device or, if there is none, for
/// new devices.
fn recommended_algorithm(host: &Snapshot) -> Name {
    let known = host.zram.first().and_then(algorithm);
    known.cloned().unwrap_or_else(|| Name::from(FAST))
}

/// Whether the kernel is known to offer the wanted compression algorithm.
fn is_offered(host: &Snapshot, wanted: &str) -> bool {
    let offered = host.zram.iter().filter_map(|device| device.algorithm.value());
    offered.flat_map(|all| &all.available).any(|name| name.as_str() == wanted)
}
