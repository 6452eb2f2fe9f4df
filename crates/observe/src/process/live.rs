// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes at several times → [`LiveProcess`]es with rates.
//!
//! `statm` is read of every process each time. `status` and `stat` cost five times as much. They are read of new
//! processes, of those on the screen, of those whose size changed while swap is in use, and of the others in turn, an
//! eighth at a time. If an ID is given to another process, this is seen at its turn.

use std::collections::BTreeMap;

use pagewise_files::{HostRoot, ReadHost, ReadValues};
use pagewise_model::{Bytes, LiveProcess, Millis, Process, Snapshot};

use super::status::{self, Task};
use super::{read_one_without_group, stat, unused_swap};
use crate::sizes::Sizes;

/// Every process is read in full once in so many readings.
const TURNS: u32 = 8;

/// The processes of the last reading.
#[derive(Debug, Default)]
pub(crate) struct LiveProcesses {
    known: BTreeMap<u32, Known>,
    turn: u32,
}

#[derive(Debug)]
enum Known {
    /// A kernel thread, or a process that has ended and was not waited for.
    WithoutMemory,
    Process(Box<Tracked>),
}

#[derive(Debug, Default)]
struct Tracked {
    shown: LiveProcess,
    started: Option<Millis>,
    sizes: Sizes,
    times: Option<Times>,
}

/// Counters of a process at a time.
#[derive(Debug, Clone, Copy)]
struct Times {
    seconds: f64,
    cpu: Millis,
    faults: u64,
}

impl LiveProcesses {
    /// All processes that have memory; `at` says how late it is, `wanted` are read in full.
    pub(crate) fn read(
        &mut self,
        host: &HostRoot,
        at: &Snapshot,
        wanted: &[u32],
    ) -> Vec<LiveProcess> {
        if !host.is_live() {
            return self.read_recorded(host, at);
        }
        self.turn = (self.turn + 1) % TURNS;
        let mut before = std::mem::take(&mut self.known);
        let no_swap = unused_swap(&at.memory).is_some();
        host.hold("proc");
        let mut list = Vec::with_capacity(before.len());
        for pid in host.numbered("proc", "") {
            let is_turn = pid % TURNS == self.turn;
            let known = match before.remove(&pid) {
                Some(Known::WithoutMemory) if !is_turn => Some(Known::WithoutMemory),
                Some(Known::Process(tracked)) => {
                    let full = is_turn || wanted.contains(&pid);
                    again(host, at, *tracked, full, no_swap)
                }
                Some(Known::WithoutMemory) | None => first(host, at, pid),
            };
            let Some(known) = known else { continue };
            if let Known::Process(tracked) = &known {
                list.push(tracked.shown.clone());
            }
            self.known.insert(pid, known);
        }
        list
    }

    /// All processes of a recording: it has every file of each, and reading them costs little.
    fn read_recorded(&mut self, host: &HostRoot, at: &Snapshot) -> Vec<LiveProcess> {
        let mut before = std::mem::take(&mut self.known);
        let mut list = Vec::with_capacity(before.len());
        for pid in host.numbered("proc", "") {
            let Some((process, resident)) = recorded(host, at, pid) else { continue };
            let mut tracked = match before.remove(&pid) {
                Some(Known::Process(known)) if known.started == process.start_time.get() => known,
                _ => Box::default(),
            };
            (tracked.shown.pid, tracked.shown.resident) = (pid, resident);
            tracked.take(&process, at);
            tracked.grow(at);
            list.push(tracked.shown.clone());
            self.known.insert(pid, Known::Process(tracked));
        }
        list
    }
}

/// A process and its resident size. The earlier end of an interval may have `statm` in place of `status`.
fn recorded(host: &HostRoot, at: &Snapshot, pid: u32) -> Option<(Process, Bytes)> {
    let (mut process, resident) = match status::read_sizes(host, pid) {
        Task::Process(process, resident) => (*process, resident?),
        Task::KernelThread => return None,
        Task::Ended => stat::read_sizes(host, pid, at.page_size())?,
    };
    if let Some(none) = unused_swap(&at.memory) {
        process.swap = none;
    }
    stat::read_times(host, &mut process);
    Some((process, resident))
}

/// A process that was not known; `None` if it has just ended.
fn first(host: &HostRoot, at: &Snapshot, pid: u32) -> Option<Known> {
    let Some((_, resident)) = stat::read_sizes(host, pid, at.page_size()) else {
        return Some(Known::WithoutMemory);
    };
    let mut tracked = Tracked::default();
    (tracked.shown.pid, tracked.shown.resident) = (pid, resident);
    tracked.take(&*read_one_without_group(host, pid)?, at);
    tracked.grow(at);
    Some(Known::Process(Box::new(tracked)))
}

/// A process that is known; `None` if it has ended.
fn again(
    host: &HostRoot,
    at: &Snapshot,
    mut tracked: Tracked,
    full: bool,
    no_swap: bool,
) -> Option<Known> {
    let pid = tracked.shown.pid;
    let Some((sizes, resident)) = stat::read_sizes(host, pid, at.page_size()) else {
        return Some(Known::WithoutMemory);
    };
    let anon = sizes.rss_anon.get().unwrap_or_default();
    let has_changed = anon != tracked.shown.anon;
    tracked.shown.resident = resident;
    tracked.shown.anon = anon;
    if no_swap {
        tracked.shown.swap = Some(Bytes::new(0));
    }
    if full || has_changed && !no_swap {
        let process = read_one_without_group(host, pid)?;
        if process.start_time.get() != tracked.started {
            tracked = Tracked {
                shown: LiveProcess { pid, resident, ..LiveProcess::default() },
                ..Tracked::default()
            };
        }
        tracked.take(&process, at);
    }
    tracked.grow(at);
    Some(Known::Process(Box::new(tracked)))
}

impl Tracked {
    /// Takes over what `status` and `stat` say.
    fn take(&mut self, process: &Process, at: &Snapshot) {
        let seconds = at.taken.monotonic_seconds;
        self.started = process.start_time.get();
        self.shown.name = process.name.clone();
        self.shown.anon = process.rss_anon.get().unwrap_or(self.shown.anon);
        self.shown.swap = process.swap.get();
        let counted = process.cpu_time.get().zip(process.major_faults.get());
        let now = counted.map(|(cpu, faults)| Times { seconds, cpu, faults });
        if let Some((before, now)) = std::mem::replace(&mut self.times, now).zip(now) {
            let passed = now.seconds - before.seconds;
            let per_second = |count: Option<u64>| {
                count.filter(|_| passed > 0.0).map(|count| count as f64 / passed)
            };
            self.shown.faults_per_second = per_second(now.faults.checked_sub(before.faults));
            let used = per_second(now.cpu.get().checked_sub(before.cpu.get()));
            self.shown.cpu_percent = used.map(|millis| millis / 10.0);
        }
    }

    fn grow(&mut self, at: &Snapshot) {
        let held = self.shown.swap.map(|swap| self.shown.anon.saturating_add(swap));
        self.shown.growth_per_second =
            held.and_then(|held| self.sizes.add(at.taken.monotonic_seconds, held.get()));
    }
}
