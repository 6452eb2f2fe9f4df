// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples what a run uses, and keeps the maximum of each value and kswapd's CPU time.
//!
//! When the command has ended, its memory and swap are already free, so both are sampled while it
//! runs. A zram device records its maximum memory use itself.

use pagewise_model::lend::MemoryGroup;
use pagewise_model::{Bytes, Micros, Nanos};
use pagewise_observe::{CgroupCounters, HostGauges, HostRoot, ThreadCpu};
use pagewise_stats::name::{
    KSWAPD_CPU, MEMORY_STALL, NEIGHBOUR_FAULTS, NEIGHBOUR_KILLS, NEIGHBOUR_PEAK, NEIGHBOUR_POOL,
    POOL, SWAP_USED,
};

use super::host::{Changed, counters_of};
use super::swap_traffic::LentSwap;

/// The sampled values, from the start of a run.
#[derive(Debug)]
pub(super) struct Gauges<'h> {
    host: &'h HostRoot,
    group: Option<CgroupCounters>,
    neighbour: Option<NeighbourGauges>,
    swap: &'h LentSwap,
    /// Size of the swap in use on the host at the start of the run.
    host_swap: Option<Bytes>,
    most_swap: Option<Bytes>,
    most_zswap: Option<Bytes>,
    most_host_zswap: Option<Bytes>,
    most_host_swap: Option<Bytes>,
    kswapd: ThreadCpu,
    kswapd_time: Option<Nanos>,
    stall: Stall,
}

/// What is sampled in the cgroup of the neighbour.
#[derive(Debug)]
struct NeighbourGauges {
    group: CgroupCounters,
    most_zswap: Option<Bytes>,
    /// Number of major faults of the cgroup before counting began.
    faults: Option<u64>,
}

impl NeighbourGauges {
    fn new(host: &HostRoot, group: CgroupCounters) -> Self {
        Self { faults: read_major_faults(host, &group), group, most_zswap: None }
    }

    fn add_to(&self, host: &HostRoot, changed: &mut Changed) {
        let float = |bytes: Bytes| bytes.get() as f64;
        let now = read_major_faults(host, &self.group).zip(self.faults);
        let values = [
            (NEIGHBOUR_FAULTS, now.and_then(|(now, then)| Some(now.checked_sub(then)? as f64))),
            (NEIGHBOUR_PEAK, self.group.peak(host).map(float)),
            (NEIGHBOUR_POOL, self.most_zswap.map(float)),
            (NEIGHBOUR_KILLS, Some(self.group.oom_kills(host) as f64)),
        ];
        let read = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        changed.values.extend(read);
    }
}

fn read_major_faults(host: &HostRoot, group: &CgroupCounters) -> Option<u64> {
    group.stat(host).get("pgmajfault").get()
}

/// Readings of the time in which all tasks waited for memory (PSI, full).
#[derive(Debug)]
struct Stall {
    group: Option<Micros>,
    host: Option<Micros>,
}

impl<'h> Gauges<'h> {
    pub(super) fn new(
        host: &'h HostRoot,
        [group, neighbour]: [Option<&MemoryGroup>; 2],
        swap: &'h LentSwap,
        kswapd: &ThreadCpu,
    ) -> Self {
        let group = group.map(counters_of);
        let neighbour = neighbour.map(|group| NeighbourGauges::new(host, counters_of(group)));
        Self {
            host,
            neighbour,
            swap,
            host_swap: HostGauges(host).swap_used(),
            most_swap: None,
            most_zswap: None,
            most_host_zswap: None,
            most_host_swap: None,
            kswapd: kswapd.clone(),
            kswapd_time: kswapd.time(host),
            stall: Stall::read(host, group.as_ref()),
            group,
        }
    }

    /// Takes a sample while the command runs; reads four small files.
    pub(super) fn sample(&mut self) {
        let swap = self.group.as_ref().and_then(|group| group.swap(self.host));
        self.most_swap = self.most_swap.max(swap);
        if let Some(neighbour) = &mut self.neighbour {
            neighbour.most_zswap = neighbour.most_zswap.max(neighbour.group.zswap(self.host));
        }
        // with a neighbour, zswap's pool counts for both programs together, like a zram device
        let own = self.group.as_ref().filter(|_| self.neighbour.is_none());
        let zswap = own.and_then(|group| group.zswap(self.host));
        self.most_zswap = self.most_zswap.max(zswap);
        if zswap.is_none() && self.swap.has_zswap {
            self.most_host_zswap = self.most_host_zswap.max(HostGauges(self.host).zswap_pool());
        }
        if swap.is_none() {
            let now = HostGauges(self.host).swap_used().zip(self.host_swap);
            let more = now.map(|(now, then)| Bytes::new(now.get().saturating_sub(then.get())));
            self.most_host_swap = self.most_host_swap.max(more);
        }
    }

    /// Restarts the counters when the command prints its mark; maxima still cover the whole run.
    pub(super) fn restart(&mut self) {
        self.kswapd_time = self.kswapd.time(self.host);
        self.stall = Stall::read(self.host, self.group.as_ref());
        if let Some(neighbour) = &mut self.neighbour {
            neighbour.faults = read_major_faults(self.host, &neighbour.group);
        }
    }

    /// Adds the sampled values to `changed`. Call it after the command has ended, but before swap
    /// and cgroup are returned to the lender.
    pub(super) fn add_to(&self, changed: &mut Changed) {
        let float = |bytes: Bytes| bytes.get() as f64;
        let peak = self.group.as_ref().and_then(|group| group.swap_peak(self.host));
        let own = peak.max(self.most_swap).map(float);
        changed.add(SWAP_USED, own, || self.most_host_swap.map(float));
        let zswap = self.most_zswap.or(self.most_host_zswap);
        if !self.swap.zram.is_empty() || zswap.is_some() {
            let pool = |number: &u32| HostGauges(self.host).zram_peak(*number);
            let pools =
                self.swap.zram.iter().map(|zram| pool(zram).map(float)).sum::<Option<f64>>();
            let all = pools.map(|pools| pools + zswap.map_or(0.0, float));
            let is_own = self.most_host_zswap.is_none();
            changed.add(POOL, all.filter(|_| is_own), || all);
        }
        let grown = self.kswapd.time(self.host).zip(self.kswapd_time);
        let nanos = grown.map(|(now, then)| now.get().saturating_sub(then.get()));
        changed.add(KSWAPD_CPU, None, || nanos.map(|nanos| nanos as f64 / 1e9));
        let now = Stall::read(self.host, self.group.as_ref());
        let seconds = |now: Option<Micros>, then: Option<Micros>| {
            Some(now?.get().checked_sub(then?.get())? as f64 / 1e6)
        };
        let wide = || seconds(now.host, self.stall.host);
        changed.add(MEMORY_STALL, seconds(now.group, self.stall.group), wide);
        if let Some(neighbour) = &self.neighbour {
            neighbour.add_to(self.host, changed);
        }
    }
}

impl Stall {
    fn read(host: &HostRoot, group: Option<&CgroupCounters>) -> Self {
        Self {
            group: group.and_then(|group| group.memory_stall(host)),
            host: HostGauges(host).memory_stall(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pagewise_model::lend::LoanId;

    use super::*;

    /// In this test, the test's own thread takes the place of kswapd.
    #[test]
    fn what_was_counted_before_a_new_start_is_left_out() {
        let host = HostRoot::live().unwrap();
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let kswapd = ThreadCpu { threads: vec![thread.unsigned_abs()] };
        let swap = LentSwap::default();
        let mut gauges = Gauges::new(&host, [None; 2], &swap, &kswapd);
        let used = |gauges: &Gauges<'_>| {
            let mut changed = Changed::default();
            gauges.add_to(&mut changed);
            changed.values[KSWAPD_CPU]
        };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while used(&gauges) < 0.05 && std::time::Instant::now() < until {}
        let before = used(&gauges);
        gauges.restart();
        assert!(before >= 0.05 && used(&gauges) < before / 2.0, "{before}");
    }

    #[test]
    fn what_the_neighbour_did_is_told_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        let loan = LoanId(1);
        let group = MemoryGroup { loan, folder: folder.path().to_owned(), unified: true };
        let (host, swap) = (HostRoot::live().unwrap(), LentSwap::default());
        write("memory.stat", "pgmajfault 10\n");
        let mut gauges = Gauges::new(&host, [None, Some(&group)], &swap, &ThreadCpu::default());
        write("memory.stat", "pgmajfault 30\n");
        gauges.restart();
        for zswap in ["4096\n", "8192\n", "0\n"] {
            write("memory.zswap.current", zswap);
            gauges.sample();
        }
        write("memory.stat", "pgmajfault 37\n");
        write("memory.peak", "123456\n");
        write("memory.events", "max 5\noom_kill 1\n");
        let mut changed = Changed::default();
        gauges.add_to(&mut changed);
        for (name, value) in [
            (NEIGHBOUR_FAULTS, 7.0),
            (NEIGHBOUR_PEAK, 123_456.0),
            (NEIGHBOUR_POOL, 8192.0),
            (NEIGHBOUR_KILLS, 1.0),
        ] {
            assert_eq!(changed.values.get(name), Some(&value), "{name}: {changed:?}");
        }
    }

    /// The maximum of the cgroup's swap is kept, not the last value.
    #[test]
    fn the_most_that_a_group_had_in_swap_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let loan = LoanId(1);
        let group = MemoryGroup { loan, folder: folder.path().to_owned(), unified: false };
        let host = HostRoot::live().unwrap();
        let swap = LentSwap::default();
        let mut gauges = Gauges::new(&host, [Some(&group), None], &swap, &ThreadCpu::default());
        for swap in [500, 8000, 0] {
            let stat = format!("cache 77\nswap 12\ntotal_cache 77\ntotal_swap {swap}\n");
            fs::write(folder.path().join("memory.stat"), stat).unwrap();
            gauges.sample();
        }
        let mut changed = Changed::default();
        gauges.add_to(&mut changed);
        assert_eq!(changed.values[SWAP_USED], 8000.0);
        assert!(!changed.host_wide.iter().any(|name| name == SWAP_USED));
        assert!(!changed.values.contains_key(KSWAPD_CPU) && !changed.values.contains_key(POOL));
    }
}
