// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters before and after a run → what the run did, and what else happened meanwhile.
//!
//! A cgroup is new for each run, so what it counts is the run's. Version 2 counts all that is wanted
//! here; version 1 only refaults, the rest is the whole host's (`/proc/vmstat`), and says so. What a
//! cgroup's own limit makes the kernel scan and take is not counted for the host: with such a limit and
//! version 1 nobody knows it, and it is left out rather than called 0.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pagewise_model::Counters;
use pagewise_observe::HostRoot;
use rustix::time::{ClockId, clock_gettime};

use super::metric::{PEAK_MEMORY, REFAULTS, SCANNED, STOLEN, SWAPPED_IN, SWAPPED_OUT};
use crate::treatment::Group;

/// A metric, and the counters whose sum it is: the names of a cgroup, then those of the host.
type Sum = (&'static str, &'static [&'static str], &'static [&'static str]);

const SUMS: [Sum; 5] = [
    (REFAULTS, &["workingset_refault_anon", "workingset_refault_file"], REFAULTED),
    (SCANNED, &["pgscan"], &["pgscan_kswapd", "pgscan_direct"]),
    (STOLEN, &["pgsteal"], &["pgsteal_kswapd", "pgsteal_direct"]),
    (SWAPPED_IN, &["pswpin"], &["pswpin"]),
    (SWAPPED_OUT, &["pswpout"], &["pswpout"]),
];
const REFAULTED: &[&str] = &["workingset_refault_anon", "workingset_refault_file"];

/// The host at the start of a run.
#[derive(Debug)]
pub(super) struct Before {
    vmstat: Counters,
    group: Option<Counters>,
    busy: Option<Busy>,
    slept: Duration,
}

/// What changed until now.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) values: BTreeMap<String, f64>,
    pub(super) host_wide: Vec<String>,
    /// Processor time of everybody.
    pub(super) busy_seconds: Option<f64>,
    pub(super) stolen_seconds: Option<f64>,
    pub(super) slept_seconds: f64,
    /// Processes of the group that the kernel killed for lack of memory.
    pub(super) oom_kills: u64,
    /// Processor time of the group, where it counts it.
    pub(super) cpu_seconds: Option<f64>,
}

pub(super) fn before(host: &HostRoot, group: Option<&Group>) -> Before {
    Before {
        group: group.map(|group| of_group(host, group, "memory.stat")),
        busy: busy(),
        slept: slept(),
        vmstat: pagewise_observe::counters(host, "proc/vmstat"),
    }
}

impl Before {
    /// `limited`: the group has a limit of its own.
    pub(super) fn until_now(
        &self,
        host: &HostRoot,
        group: Option<&Group>,
        limited: bool,
    ) -> Changed {
        let vmstat = pagewise_observe::counters(host, "proc/vmstat");
        let in_group = group.map(|group| of_group(host, group, "memory.stat"));
        let mut changed = self.noise();
        for (name, of_group, of_host) in SUMS {
            let own = self.group.as_ref().zip(in_group.as_ref());
            let own = own.and_then(|(from, to)| grown(from, to, of_group));
            if own.is_none() {
                changed.host_wide.push(name.to_owned());
            }
            let is_hidden = limited && [SCANNED, STOLEN].contains(&name);
            let of_host = || grown(&self.vmstat, &vmstat, of_host).filter(|_| !is_hidden);
            let value = own.or_else(of_host);
            changed.values.extend(value.map(|value| (name.to_owned(), value)));
        }
        changed.host_wide.retain(|name| changed.values.contains_key(name));
        if let Some(group) = group {
            changed.values.extend(peak(group).map(|peak| (PEAK_MEMORY.to_owned(), peak)));
            changed.oom_kills = oom_kills(host, group);
            changed.cpu_seconds = cpu(host, group);
        }
        changed
    }

    fn noise(&self) -> Changed {
        let grown = self.busy.zip(busy()).and_then(|(from, to)| {
            Some((to.busy.checked_sub(from.busy)?, to.stolen.checked_sub(from.stolen)?))
        });
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        Changed {
            busy_seconds: grown.map(|(busy, _)| seconds(busy)),
            stolen_seconds: grown.map(|(_, stolen)| seconds(stolen)),
            slept_seconds: slept().saturating_sub(self.slept).as_millis() as f64 / 1000.0,
            ..Changed::default()
        }
    }
}

/// By how much the sum of these grew; none where one of them is not counted. A host that has no
/// `pgscan_khugepaged` or the like is not asked for it.
fn grown(from: &Counters, to: &Counters, names: &[&str]) -> Option<f64> {
    let one = |name: &&str| to.get(name).get()?.checked_sub(from.get(name).get()?);
    names.iter().map(one).sum::<Option<u64>>().map(|sum| sum as f64)
}

fn of_group(host: &HostRoot, group: &Group, file: &str) -> Counters {
    let path = group.folder.join(file);
    pagewise_observe::counters(host, path.to_string_lossy().trim_start_matches('/'))
}

/// The most that the group used. Kernels before 6.0 do not say it of a group of version 2.
fn peak(group: &Group) -> Option<f64> {
    let file = if group.unified { "memory.peak" } else { "memory.max_usage_in_bytes" };
    number(&group.folder.join(file)).map(|bytes| bytes as f64)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn oom_kills(host: &HostRoot, group: &Group) -> u64 {
    let file = if group.unified { "memory.events" } else { "memory.oom_control" };
    of_group(host, group, file).get("oom_kill").get().unwrap_or(0)
}

/// Of version 2, also of processes for which nobody waited.
fn cpu(host: &HostRoot, group: &Group) -> Option<f64> {
    let micros = of_group(host, group, "cpu.stat").get("usage_usec").get();
    micros.filter(|_| group.unified).map(|micros| micros as f64 / 1e6)
}

/// Ticks of all processors since boot.
#[derive(Debug, Clone, Copy)]
struct Busy {
    busy: u64,
    stolen: u64,
}

fn busy() -> Option<Busy> {
    busy_in(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line: `cpu user nice system idle iowait irq softirq steal …`.
fn busy_in(stat: &str) -> Option<Busy> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let &[user, nice, system, _idle, _wait, irq, softirq, stolen, ..] = ticks.as_slice() else {
        return None;
    };
    Some(Busy { busy: user + nice + system + irq + softirq, stolen })
}

/// How long this machine has slept since boot.
fn slept() -> Duration {
    let [since_boot, awake] = [ClockId::Boottime, ClockId::Monotonic].map(|clock| {
        let time = clock_gettime(clock);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
    });
    since_boot.saturating_sub(awake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_processors_is_read() {
        let all = busy_in("cpu  10 1 5 100 7 2 3 4 0 0\ncpu0 1 1\n").unwrap();
        assert_eq!((all.busy, all.stolen), (21, 4));
        for bad in ["", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7 x\n"] {
            assert!(busy_in(bad).is_none(), "{bad}");
        }
    }

    /// The host counts at least what a reader of files does.
    #[test]
    fn counters_of_this_host_are_found_and_said_to_be_the_hosts() {
        let host = HostRoot::live().unwrap();
        let changed = before(&host, None).until_now(&host, None, false);
        for name in [REFAULTS, SCANNED, STOLEN, SWAPPED_IN, SWAPPED_OUT] {
            assert!(changed.values[name] >= 0.0);
            assert!(changed.host_wide.iter().any(|wide| wide == name));
        }
        assert!(changed.busy_seconds.unwrap() >= 0.0 && changed.slept_seconds < 1.0);
        assert!(!changed.values.contains_key(PEAK_MEMORY));
    }
}
