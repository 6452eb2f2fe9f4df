// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a command, and returns how it ended, what it used, and its output.
//!
//! A run has three steps, and each is a type, because the order of the steps decides what is
//! counted:
//!
//! 1. [`PreparedRun`]: the neighbour runs, the command waits at its [`gate`], and all counters have
//!    been read once. CPU time and faults up to here are subtracted later.
//! 2. [`EndedRun`]: the command has ended, the counters were read again, and only then all
//!    processes that outlived the command were killed.
//! 3. [`RunResult`]: the difference, computed after everything was reaped.
//!
//! CPU time and major faults are those of the command and all its child processes, from the
//! kernel's account of reaped children; a v2 cgroup also counts processes that were not reaped.

mod gate;
mod neighbour;
mod setup;
mod wait;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pagewise_guest::program;
use pagewise_model::RunEnd;
use pagewise_observe::{HostRoot, OwnUsage, ProgramError, ThreadProfile};
use pagewise_stats::name::{CPU, MAJOR_FAULTS, TIME};

use super::gauges::Gauges;
use super::host::{self, Changed, HostAtStart, counters_of};
use super::mark::Stopped;
use super::processes::Reaper;
use super::trouble::ExperimentError;
use super::usage::Usage;
use super::victims::Log;
use super::watcher::Watcher;
use gate::Gate;
use neighbour::Neighbour;
pub(super) use setup::{NotRun, RunSetup, StartedProgram};
use setup::{line_finder, run_failure};
use wait::{CommandEnd, RunEvent, wait_until_end};

/// Result of a run: how the command ended, what it used, and the end of its output.
#[derive(Debug)]
pub(super) struct RunResult {
    pub(super) end: RunEnd,
    pub(super) left: u32,
    pub(super) changed: Changed,
    pub(super) others_cpu_seconds: Option<f64>,
    /// Whether the command printed the line from which on it is measured; true if there is no such
    /// line.
    pub(super) marked: bool,
    /// The end of the command's output.
    pub(super) message: String,
    /// Names of the processes in the cgroup that the OOM killer killed.
    pub(super) victims: Vec<String>,
    /// Functions in which the reclaim threads were sampled, with the number of samples.
    pub(super) profile: Vec<(String, u64)>,
}

/// Finds the executable of a program as a shell would. For root, a program that another user can
/// replace is refused.
pub(super) fn find_program(name: &str) -> Result<PathBuf, ExperimentError> {
    let missing = || ExperimentError::NoProgram(name.to_owned());
    if !name.contains('/') {
        return pagewise_observe::find_program(name.as_ref()).map_err(|error| match error {
            ProgramError::Missing { .. } => missing(),
            untrusted @ ProgramError::Untrusted { .. } => ExperimentError::Untrusted(untrusted),
        });
    }
    let path = std::path::absolute(name).map_err(|_| missing())?;
    if program::is_program(&path) { Ok(path) } else { Err(missing()) }
}

/// Runs the command until it ends, fails or is stopped.
pub(super) fn run(
    setup: &RunSetup<'_>,
    watcher: &mut Watcher,
    stop: &AtomicBool,
) -> Result<RunResult, NotRun> {
    let host = HostRoot::live().map_err(|error| run_failure("/", &error))?;
    PreparedRun::prepare(&host, setup, watcher, stop)?.execute(watcher, stop)?.account()
}

/// A command that waits at its gate. Fields are dropped in this order, so that the command ends
/// before this process stops being the subreaper, and before the neighbour ends.
#[derive(Debug)]
struct PreparedRun<'a> {
    gate: Gate,
    measurement: Measurement<'a>,
    neighbour: Option<Neighbour>,
    /// Usage of all children that were reaped before the command was started.
    accounted: OwnUsage,
    /// CPU time and faults of the command's process at the moment when it was ready.
    at_gate: Usage,
    log: Log,
}

impl<'a> PreparedRun<'a> {
    fn prepare(
        host: &'a HostRoot,
        setup: &'a RunSetup<'a>,
        watcher: &mut Watcher,
        stop: &AtomicBool,
    ) -> Result<Self, NotRun> {
        // the neighbour is started before the reaper is made, so that it does not count as a child
        // of the command; it is reaped only after the accounting
        let neighbour =
            setup.neighbour.map(|program| Neighbour::start(&program, setup, stop)).transpose()?;
        let reaper = Reaper::new();
        // read after the start of the neighbour: what is reaped from here on belongs to the command
        let accounted = OwnUsage::of_ended_children();
        let gate = Gate::open(&setup.command)?;
        watcher.watch(Some(gate.child.id()));
        let at_gate = Usage::at_gate(host, gate.child.id());
        let log = Log::from_now(setup.command.group);
        let measurement = Measurement::start(host, setup, reaper);
        Ok(Self { gate, measurement, neighbour, accounted, at_gate, log })
    }

    /// Lets the command run until it has ended; then reads the counters, and only after that kills
    /// the processes that the command left behind.
    fn execute(mut self, watcher: &mut Watcher, stop: &AtomicBool) -> Result<EndedRun<'a>, NotRun> {
        let setup = self.measurement.setup;
        let (finder, found) = line_finder(setup.counted_from)?;
        // this must be the last reading before the command starts
        let before = self.measurement.counters();
        let began = Instant::now();
        let output = self.gate.let_pass(finder)?;
        let mut on_event = |event| self.measurement.on_event(event);
        let deadline = began + setup.deadline;
        let ended = wait_until_end(&mut self.gate.child, found, deadline, stop, &mut on_event);
        let time = began.elapsed();
        let changed = self.measurement.changes_since(&before);
        let left = self.measurement.reaper.kill_leftovers();
        watcher.watch(None);
        // read after these processes were killed, because the output ends only when no process has
        // the pipe open any more
        let output = output.into_text();
        match ended.map_err(|error| run_failure("waiting for the command", &error))? {
            Some(end) => Ok(EndedRun { prepared: self, end, time, changed, left, output }),
            None => Err(NotRun::Stopped),
        }
    }
}

/// The counters and samples that are read while the command runs.
#[derive(Debug)]
struct Measurement<'a> {
    host: &'a HostRoot,
    setup: &'a RunSetup<'a>,
    reaper: Reaper,
    gauges: Gauges<'a>,
    profile: ThreadProfile,
    mark: Option<Mark<'a>>,
}

/// The counters at the moment when the command had printed the line from which on it is measured.
#[derive(Debug)]
struct Mark<'a> {
    counters: HostAtStart<'a>,
    used: Usage,
}

impl<'a> Measurement<'a> {
    fn start(host: &'a HostRoot, setup: &'a RunSetup<'a>, reaper: Reaper) -> Self {
        let groups = [setup.command.group, setup.neighbour_group()];
        let profiled: &[u32] = if setup.profile { &setup.kswapd.threads } else { &[] };
        Self {
            host,
            setup,
            reaper,
            gauges: Gauges::new(host, groups, setup.swap, setup.kswapd),
            profile: ThreadProfile::start(profiled),
            mark: None,
        }
    }

    fn counters(&self) -> HostAtStart<'a> {
        host::read_at_start(self.host, self.setup.command.group, self.setup.swap)
    }

    fn on_event(&mut self, event: RunEvent) {
        match event {
            RunEvent::SampleDue => {
                self.gauges.sample();
                self.profile.collect();
            }
            RunEvent::LinePrinted(leader) => {
                // the command is stopped until all counters are read, so that all are of the same
                // moment
                let _stopped = Stopped::new(leader);
                let group = self.setup.command.group;
                let used = Usage::of_running(self.host, &self.reaper.processes(), group);
                self.mark = Some(Mark { counters: self.counters(), used });
                self.gauges.restart();
            }
        }
    }

    /// The changes since the start of the run. If there is a mark, the values that are measured
    /// from the mark on are the changes since the mark.
    fn changes_since(&self, start: &HostAtStart<'_>) -> Changed {
        let (host, group, limited) = (self.host, self.setup.command.group, self.setup.limited);
        let mut changed = start.changes_until_now(host, group, limited);
        if let Some(mark) = &self.mark {
            let late = mark.counters.changes_until_now(host, group, limited);
            changed = Changed { values: late.values, host_wide: late.host_wide, ..changed };
        }
        self.gauges.add_to(&mut changed);
        changed
    }
}

/// A command that has ended; no process that it started runs any more.
#[derive(Debug)]
struct EndedRun<'a> {
    prepared: PreparedRun<'a>,
    end: CommandEnd,
    time: Duration,
    changed: Changed,
    /// Number of processes that the command left behind.
    left: u32,
    output: String,
}

impl EndedRun<'_> {
    /// Subtracts the resources that were used before the measurement. This is the last step,
    /// because the kernel accounts only for reaped processes, and the neighbour must not be reaped
    /// earlier.
    fn account(self) -> Result<RunResult, NotRun> {
        let Self { prepared, end, time, mut changed, left, output } = self;
        // the fields are dropped from the last to the first, so that the order is that of
        // `PreparedRun`
        let PreparedRun { accounted, at_gate, log, mut neighbour, measurement, gate: _gate } =
            prepared;
        let (host, setup) = (measurement.host, measurement.setup);
        let all = Usage::since(accounted, changed.cpu_seconds);
        let counted = all.subtract(measurement.mark.as_ref().map_or(at_gate, |mark| mark.used));
        changed.values.insert(CPU.to_owned(), counted.cpu_seconds());
        changed.values.insert(MAJOR_FAULTS.to_owned(), counted.major_faults as f64);
        let marked = setup.counted_from.is_none() || measurement.mark.is_some();
        if !marked {
            changed.values.clear();
            changed.host_wide.clear();
        }
        changed.values.insert(TIME.to_owned(), time.as_nanos() as f64 / 1e9);
        let neighbour_cpu = setup.neighbour_group().and_then(|group| counters_of(group).cpu(host));
        let neighbour_seconds = neighbour_cpu.map_or(0.0, |micros| micros.get() as f64 / 1e6);
        let own_seconds = all.subtract(at_gate).cpu_seconds() + neighbour_seconds;
        let others = changed.busy_seconds.map(|busy| (busy - own_seconds).max(0.0));
        if let Some(neighbour) = &mut neighbour {
            neighbour.check_running(&changed)?;
        }
        Ok(RunResult {
            marked,
            end: run_end(end, changed.oom_kills),
            left,
            changed,
            others_cpu_seconds: others.map(|seconds| (seconds * 1e6).round() / 1e6),
            message: output,
            victims: log.victims(),
            profile: measurement.profile.functions(),
        })
    }
}

fn run_end(last: CommandEnd, kills: u64) -> RunEnd {
    match last {
        CommandEnd::TimedOut => RunEnd::TimedOut,
        CommandEnd::Exit(_) if kills > 0 => RunEnd::OutOfMemory { kills },
        CommandEnd::Exit(status) => match (status.code(), status.signal()) {
            (Some(status), _) => RunEnd::Exited { status },
            (None, signal) => RunEnd::Killed { signal: signal.unwrap_or(0) },
        },
    }
}
