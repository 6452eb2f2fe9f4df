// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the users of DAMON into [`Damon`]: the kernel modules built on it, and the kdamond threads
//! configured through sysfs.
//!
//! The sysfs files are readable by root only, but the folder of each thread is visible to
//! everybody: for other users the threads are listed and their states denied.
//!
//! The access pattern seen by a thread of somebody else is not read: the kernel fills
//! `tried_regions` only after a write to the thread's `state` file, and does not say when that was
//! (tested with 6.12, 6.18 and 7.2; `refresh_ms` refreshes other files). Code that borrows a thread
//! makes that write and then reads [`regions`]. `damon_stat` updates its numbers by itself.

use pagewise_model::{Damon, DamonModule, Millis, Name, Percent, Reading, Source};

use crate::limits::{self, DAMON_REGIONS, DAMON_TARGETS};
use pagewise_hostfs::text::number;
use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, ReadValues, absolute_path, explain};

const MODULES: [&str; 3] = ["damon_reclaim", "damon_lru_sort", "damon_stat"];
const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";

pub(crate) fn read(host: &HostRoot) -> Damon {
    let ids = kdamonds(host).into_iter();
    Damon {
        modules: MODULES.iter().map(|name| module(host, name)).collect(),
        kdamonds: host.number_at(&format!("{KDAMONDS}/nr_kdamonds")),
        kdamond_states: ids.map(|id| host.name_at(&format!("{KDAMONDS}/{id}/state"))).collect(),
    }
}

/// The numbers of the kdamond folders; each is one kernel thread.
fn kdamonds(host: &HostRoot) -> Vec<u32> {
    limits::first(host, KDAMONDS, limits::KDAMONDS, host.list_numbers(KDAMONDS, ""))
}

fn module(host: &HostRoot, name: &str) -> DamonModule {
    DamonModule {
        name: Name::from(name),
        enabled: host.flag_at(&format!("sys/module/{name}/parameters/enabled")),
    }
}

const IDLE: &str = "sys/module/damon_stat/parameters/memory_idle_ms_percentiles";

/// Percentage of the memory watched by `damon_stat` (which includes free memory and the page cache)
/// that has been idle for at least `at_least`.
pub fn idle_share(host: &HostRoot, at_least: Millis) -> Reading<Percent> {
    let read = host.value(IDLE, "101 numbers of milliseconds", percentiles);
    let read = explain(read, NO_SUCH_FILE, "this kernel has no damon_stat");
    match read.value() {
        Some(idle) if idle.iter().all(|millis| *millis == 0) => Reading::absent(
            "damon_stat has measured nothing yet",
            Source::file(absolute_path(IDLE)),
        ),
        _ => read.map(|idle| share_of(&idle, at_least)),
    }
}

/// Parses the idle times in milliseconds, in ascending order, from the least idle memory to the
/// most idle. Newer kernels print recently used memory as a negative number.
fn percentiles(text: &[u8]) -> Option<Vec<i64>> {
    let all: Option<Vec<i64>> = text.split(|byte| *byte == b',').map(number).collect();
    all.filter(|all| all.len() == 101)
}

fn share_of(idle: &[i64], at_least: Millis) -> Percent {
    let least = i64::try_from(at_least.get()).unwrap_or(i64::MAX);
    // percentile 0 is the minimum and represents no memory
    Percent::new(idle.iter().skip(1).filter(|millis| **millis >= least).count() as f64)
}

/// Ids of the processes that DAMON's running threads watch, as configured through sysfs.
pub fn read_targets(host: &HostRoot) -> Vec<u32> {
    let runs = |id: &u32| {
        let state = host.name_at(&format!("{KDAMONDS}/{id}/state"));
        state.value().is_some_and(|state| state.as_str() == "on")
    };
    kdamonds(host).into_iter().filter(runs).flat_map(|id| targets(host, id)).collect()
}

fn targets(host: &HostRoot, kdamond: u32) -> Vec<u32> {
    let folder = format!("{KDAMONDS}/{kdamond}/contexts/0/targets");
    let targets = limits::first(host, &folder, DAMON_TARGETS, host.list_numbers(&folder, ""));
    let pid = |target| host.number_at(&format!("{folder}/{target}/pid_target")).get();
    targets.into_iter().filter_map(pid).collect()
}

/// A range of addresses that the processes access about equally often, as DAMON found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First address of the region.
    pub start: u64,
    /// First address after the region.
    pub end: u64,
    /// Number of access checks of the last aggregation interval that found the region in use.
    pub accesses: u64,
}

/// The regions matched by the first scheme of a DAMON thread when the kernel was last told to
/// update them; sorted by address.
pub fn regions(host: &HostRoot, kdamond: u32) -> Vec<Region> {
    let folder = format!("{KDAMONDS}/{kdamond}/contexts/0/schemes/0/tried_regions");
    let number = |id: u32, file: &str| host.number_at(&format!("{folder}/{id}/{file}")).get();
    let region = |id| {
        let (start, end) = (number(id, "start")?, number(id, "end")?);
        Some(Region { start, end, accesses: number(id, "nr_accesses")? })
    };
    let ids = limits::first(host, &folder, DAMON_REGIONS, host.list_numbers(&folder, ""));
    let mut regions: Vec<Region> = ids.into_iter().filter_map(region).collect();
    regions.sort_by_key(|region| region.start);
    regions
}
