// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the readers through the snapshots that they produce.

mod cgroup;
mod cgroup_counters;
mod damon;
mod gauges;
mod hugetlb;
mod journal;
mod kernel_log;
mod programs;
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

/// The values of the host as a whole.
fn glance(host: &HostRoot) -> Snapshot {
    snapshot(host, &Scope::glance())
}

/// The maximum number of these objects that are read.
fn limit(what: &str) -> usize {
    LIMITS.iter().find(|limit| limit.what == what).expect("a limit").most
}
