// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads who uses DAMON into [`Damon`]: the modules that run it for one purpose, and the threads
//! that were configured by hand through sysfs.
//!
//! The sysfs files are for root alone; that there are threads can be seen by anybody, so their
//! states are listed and denied.
//!
//! What somebody else's thread saw of which address is not read: the kernel puts it into `tried_regions`
//! only when somebody writes that it should, and does not say when that was (tried with 6.12, 6.18 and
//! 7.2; `refresh_ms` refreshes other files). Who borrows a thread writes so, and reads [`regions`].
//! `damon_stat` keeps its numbers current by itself.

use pagewise_model::{Damon, DamonModule, Millis, Name, Percent, Reading, Source};

use crate::limits::{self, DAMON_REGIONS, DAMON_TARGETS};
use pagewise_files::text::number;
use pagewise_files::{HostRoot, NO_SUCH_FILE, ReadValues, absolute, explained};

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

/// The numbers of DAMON's threads; each is one of the kernel's and would use a CPU.
fn kdamonds(host: &HostRoot) -> Vec<u32> {
    limits::first(host, KDAMONDS, limits::KDAMONDS, host.numbered(KDAMONDS, ""))
}

fn module(host: &HostRoot, name: &str) -> DamonModule {
    DamonModule {
        name: Name::from(name),
        enabled: host.flag_at(&format!("sys/module/{name}/parameters/enabled")),
    }
}

const IDLE: &str = "sys/module/damon_stat/parameters/memory_idle_ms_percentiles";

/// Of all memory that `damon_stat` watches (free memory and the page cache too) the percentage that
/// nobody used for so long.
pub fn idle_share(host: &HostRoot, at_least: Millis) -> Reading<Percent> {
    let read = host.value(IDLE, "101 numbers of milliseconds", percentiles);
    let read = explained(read, NO_SUCH_FILE, "this kernel has no damon_stat");
    match read.value() {
        Some(idle) if idle.iter().all(|millis| *millis == 0) => {
            Reading::absent("damon_stat has measured nothing yet", Source::file(absolute(IDLE)))
        }
        _ => read.map(|idle| share_of(&idle, at_least)),
    }
}

/// Idle times in ascending order, of the least idle memory to the most idle; newer kernels give how
/// long memory has been in use as a negative number.
fn percentiles(text: &[u8]) -> Option<Vec<i64>> {
    let all: Option<Vec<i64>> = text.split(|byte| *byte == b',').map(number).collect();
    all.filter(|all| all.len() == 101)
}

fn share_of(idle: &[i64], at_least: Millis) -> Percent {
    let least = i64::try_from(at_least.get()).unwrap_or(i64::MAX);
    // the first number is the least idle memory of all, and stands for no percent
    Percent::new(idle.iter().skip(1).filter(|millis| **millis >= least).count() as f64)
}

/// Processes that a running thread watches, as it was told by hand.
pub fn watched(host: &HostRoot) -> Vec<u32> {
    let runs = |id: &u32| {
        let state = host.name_at(&format!("{KDAMONDS}/{id}/state"));
        state.value().is_some_and(|state| state.as_str() == "on")
    };
    kdamonds(host).into_iter().filter(runs).flat_map(|id| targets(host, id)).collect()
}

fn targets(host: &HostRoot, kdamond: u32) -> Vec<u32> {
    let folder = format!("{KDAMONDS}/{kdamond}/contexts/0/targets");
    let targets = limits::first(host, &folder, DAMON_TARGETS, host.numbered(&folder, ""));
    let pid = |target| host.number_at(&format!("{folder}/{target}/pid_target")).get();
    targets.into_iter().filter_map(pid).collect()
}

/// Addresses that were used alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first.
    pub start: u64,
    /// The first behind.
    pub end: u64,
    /// In how many looks of the last aggregation it was seen in use.
    pub accesses: u64,
}

/// What a thread's first scheme found, as of the last time that it was told to say so; in order of
/// address.
pub fn regions(host: &HostRoot, kdamond: u32) -> Vec<Region> {
    let folder = format!("{KDAMONDS}/{kdamond}/contexts/0/schemes/0/tried_regions");
    let number = |id: u32, file: &str| host.number_at(&format!("{folder}/{id}/{file}")).get();
    let region = |id| {
        let (start, end) = (number(id, "start")?, number(id, "end")?);
        Some(Region { start, end, accesses: number(id, "nr_accesses")? })
    };
    let ids = limits::first(host, &folder, DAMON_REGIONS, host.numbered(&folder, ""));
    let mut regions: Vec<Region> = ids.into_iter().filter_map(region).collect();
    regions.sort_by_key(|region| region.start);
    regions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied, host, mangled};

    #[test]
    fn modules_and_threads_say_whether_they_run() {
        let damon = read(&host([
            ("sys/module/damon_stat/parameters/enabled", "Y\n"),
            ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "11\n"),
            ("sys/kernel/mm/damon/admin/kdamonds/10/state", "off\n"),
            ("sys/kernel/mm/damon/admin/kdamonds/2/state", "on\n"),
        ]));
        let enabled: Vec<_> = damon.modules.iter().map(|module| module.enabled.get()).collect();
        assert_eq!(enabled, [None, None, Some(true)]);
        assert_eq!(damon.kdamonds.get(), Some(11));
        let states: Vec<_> =
            damon.kdamond_states.iter().map(|s| s.value().unwrap().as_str()).collect();
        assert_eq!(states, ["on", "off"]);
    }

    #[test]
    fn a_plain_user_sees_threads_without_their_state() {
        let state = "sys/kernel/mm/damon/admin/kdamonds/0/state";
        let damon = read(&HostRoot::memory([denied(state)]));
        assert!(damon.kdamond_states[0].is_denied());
        assert_eq!(damon.kdamond_states.len(), 1);
    }

    #[test]
    fn a_folder_of_threads_without_end_is_read_up_to_a_bound() {
        let paths: Vec<String> =
            (0..5000).map(|id| format!("sys/kernel/mm/damon/admin/kdamonds/{id}/state")).collect();
        let damon = read(&host(paths.iter().map(|path| (path.as_str(), "on\n"))));
        assert_eq!(damon.kdamond_states.len(), limits::KDAMONDS);
    }

    #[test]
    fn idle_memory_is_a_share_of_all() {
        let text = |idle: &dyn Fn(i64) -> i64| {
            (0..=100).map(|at| idle(at).to_string()).collect::<Vec<_>>().join(",")
        };
        let share = |text: String| {
            idle_share(&host([(IDLE, text.as_str())]), Millis::new(120_000)).get().map(Percent::get)
        };
        assert_eq!(share(text(&|at| at * 2000 - 6000)), Some(38.0), "from 63 on");
        assert_eq!(share(text(&|_| 120_000)), Some(100.0));
        assert_eq!(share(text(&|_| -5)), Some(0.0));
        assert_eq!(share(text(&|_| 0)), None, "nothing was measured");
        assert_eq!(share("1,2,3".to_owned()), None);
    }

    #[test]
    fn only_a_thread_that_runs_watches() {
        let threads = "sys/kernel/mm/damon/admin/kdamonds";
        let files = [
            (format!("{threads}/0/state"), "on\n"),
            (format!("{threads}/0/contexts/0/targets/0/pid_target"), "41\n"),
            (format!("{threads}/0/contexts/0/targets/1/pid_target"), "42\n"),
            (format!("{threads}/1/state"), "off\n"),
            (format!("{threads}/1/contexts/0/targets/0/pid_target"), "43\n"),
        ];
        let files = files.iter().map(|(path, text)| (path.as_str(), *text));
        assert_eq!(watched(&host(files)), [41, 42]);
    }

    #[test]
    fn regions_come_in_order_of_address_and_those_without_numbers_not_at_all() {
        let of = |id: u32, start, end, accesses| {
            let folder = format!("{KDAMONDS}/1/contexts/0/schemes/0/tried_regions/{id}");
            [("start", start), ("end", end), ("nr_accesses", accesses)]
                .map(|(file, text)| (format!("{folder}/{file}"), text))
        };
        let files = [of(9, "4096", "8192", "3"), of(10, "0", "4096", "0"), of(11, "x", "1", "1")];
        let files = files.as_flattened().iter().map(|(path, text)| (path.as_str(), *text));
        let region = |start, end, accesses| Region { start, end, accesses };
        assert_eq!(regions(&host(files), 1), [region(0, 4096, 0), region(4096, 8192, 3)]);
        assert!(regions(&HostRoot::memory([]), 1).is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(flag in mangled("Y\n"), nr in mangled("1\n"), state in mangled("on\n")) {
            read(&host([
                ("sys/module/damon_reclaim/parameters/enabled", flag),
                ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", nr),
                ("sys/kernel/mm/damon/admin/kdamonds/0/state", state),
            ]));
        }

        #[test]
        fn no_numbers_make_it_panic(idle in mangled("-5,0,120000\n"), pid in mangled("41\n")) {
            let host = host([
                (IDLE, idle),
                ("sys/kernel/mm/damon/admin/kdamonds/0/state", b"on".to_vec()),
                ("sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/targets/0/pid_target", pid),
            ]);
            idle_share(&host, Millis::new(1));
            watched(&host);
        }
    }
}
