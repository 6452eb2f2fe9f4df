// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Readers of a host, by what a snapshot says.

mod cgroup;
mod cgroup_counters;
mod damon;
mod gauges;
mod hugetlb;
mod journal;
mod kernel_log;
mod psi;
mod size_classes;
mod swap;
#[path = "../../src/testing.rs"]
mod testing;
mod thp;
mod zmerge;
mod zone;
mod zram;
mod zswap;

use pagewise_hostfs::HostRoot;
use pagewise_model::Snapshot;
use pagewise_observe::limits::LIMITS;
use pagewise_observe::{Scope, snapshot};

/// The facts of the host as a whole.
fn glance(host: &HostRoot) -> Snapshot {
    snapshot(host, &Scope::glance())
}

/// How many of these are read at most.
fn limit(what: &str) -> usize {
    LIMITS.iter().find(|limit| limit.what == what).expect("a limit").most
}
