// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads processes repeatedly into [`LiveProcess`]es with rates.
//!
//! Every reading reads `statm` of every process, from a file that stays open: this costs a fifth of
//! opening it each time, and detects if another process has taken over the ID. `stat` is read of
//! new processes, of those on the screen, and of an eighth of the others in turn. `status` is
//! needed only while swap is in use: of the same processes, and of those whose size has changed.

use std::collections::BTreeMap;

use pagewise_hostfs::{HostRoot, OpenFile, ReadHost, ReadValues};
use pagewise_model::{Bytes, LiveProcess, Millis, Process, Snapshot};

use super::stat::{self, StatLine};
use super::status::{self, Task};
use super::unused_swap;
use crate::sizes::Sizes;

/// Every process is read in full once in this many readings.
const TURNS: u32 = 8;
/// Maximum number of process files that stay open. The kernel needs about 5 KiB for each.
const MOST_OPEN: usize = 2048;
/// Size in bytes of the buffer for `statm`, whose line is shorter.
const STATM: usize = 256;

/// The processes at the last reading, to compute rates at the next.
#[derive(Debug, Default)]
pub(crate) struct LiveProcesses {
    known: BTreeMap<u32, Known>,
    turn: u32,
    open: usize,
}

#[derive(Debug)]
enum Known {
    /// A kernel thread, or a zombie: a process that has ended and was not waited for.
    WithoutMemory,
    Process(Box<Tracked>),
}

#[derive(Debug, Default)]
struct Tracked {
    shown: LiveProcess,
    statm: Option<OpenFile>,
    started: Option<Millis>,
    sizes: Sizes,
    times: Option<Times>,
}

/// Counters of a process at one time.
#[derive(Debug, Clone, Copy)]
struct Times {
    seconds: f64,
    cpu: Millis,
    faults: u64,
}

/// The values that are the same for all processes in one reading.
struct Round<'a> {
    host: &'a HostRoot,
    at: &'a Snapshot,
    /// Whether no swap is in use on the host, so that no process has swap.
    no_swap: bool,
    /// Number of further files that may stay open.
    to_open: usize,
}

impl LiveProcesses {
    /// Reads all processes that have memory; `at` gives the time, `wanted` are read in full.
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
        let to_open = max_open_files().saturating_sub(self.open);
        let mut round = Round { host, at, no_swap, to_open };
        host.keep_folder_open("proc");
        let mut list = Vec::with_capacity(before.len());
        self.open = 0;
        for pid in host.list_numbers("proc", "") {
            let is_turn = pid % TURNS == self.turn;
            let known = match before.remove(&pid) {
                Some(Known::WithoutMemory) if !is_turn => Some(Known::WithoutMemory),
                Some(Known::Process(tracked)) => {
                    round.read_known(tracked, is_turn || wanted.contains(&pid))
                }
                Some(Known::WithoutMemory) | None => round.read_new(pid),
            };
            let Some(known) = known else { continue };
            if let Known::Process(tracked) = &known {
                list.push(tracked.shown.clone());
                self.open += usize::from(tracked.statm.is_some());
            }
            self.known.insert(pid, known);
        }
        list
    }

    /// Reads all processes of a recording in full: it contains every file, and reading them is
    /// cheap.
    fn read_recorded(&mut self, host: &HostRoot, at: &Snapshot) -> Vec<LiveProcess> {
        let mut before = std::mem::take(&mut self.known);
        let mut list = Vec::with_capacity(before.len());
        for pid in host.list_numbers("proc", "") {
            let Some((process, resident)) = read_recorded(host, at, pid) else { continue };
            let mut tracked = match before.remove(&pid) {
                Some(Known::Process(known)) if known.started == process.start_time.get() => known,
                _ => Box::default(),
            };
            (tracked.shown.pid, tracked.shown.resident) = (pid, resident);
            tracked.take_recorded(&process, at);
            tracked.add_growth(at);
            list.push(tracked.shown.clone());
            self.known.insert(pid, Known::Process(tracked));
        }
        list
    }
}

/// A process and its resident size. The first reading of a recording may contain `statm` instead of
/// `status`.
fn read_recorded(host: &HostRoot, at: &Snapshot, pid: u32) -> Option<(Process, Bytes)> {
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

/// Maximum number of files to keep open: half of this process's limit of open files, at most
/// [`MOST_OPEN`].
fn max_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok());
    half.unwrap_or(MOST_OPEN).min(MOST_OPEN)
}

impl Round<'_> {
    /// Reads a process that was not there at the last reading; `None` if it has just ended.
    fn read_new(&mut self, pid: u32) -> Option<Known> {
        let mut tracked = Box::<Tracked>::default();
        tracked.shown.pid = pid;
        self.read_known(tracked, true)
    }

    /// Reads a process that was there at the last reading; `None` if it has ended.
    fn read_known(&mut self, mut tracked: Box<Tracked>, full: bool) -> Option<Known> {
        let pid = tracked.shown.pid;
        let sizes = match self.sizes(&mut tracked) {
            Ok(Some(sizes)) => sizes,
            Ok(None) => return Some(Known::WithoutMemory),
            // the known process has ended, and a new one has its ID
            Err(Ended) if tracked.started.is_some() => return self.read_new(pid),
            Err(Ended) => return None,
        };
        let has_changed = sizes.anon != tracked.shown.anon;
        (tracked.shown.resident, tracked.shown.anon) = (sizes.resident, sizes.anon);
        if full {
            let line = self.host.bytes(&format!("proc/{pid}/stat")).ok()?;
            let stat = StatLine::parse(&line)?;
            if tracked.started.is_some_and(|started| started != stat.start) {
                return self.read_new(pid);
            }
            tracked.take(&stat, self.at);
            tracked.shown.name = stat::name(&line).unwrap_or_default();
        }
        if self.no_swap {
            tracked.shown.swap = Some(Bytes::new(0));
        } else if full || has_changed {
            tracked.shown.swap = match status::read_sizes(self.host, pid) {
                Task::Process(process, _) => process.swap.get(),
                Task::KernelThread | Task::Ended => return None,
            };
        }
        tracked.add_growth(self.at);
        Some(Known::Process(tracked))
    }

    /// Reads the sizes of a process from `statm`; `None` if the process has no memory.
    fn sizes(&mut self, tracked: &mut Tracked) -> Result<Option<stat::Sizes>, Ended> {
        let (path, page) = (|pid| format!("proc/{pid}/statm"), self.at.page_size());
        if tracked.statm.is_none() && self.to_open > 0 {
            tracked.statm = self.host.stay_open(&path(tracked.shown.pid));
            self.to_open -= usize::from(tracked.statm.is_some());
        }
        let mut buffer = [0; STATM];
        match &tracked.statm {
            Some(file) => file.read(&mut buffer).map(|line| stat::sizes(line, page)),
            None => self.host.bytes(&path(tracked.shown.pid)).map(|line| stat::sizes(&line, page)),
        }
        .map_err(|_| Ended)
    }
}

/// The process no longer exists.
struct Ended;

impl Tracked {
    /// Takes CPU time and faults from a line of `stat`.
    fn take(&mut self, stat: &StatLine, at: &Snapshot) {
        self.started = Some(stat.start);
        let seconds = at.taken.monotonic_seconds;
        self.count(Some(Times { seconds, cpu: stat.cpu, faults: stat.major_faults }));
    }

    /// Takes the values of a recorded process.
    fn take_recorded(&mut self, process: &Process, at: &Snapshot) {
        self.started = process.start_time.get();
        self.shown.name = process.name.clone();
        self.shown.anon = process.rss_anon.get().unwrap_or_default();
        self.shown.swap = process.swap.get();
        let seconds = at.taken.monotonic_seconds;
        let counted = process.cpu_time.get().zip(process.major_faults.get());
        self.count(counted.map(|(cpu, faults)| Times { seconds, cpu, faults }));
    }

    fn count(&mut self, now: Option<Times>) {
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

    fn add_growth(&mut self, at: &Snapshot) {
        let held = self.shown.swap.map(|swap| self.shown.anon.saturating_add(swap));
        self.shown.growth_per_second =
            held.and_then(|held| self.sizes.add(at.taken.monotonic_seconds, held.get()));
    }
}
