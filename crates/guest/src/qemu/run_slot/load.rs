// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how many CPUs the running guests kept busy recently, and how much memory is left.
//!
//! A guest counts with all its virtual CPUs until its CPU use has been measured: while it is
//! prepared or boots, between two boots, and if its QEMU is not visible because it is in another
//! PID namespace or `/proc` hides it.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::note::RunNote;
use crate::qemu::process;

/// Until it has this age a guest counts as booting: its CPU use so far does not predict its later
/// use.
const BOOT: Duration = Duration::from_secs(10);
/// Minimum time between two readings that are compared, so that the timers of a sleeping guest
/// average out.
const WINDOW: Duration = Duration::from_secs(2);
/// Minimum time between two searches of all processes for QEMUs.
const SEARCH: Duration = Duration::from_millis(500);

/// A run that has its folder, and therefore counts for the limits.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) folder: PathBuf,
    pub(super) note: RunNote,
}

/// What the running guests use of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Number of CPUs that the running guests keep busy.
    pub(super) busy: f64,
    /// Available memory of the host in bytes, minus guest memory that is not touched yet; `None` if
    /// it cannot be read.
    pub(super) memory_left: Option<u64>,
}

/// Measures the CPU use of the guests' QEMUs repeatedly.
#[derive(Debug, Default)]
pub(super) struct LoadMeter {
    qemus: HashMap<PathBuf, Qemu>,
    searched: Option<Instant>,
}

#[derive(Debug)]
struct Qemu {
    pid: Pid,
    start_ticks: u64,
    rate: Rate,
}

impl LoadMeter {
    pub(super) fn measure(&mut self, running: &[Running]) -> Load {
        self.find(running);
        let now = Instant::now();
        let (mut busy, mut untouched) = (0.0, 0_u64);
        for run in running {
            let all = f64::from(run.note.cpus);
            let qemu = self.qemus.get_mut(&run.folder);
            let resident =
                qemu.as_ref().and_then(|qemu| process::resident_bytes(qemu.pid)).unwrap_or(0);
            busy += qemu.and_then(|qemu| qemu.cpus(now)).map_or(all, |cpus| cpus.min(all));
            untouched = untouched.saturating_add(run.note.memory.saturating_sub(resident));
        }
        Load { busy, memory_left: available_memory().map(|all| all.saturating_sub(untouched)) }
    }

    /// Drops QEMU processes that have ended, and searches for those of runs without a known QEMU.
    fn find(&mut self, running: &[Running]) {
        self.qemus.retain(|_, qemu| process::start_ticks(qemu.pid) == Some(qemu.start_ticks));
        let unknown = running.iter().map(|run| &run.folder);
        let unknown: Vec<_> = unknown.filter(|folder| !self.qemus.contains_key(*folder)).collect();
        if unknown.is_empty() || self.searched.is_some_and(|then| then.elapsed() < SEARCH) {
            return;
        }
        self.searched = Some(Instant::now());
        for (folder, pid) in process::find_qemus(unknown) {
            if let Some(start_ticks) = process::start_ticks(pid) {
                let qemu = Qemu { pid, start_ticks, rate: Rate::default() };
                self.qemus.insert(folder.clone(), qemu);
            }
        }
    }
}

impl Qemu {
    /// Number of CPUs that this QEMU used or waited for; `None` until that was measured.
    fn cpus(&mut self, now: Instant) -> Option<f64> {
        let rate = self.rate.add(now, process::cpu_demand(self.pid)?);
        process::age(self.start_ticks).filter(|age| *age >= BOOT)?;
        rate
    }
}

/// The rate of a counter over the last complete window.
#[derive(Debug, Default)]
struct Rate {
    last: Option<(Instant, Duration)>,
    rate: Option<f64>,
}

impl Rate {
    fn add(&mut self, now: Instant, count: Duration) -> Option<f64> {
        let Some((then, before)) = self.last else {
            self.last = Some((now, count));
            return None;
        };
        let span = now.saturating_duration_since(then);
        if span >= WINDOW {
            self.rate = Some(count.saturating_sub(before).as_secs_f64() / span.as_secs_f64());
            self.last = Some((now, count));
        }
        self.rate
    }
}

/// Available memory of the host: `MemAvailable` in bytes.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    #[test]
    fn a_rate_is_that_of_the_last_whole_window() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        let mut add = |at: u64, used: u64| {
            rate.add(start + Duration::from_millis(at), Duration::from_millis(used))
        };
        assert_eq!(add(0, 500), None);
        assert_eq!(add(1_000, 1_500), None);
        assert_eq!(add(2_000, 2_500), Some(1.0));
        // an interval that is shorter than a window
        assert_eq!(add(3_000, 2_500), Some(1.0));
        assert_eq!(add(4_000, 3_500), Some(0.5));
        // when a thread ends, its CPU time is missing from the sum, which decreases
        assert_eq!(add(6_000, 1_000), Some(0.0));
    }

    #[test]
    fn a_guest_without_a_qemu_that_can_be_seen_counts_in_full() {
        let memory = Bytes::new(1 << 30);
        let run = |name: &str, cpus| Running {
            folder: format!("/nonesuch/{name}").into(),
            note: RunNote::new(cpus, memory, name),
        };
        let (mut meter, running) = (LoadMeter::default(), [run("1-0", 1), run("1-1", 2)]);
        let load = meter.measure(&running);
        assert_eq!(load.busy, 3.0);
        let alone = meter.measure(&[]);
        assert_eq!(alone.busy, 0.0);
        assert!(load.memory_left.unwrap() < alone.memory_left.unwrap());
    }
}
