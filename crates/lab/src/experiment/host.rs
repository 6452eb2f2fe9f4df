// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from counters before and after a run what the run did, and what else happened on the
//! host.
//!
//! Each run has a new cgroup, so the cgroup's counters are those of the run. cgroup v2 has all
//! counters that are needed. v1 counts only refaults, so the others are read for the whole host
//! (`/proc/vmstat`) and marked as such. `/proc/vmstat` does not count reclaim that is due to a
//! cgroup's own limit: with such a limit and v1, reclaim is unknown, and it is left out instead of
//! being reported as 0.
//!
//! Values that must be sampled during the run, such as swap in use, are read in `gauges`.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_model::lend::MemoryGroup;
use pagewise_model::{Counters, SwappedPages};
use pagewise_observe::{CgroupCounters, HostGauges, HostRoot, ProcessorTicks};
use pagewise_stats::name::{
    DIRECT_SCANS, KEPT_OUT, PEAK_MEMORY, REFAULTS, REFAULTS_ANON, REFAULTS_FILE, SCAN_EFFICIENCY,
    SCANNED, STOLEN, SWAPPED_IN, SWAPPED_OUT, WRITTEN_BACK, ZERO_IN, ZERO_OUT, ZSWAP_IN, ZSWAP_OUT,
};
use rustix::time::{ClockId, clock_gettime};

use super::swap_traffic::{LentSwap, SwapTraffic, Swapped};

/// A metric that is a sum of counters: its name, their names in a cgroup, and their names for the
/// whole host.
type Sum = (&'static str, &'static [&'static str], &'static [&'static str]);

const SUMS: [Sum; 13] = [
    (REFAULTS, REFAULTED, REFAULTED),
    (REFAULTS_ANON, &["workingset_refault_anon"], &["workingset_refault_anon"]),
    (REFAULTS_FILE, &["workingset_refault_file"], &["workingset_refault_file"]),
    (SCANNED, &["pgscan"], &["pgscan_kswapd", "pgscan_direct"]),
    (DIRECT_SCANS, &["pgscan_direct"], &["pgscan_direct"]),
    (STOLEN, &["pgsteal"], &["pgsteal_kswapd", "pgsteal_direct"]),
    (SWAPPED_IN, &["pswpin"], &["pswpin"]),
    (SWAPPED_OUT, &["pswpout"], &["pswpout"]),
    (ZSWAP_IN, &["zswpin"], &["zswpin"]),
    (ZSWAP_OUT, &["zswpout"], &["zswpout"]),
    (WRITTEN_BACK, &["zswpwb"], &["zswpwb"]),
    (ZERO_IN, &["swpin_zero"], &["swpin_zero"]),
    (ZERO_OUT, &["swpout_zero"], &["swpout_zero"]),
];
const REFAULTED: &[&str] = &["workingset_refault_anon", "workingset_refault_file"];

/// Metrics of reclaim: `/proc/vmstat` does not count reclaim that is due to a cgroup's limit.
const OF_LIMIT: [&str; 3] = [SCANNED, DIRECT_SCANS, STOLEN];

/// The host's counters at the start of a run.
#[derive(Debug)]
pub(super) struct HostAtStart<'s> {
    vmstat: Counters,
    swap: &'s LentSwap,
    traffic: Option<SwapTraffic>,
    group: Option<Counters>,
    ticks: Option<ProcessorTicks>,
    slept: Duration,
}

/// What changed since the start of a run.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) values: BTreeMap<String, f64>,
    pub(super) host_wide: Vec<String>,
    /// CPU time of all processes of the host, in seconds.
    pub(super) busy_seconds: Option<f64>,
    pub(super) stolen_seconds: Option<f64>,
    pub(super) slept_seconds: f64,
    /// Number of processes of the cgroup that the OOM killer killed.
    pub(super) oom_kills: u64,
    /// CPU time of the cgroup in seconds, if the kernel counts it.
    pub(super) cpu_seconds: Option<f64>,
}

pub(super) fn read_at_start<'s>(
    host: &HostRoot,
    group: Option<&MemoryGroup>,
    swap: &'s LentSwap,
) -> HostAtStart<'s> {
    HostAtStart {
        swap,
        traffic: swap.traffic(host),
        group: group.map(|group| counters_of(group).stat(host)),
        ticks: HostGauges(host).processor_ticks(),
        slept: suspended_time(),
        vmstat: pagewise_observe::counters(host, "proc/vmstat"),
    }
}

impl HostAtStart<'_> {
    /// The changes from the start until now. `limited`: the cgroup has a memory limit.
    pub(super) fn changes_until_now(
        &self,
        host: &HostRoot,
        group: Option<&MemoryGroup>,
        limited: bool,
    ) -> Changed {
        let vmstat = pagewise_observe::counters(host, "proc/vmstat");
        let in_group = group.map(|group| counters_of(group).stat(host));
        let mut changed = self.noise_until_now(host);
        let own = self.group.as_ref().zip(in_group.as_ref());
        let own = own.map(|(from, to)| CounterGrowth { from, to });
        changed.add_growth(own, CounterGrowth { from: &self.vmstat, to: &vmstat }, limited);
        let traffic = [self.traffic, self.swap.traffic(host)];
        let counted = SwappedPages([&self.vmstat, &vmstat]);
        let swapped = Swapped { swap: self.swap, vmstat: counted, traffic };
        for (name, value) in swapped.metrics() {
            changed.add(name, None, || Some(value));
        }
        if let Some(group) = group {
            let counters = counters_of(group);
            let peak = counters.peak(host).map(|peak| peak.get() as f64);
            changed.values.extend(peak.map(|peak| (PEAK_MEMORY.to_owned(), peak)));
            changed.oom_kills = counters.oom_kills(host);
            changed.cpu_seconds = counters.cpu(host).map(|micros| micros.get() as f64 / 1e6);
        }
        changed
    }

    fn noise_until_now(&self, host: &HostRoot) -> Changed {
        let grown = self.ticks.zip(HostGauges(host).processor_ticks()).and_then(|(from, to)| {
            Some((to.busy.checked_sub(from.busy)?, to.stolen.checked_sub(from.stolen)?))
        });
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        Changed {
            busy_seconds: grown.map(|(busy, _)| seconds(busy)),
            stolen_seconds: grown.map(|(_, stolen)| seconds(stolen)),
            slept_seconds: suspended_time().saturating_sub(self.slept).as_millis() as f64 / 1000.0,
            ..Changed::default()
        }
    }
}

/// Counters before and after a run.
#[derive(Debug, Clone, Copy)]
struct CounterGrowth<'a> {
    from: &'a Counters,
    to: &'a Counters,
}

impl Changed {
    fn add_growth(
        &mut self,
        own: Option<CounterGrowth<'_>>,
        host: CounterGrowth<'_>,
        limited: bool,
    ) {
        for (name, of_group, of_host) in SUMS {
            let counted = own.and_then(|own| own.sum(of_group));
            let is_hidden = limited && OF_LIMIT.contains(&name);
            let wide = || host.sum(of_host).filter(|_| !is_hidden);
            self.add(name, counted, wide);
        }
        let shares = |grown: CounterGrowth<'_>, at: fn(&Sum) -> &'static [&'static str]| {
            let sum =
                |name| SUMS.iter().find(|sum| sum.0 == name).and_then(|sum| grown.sum(at(sum)));
            let (scanned, stolen, refaults) = (sum(SCANNED)?, sum(STOLEN)?, sum(REFAULTS)?);
            let efficiency = (scanned > 0.0).then(|| (stolen / scanned).min(1.0));
            let kept_out = (stolen > 0.0).then(|| (1.0 - refaults / stolen).max(0.0));
            Some([efficiency, kept_out])
        };
        let of_group = own.and_then(|own| shares(own, |sum| sum.1));
        let of_host = shares(host, |sum| sum.2).filter(|_| !limited && of_group.is_none());
        for (at, name) in [SCAN_EFFICIENCY, KEPT_OUT].into_iter().enumerate() {
            self.add(name, of_group.and_then(|of| of[at]), || of_host.and_then(|of| of[at]));
        }
    }

    /// Adds the value of a metric: the cgroup's if it is known; otherwise the host's, which is
    /// marked as host-wide.
    pub(super) fn add(&mut self, name: &str, own: Option<f64>, wide: impl FnOnce() -> Option<f64>) {
        let value = own.or_else(wide);
        if own.is_none() && value.is_some() {
            self.host_wide.push(name.to_owned());
        }
        self.values.extend(value.map(|value| (name.to_owned(), value)));
    }
}

impl CounterGrowth<'_> {
    /// The increase of the sum of these counters; `None` if one of them does not exist. For that
    /// reason the host's lists have no counters that only some kernels have, such as
    /// `pgscan_khugepaged`.
    fn sum(&self, names: &[&str]) -> Option<f64> {
        let one = |name: &&str| self.to.get(name).get()?.checked_sub(self.from.get(name).get()?);
        names.iter().map(one).sum::<Option<u64>>().map(|sum| sum as f64)
    }
}

/// The counters of a borrowed cgroup.
pub(super) fn counters_of(group: &MemoryGroup) -> CgroupCounters {
    CgroupCounters::new(&group.folder, group.unified)
}

/// Time that this machine has been suspended since boot.
fn suspended_time() -> Duration {
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

    /// Counters of a v2 cgroup before and after a run, as Linux 6.18 prints them, shortened.
    const V2: [&str; 2] = [
        "workingset_refault_anon 10\nworkingset_refault_file 20\npgscan 1000\npgsteal 900\n\
         pgscan_kswapd 600\npgscan_direct 400\npswpin 1\npswpout 2\n",
        "workingset_refault_anon 40\nworkingset_refault_file 30\npgscan 1500\npgsteal 1000\n\
         pgscan_kswapd 700\npgscan_direct 800\npswpin 5\npswpout 9\n",
    ];
    /// Counters of a v1 cgroup before and after a run; it counts refaults only.
    const V1: [&str; 2] = [
        "workingset_refault_anon 0\nworkingset_refault_file 0\n",
        "workingset_refault_anon 4\nworkingset_refault_file 1\n",
    ];
    const HOST: [&str; 2] = [
        "pgscan_kswapd 0\npgscan_direct 0\npgsteal_kswapd 0\npgsteal_direct 0\npswpin 0\npswpout 0\n\
         workingset_refault_anon 0\nworkingset_refault_file 0\n",
        "pgscan_kswapd 60\npgscan_direct 40\npgsteal_kswapd 30\npgsteal_direct 20\npswpin 3\n\
         pswpout 4\nworkingset_refault_anon 5\nworkingset_refault_file 5\n",
    ];

    /// The changes from counters before a run to those after it, with or without those of a cgroup.
    fn count_growth(group: Option<[&str; 2]>, limited: bool) -> Changed {
        let read = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("counters"), text).unwrap();
            pagewise_observe::counters(&HostRoot::folder(folder.path()).unwrap(), "counters")
        };
        let [from, to] = HOST.map(read);
        let group = group.map(|texts| texts.map(read));
        let mut changed = Changed::default();
        let own = group.as_ref().map(|[from, to]| CounterGrowth { from, to });
        changed.add_growth(own, CounterGrowth { from: &from, to: &to }, limited);
        changed
    }

    #[test]
    fn a_group_of_version_2_counts_all_itself() {
        let changed = count_growth(Some(V2), true);
        assert!(changed.host_wide.is_empty(), "{:?}", changed.host_wide);
        for (name, value) in [
            (REFAULTS, 40.0),
            (REFAULTS_ANON, 30.0),
            (REFAULTS_FILE, 10.0),
            (SCANNED, 500.0),
            (DIRECT_SCANS, 400.0),
            (STOLEN, 100.0),
            (SCAN_EFFICIENCY, 0.2),
            (KEPT_OUT, 0.6),
            (SWAPPED_IN, 4.0),
            (SWAPPED_OUT, 7.0),
        ] {
            assert!((changed.values[name] - value).abs() < 1e-12, "{name}: {changed:?}");
        }
    }

    /// With v1, reclaim due to the limit is unknown, and refaults of the cgroup are not divided by
    /// the host's scanned pages.
    #[test]
    fn a_group_of_version_1_leaves_out_what_nobody_knows() {
        let limited = count_growth(Some(V1), true);
        assert_eq!((limited.values[REFAULTS], limited.values[REFAULTS_ANON]), (5.0, 4.0));
        for name in [SCANNED, STOLEN, DIRECT_SCANS, SCAN_EFFICIENCY, KEPT_OUT] {
            assert!(!limited.values.contains_key(name), "{name}");
        }
        assert_eq!(limited.host_wide, [SWAPPED_IN, SWAPPED_OUT]);
        let free = count_growth(Some(V1), false);
        assert_eq!((free.values[SCAN_EFFICIENCY], free.values[KEPT_OUT]), (0.5, 0.8));
        assert!(free.host_wide.iter().any(|name| name == KEPT_OUT));
    }

    #[test]
    fn where_nothing_was_scanned_there_is_no_share() {
        let same = count_growth(Some([V2[0], V2[0]]), true);
        assert!(!same.values.contains_key(SCAN_EFFICIENCY) && !same.values.contains_key(KEPT_OUT));
        assert_eq!(same.values[SCANNED], 0.0);
    }

    /// The host's counters grow at least by what a process does that reads files.
    #[test]
    fn counters_of_this_host_are_found_and_said_to_be_the_hosts() {
        let host = HostRoot::live().unwrap();
        let changed =
            read_at_start(&host, None, &LentSwap::default()).changes_until_now(&host, None, false);
        for name in [REFAULTS, SCANNED, STOLEN, SWAPPED_IN, SWAPPED_OUT] {
            assert!(changed.values[name] >= 0.0);
            assert!(changed.host_wide.iter().any(|wide| wide == name));
        }
        assert!(changed.busy_seconds.unwrap() >= 0.0 && changed.slept_seconds < 1.0);
        assert!(!changed.values.contains_key(PEAK_MEMORY));
    }
}
