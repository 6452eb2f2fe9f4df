// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a live machine repeatedly into a [`Snapshot`] and a [`LiveSample`], from files that are
//! cheap to read.
//!
//! What rarely changes (the kind of machine, settings of huge pages and of MGLRU) is read only
//! every 30 seconds. The kernel log is read at the start and whenever the counter of OOM kills has
//! grown.

mod groups;

use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{
    KernelLog, LiveChoice, LiveDetail, LiveSample, LiveSubject, Nanos, Snapshot, Taken,
};

use crate::mounts::{self, Mounts};
use crate::process::{self, LiveProcesses};
use crate::snapshot::{VMSTAT, glance, read_memory, read_taken};
use crate::thread_cpu::ThreadCpu;
use crate::{cgroup, counters, kernel_log, psi, swap, zmerge, zone, zram, zswap};
use groups::LiveGroups;

/// Interval between readings of everything, in seconds.
const SLOW_SECONDS: f64 = 30.0;

/// Reads a host repeatedly. For a recording, the caller passes one recorded host after the other.
#[derive(Debug)]
pub struct LiveReader {
    mounts: Mounts,
    /// The last reading of everything.
    full: Snapshot,
    /// Time of the last reading of everything, in monotonic seconds.
    full_read: Option<f64>,
    log: KernelLog,
    log_read: f64,
    oom_kills: Option<u64>,
    kswapd: ThreadCpu,
    kswapd_before: Option<(f64, Nanos)>,
    processes: LiveProcesses,
    groups: LiveGroups,
}

impl LiveReader {
    /// Prepares to read this host; nothing is read yet.
    pub fn new(host: &HostRoot) -> Self {
        let (mounts, kswapd) = (mounts::read(host), ThreadCpu::kswapd(host));
        Self {
            mounts,
            full: Snapshot::default(),
            full_read: None,
            log: KernelLog::default(),
            log_read: 0.0,
            oom_kills: None,
            kswapd,
            kswapd_before: None,
            processes: LiveProcesses::default(),
            groups: LiveGroups::default(),
        }
    }

    /// Reads the host as a whole, and those processes and groups that `choice` asks for. Never
    /// fails: a value that cannot be read is absent or denied. The Snapshot does not list the
    /// Problems of this reading.
    pub fn read(&mut self, host: &HostRoot, choice: &LiveChoice) -> (Snapshot, LiveSample) {
        let snapshot = self.host_facts(host);
        let seconds = snapshot.taken.monotonic_seconds;
        let mut sample = LiveSample {
            kswapd_percent: self.kswapd_percent(host, seconds),
            detail: choice.open.as_ref().map(|subject| self.detail(host, subject)),
            ..LiveSample::default()
        };
        if choice.groups {
            sample.groups = self.groups.read(host, &self.mounts, seconds);
        } else {
            sample.processes = self.processes.read(host, &snapshot, &choice.shown);
        }
        host.close_held_folders();
        host.take_problems();
        (snapshot, sample)
    }

    fn host_facts(&mut self, host: &HostRoot) -> Snapshot {
        let now = read_taken(host);
        let age = self.full_read.map(|then| now.monotonic_seconds - then);
        if age.is_none_or(|age| age > SLOW_SECONDS) || !host.is_live() {
            self.full_read = Some(now.monotonic_seconds);
            self.mounts = mounts::read(host);
            self.full = glance(host, &self.mounts);
        }
        let full = &self.full;
        let mut snapshot = Snapshot {
            taken: Taken { kernel: full.taken.kernel.clone(), ..now },
            host: full.host.clone(),
            thp: full.thp.clone(),
            mglru: full.mglru.clone(),
            ..Snapshot::default()
        };
        snapshot.memory = read_memory(host);
        snapshot.vmstat = counters::read(host, VMSTAT);
        snapshot.psi = psi::read(host);
        snapshot.zones = zone::read_zones(host);
        self.compressed_and_swap(host, &mut snapshot);
        self.kernel_log(host, &mut snapshot);
        snapshot
    }

    fn compressed_and_swap(&self, host: &HostRoot, snapshot: &mut Snapshot) {
        let full = &self.full;
        snapshot.tiers = swap::read(host, &self.mounts);
        snapshot.zram = zram::read_again(host, &full.zram, &snapshot.tiers, &self.mounts);
        snapshot.zmerge = zmerge::read(host, &snapshot.tiers, &self.mounts);
        snapshot.zswap =
            zswap::with_stored_amounts(&snapshot.memory, &snapshot.vmstat, &full.zswap);
    }

    /// The kernel log, with the age of each kill updated.
    fn kernel_log(&mut self, host: &HostRoot, snapshot: &mut Snapshot) {
        let now = snapshot.taken.monotonic_seconds;
        let kills = snapshot.vmstat.get("oom_kill").get();
        if self.log_read == 0.0 || kills != self.oom_kills {
            self.log = kernel_log::read(host, &snapshot.taken);
            (self.log_read, self.oom_kills) = (now, kills);
        }
        snapshot.kernel_log = self.log.clone();
        for kill in &mut snapshot.kernel_log.kills {
            kill.seconds_ago = kill.seconds_ago.map(|ago| ago + now - self.log_read);
        }
    }

    fn kswapd_percent(&mut self, host: &HostRoot, seconds: f64) -> Option<f64> {
        let time = self.kswapd.time(host);
        let before = std::mem::replace(&mut self.kswapd_before, time.map(|time| (seconds, time)));
        let ((then, before), now) = before.zip(time)?;
        let used = now.get().checked_sub(before.get())? as f64 / 1e9;
        (seconds > then).then(|| used * 100.0 / (seconds - then))
    }

    fn detail(&self, host: &HostRoot, subject: &LiveSubject) -> LiveDetail {
        match subject {
            LiveSubject::Process(pid) => process::read_one(host, *pid).map(LiveDetail::Process),
            LiveSubject::Group(path) => cgroup::read_one(host, &self.mounts, path.as_str())
                .map(|group| LiveDetail::Group(Box::new(group))),
        }
        .unwrap_or(LiveDetail::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads this machine; the process list contains this process.
    #[test]
    fn the_live_machine_has_us_and_rates_at_the_second_reading() {
        let host = HostRoot::live().unwrap();
        let mut reader = LiveReader::new(&host);
        let own = std::process::id();
        let choice = LiveChoice { shown: vec![own], ..LiveChoice::default() };
        let (first, sample) = reader.read(&host, &choice);
        let us = |sample: &LiveSample| {
            sample.processes.iter().find(|process| process.pid == own).cloned().unwrap()
        };
        assert!(first.memory.total.get().is_some() && us(&sample).cpu_percent.is_none());
        std::thread::sleep(std::time::Duration::from_millis(30));
        let open = Some(LiveSubject::Process(own));
        let (second, sample) = reader.read(&host, &LiveChoice { open, ..choice });
        assert!(us(&sample).cpu_percent.is_some() && us(&sample).growth_per_second.is_some());
        assert!(us(&sample).resident >= us(&sample).anon);
        assert!(matches!(&sample.detail, Some(LiveDetail::Process(it)) if it.pid == own));
        let interval = pagewise_model::Interval { start: Some(Box::new(first)), end: second };
        assert!(interval.vmstat("pgfault").is_some_and(|change| change.seconds >= 0.03));
    }

    #[test]
    fn groups_are_read_in_place_of_processes() {
        let file = |path: &str, text: &str| crate::testing::file(path, text);
        let mount = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let host = HostRoot::memory([
            file("proc/self/mountinfo", mount),
            file("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            file("sys/fs/cgroup/memory.stat", "anon 1\n"),
            file("sys/fs/cgroup/a/memory.stat", "anon 4096\nworkingset_refault_anon 5\n"),
            file("sys/fs/cgroup/a/memory.current", "8192\n"),
            file("sys/fs/cgroup/a/memory.max", "max\n"),
        ]);
        let mut reader = LiveReader::new(&host);
        let open = Some(LiveSubject::Group("/a".into()));
        let (_, sample) =
            reader.read(&host, &LiveChoice { groups: true, open, ..LiveChoice::default() });
        assert!(sample.processes.is_empty());
        let [group] = &sample.groups[..] else { panic!("{:?}", sample.groups) };
        assert_eq!((group.path.as_str(), group.current.get()), ("/a", 8192));
        assert_eq!(
            (group.limit, group.refaults_per_second),
            (Some(pagewise_model::Limit::Max), None)
        );
        assert!(matches!(&sample.detail, Some(LiveDetail::Group(it)) if it.path.as_str() == "/a"));
    }
}
