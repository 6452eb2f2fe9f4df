// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command → how it ended, what it used, and its output.
//!
//! It is started behind a gate: a shell joins the cgroup, reports that it is ready and waits for a
//! line of input before it executes the command. The usage until then is measured and subtracted.
//!
//! CPU time and major faults are those of the command and all its child processes, from the
//! kernel's account of reaped children; a v2 cgroup also counts processes that were not reaped.

#![expect(clippy::disallowed_methods, reason = "it starts the command, on a leash")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewise_guest::program;
use pagewise_model::RunEnd;
use pagewise_model::lend::MemoryGroup;
use pagewise_observe::{HostRoot, OwnUsage, ThreadCpu, ThreadProfile};
use pagewise_stats::name::{CPU, MAJOR_FAULTS, NEIGHBOUR_KILLS, TIME};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::gauges::Gauges;
use super::host::{self, Changed, counters_of};
use super::mark::{LineFinder, Stopped};
use super::output::Output;
use super::processes::{Reaper, end_group};
use super::swap_traffic::LentSwap;
use super::trouble::quoted;
use super::usage::Usage;
use super::victims::Log;
use super::watcher::Watcher;

/// Maximum interval for checking whether the user stops, and for sampling.
const LOOK: Duration = Duration::from_millis(100);
/// The first interval; each following one is twice as long, so that short commands are sampled too.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Joins the cgroup `$1`, waits for a line, executes the rest. Exits if its parent has died.
const GATE: &str = r#"[ "$PPID" = "$0" ] || exit 125
[ -z "$1" ] || echo $$ > "$1/cgroup.procs" || exit 125
shift
echo
read -r word || exit 125
exec "$@" </dev/null"#;

/// A program to start, and its cgroup.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedProgram<'a> {
    /// Path of the executable.
    pub(super) file: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) group: Option<&'a MemoryGroup>,
}

/// The command of a run and what surrounds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunSetup<'a> {
    pub(super) command: StartedProgram<'a>,
    /// A program that runs beside the command.
    pub(super) neighbour: Option<StartedProgram<'a>>,
    /// The line of the neighbour's output after which the command is started.
    pub(super) neighbour_ready: Option<&'a str>,
    /// Whether the cgroup has a memory limit.
    pub(super) limited: bool,
    pub(super) deadline: Duration,
    /// Swap that was borrowed for the run.
    pub(super) swap: &'a LentSwap,
    /// The kernel's reclaim threads.
    pub(super) kswapd: &'a ThreadCpu,
    /// Whether to sample the stacks of the reclaim threads.
    pub(super) profile: bool,
    /// The line of output from which on the run is measured; `None`: from its start.
    pub(super) counted_from: Option<&'a str>,
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct RunResult {
    pub(super) end: RunEnd,
    pub(super) left: u32,
    pub(super) changed: Changed,
    pub(super) others_cpu_seconds: Option<f64>,
    /// Whether it printed the line from which on it is measured, or needs none.
    pub(super) marked: bool,
    /// The end of its output.
    pub(super) message: String,
    /// Names of the processes in the cgroup that the OOM killer killed.
    pub(super) victims: Vec<String>,
    /// Functions in which the reclaim threads were sampled, with the number of samples.
    pub(super) profile: Vec<(String, u64)>,
}

/// Why there is no result.
#[derive(Debug)]
pub(super) enum NotRun {
    /// The user stopped the experiment; the command was ended.
    Stopped,
    /// The command could not be started.
    Failed(String),
}

/// Finds the executable of a program as a shell would.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if !name.contains('/') {
        return program::find(name, "").ok();
    }
    let path = std::path::absolute(name).ok()?;
    program::is_program(&path).then_some(path)
}

/// Runs the command until it ends, fails or is stopped.
pub(super) fn run(
    start: &RunSetup<'_>,
    watcher: &mut Watcher,
    stop: &AtomicBool,
) -> Result<RunResult, NotRun> {
    let host = HostRoot::live().map_err(|error| failed("/", &error))?;
    // started before the reaper, so that it is not counted as a child of the command; it is reaped
    // after the accounting
    let mut neighbour =
        start.neighbour.map(|beside| Neighbour::start(&beside, start, stop)).transpose()?;
    let group = start.command.group;
    let reaper = Reaper::new();
    let accounted = OwnUsage::of_ended_children();
    let mut gate = Gate::open(&start.command)?;
    watcher.watch(Some(gate.child.id()));
    let at_gate = Usage::at_gate(&host, gate.child.id());
    let log = Log::from_now(group);
    let beside = start.neighbour.and_then(|neighbour| neighbour.group);
    let mut gauges = Gauges::new(&host, [group, beside], start.swap, start.kswapd);
    let profiled: &[u32] = if start.profile { &start.kswapd.threads } else { &[] };
    let mut profile = ThreadProfile::start(profiled);
    let finder = start.counted_from.map(LineFinder::new).transpose();
    let (finder, found) = finder.map_err(|error| failed("an event", &error))?.unzip();
    let before = host::before(&host, group, start.swap);
    let began = Instant::now();
    let output = gate.pass(finder)?;
    let mut mark = None;
    let mut act = |event| match event {
        RunEvent::Look => {
            gauges.sample();
            profile.collect();
        }
        RunEvent::Line(leader) => {
            let _stopped = Stopped::new(leader);
            let used = Usage::of_families(&host, &reaper.started(), group);
            mark = Some((host::before(&host, group, start.swap), used));
            gauges.restart();
        }
    };
    let ended = until_end(&mut gate.child, found, began + start.deadline, stop, &mut act);
    let time = began.elapsed();
    let mut changed = before.until_now(&host, group, start.limited);
    if let Some((before, _)) = &mark {
        let late = before.until_now(&host, group, start.limited);
        changed = Changed { values: late.values, host_wide: late.host_wide, ..changed };
    }
    gauges.told(&mut changed);
    let left = reaper.sweep();
    watcher.watch(None);
    let output = output.said();
    let Some(last) = ended.map_err(|error| failed("waiting for the command", &error))? else {
        return Err(NotRun::Stopped);
    };
    let all = Usage::since(accounted, changed.cpu_seconds);
    let counted = all.less(mark.as_ref().map_or(at_gate, |(_, used)| *used));
    changed.values.insert(CPU.to_owned(), counted.cpu_seconds());
    changed.values.insert(MAJOR_FAULTS.to_owned(), counted.major_faults as f64);
    let marked = start.counted_from.is_none() || mark.is_some();
    if !marked {
        changed.values.clear();
        changed.host_wide.clear();
    }
    changed.values.insert(TIME.to_owned(), time.as_nanos() as f64 / 1e9);
    let own = all.less(at_gate).cpu_seconds();
    let of_neighbour = beside.and_then(|group| counters_of(group).cpu(&host));
    let own = own + of_neighbour.map_or(0.0, |micros| micros.get() as f64 / 1e6);
    let others = changed.busy_seconds.map(|busy| (busy - own).max(0.0));
    if let Some(neighbour) = &mut neighbour {
        neighbour.check(&changed)?;
    }
    Ok(RunResult {
        marked,
        end: end(last, changed.oom_kills),
        left,
        changed,
        others_cpu_seconds: others.map(|seconds| (seconds * 1e6).round() / 1e6),
        message: output,
        victims: log.victims(),
        profile: profile.functions(),
    })
}

fn failed(what: &str, why: &dyn std::fmt::Display) -> NotRun {
    NotRun::Failed(format!("{what}: {why}"))
}

/// A shell that waits before it executes the command.
struct Gate {
    child: Child,
    output: Option<File>,
}

impl Gate {
    /// Starts the shell, and returns when it is ready.
    fn open(start: &StartedProgram<'_>) -> Result<Self, NotRun> {
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| failed("a pipe", &error))?;
        let child = spawn(start, to).map_err(|error| failed("starting the command", &error))?;
        let mut gate = Self { child, output: None };
        let mut message = File::from(from);
        let mut first = [0];
        if message.read(&mut first).is_ok_and(|read| read == 1) && first == *b"\n" {
            gate.output = Some(message);
            return Ok(gate);
        }
        let mut why = String::from_utf8_lossy(&first).into_owned();
        let _ = message.take(4096).read_to_string(&mut why);
        Err(failed("starting the command", &why.trim_matches(['\0', '\n'])))
    }

    /// Lets the shell execute the command.
    fn pass(&mut self, finder: Option<LineFinder>) -> Result<Output, NotRun> {
        let mut word = self.child.stdin.take().ok_or_else(|| failed("the gate", &"closed"))?;
        word.write_all(b"go\n").map_err(|error| failed("the gate", &error))?;
        let output = self.output.take().ok_or_else(|| failed("the gate", &"passed"))?;
        Ok(Output::follow(output, finder))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that runs beside the command, until this is dropped.
struct Neighbour {
    gate: Gate,
    output: Option<Output>,
}

impl Neighbour {
    /// Starts it; returns when it has printed its line, if one is required.
    fn start(
        program: &StartedProgram<'_>,
        setup: &RunSetup<'_>,
        stop: &AtomicBool,
    ) -> Result<Self, NotRun> {
        let mut gate = Gate::open(program)?;
        let finder = setup.neighbour_ready.map(LineFinder::new).transpose();
        let (finder, found) = finder.map_err(|error| failed("an event", &error))?.unzip();
        let output = Some(gate.pass(finder)?);
        let mut neighbour = Self { gate, output };
        if let (Some(found), Some(line)) = (&found, setup.neighbour_ready) {
            neighbour.wait_until_ready(found, line, Instant::now() + setup.deadline, stop)?;
        }
        Ok(neighbour)
    }

    fn wait_until_ready(
        &mut self,
        found: &OwnedFd,
        line: &str,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<(), NotRun> {
        let broken = |error: &dyn std::fmt::Display| failed("the neighbour", error);
        let leader = self.leader().ok_or_else(|| broken(&"no process id"))?;
        let handle = pidfd_open(leader, PidfdFlags::empty()).map_err(|error| broken(&error))?;
        loop {
            match wait(&handle, Some(found), LOOK) {
                Some(Waited::Found) => return Ok(()),
                Some(Waited::Ended) => {
                    // its remaining processes may hold its output open
                    self.end_group();
                    let output = self.output.take().map_or_else(String::new, Output::said);
                    let why = format!("it ended before it printed {line:?}{}", quoted(&output));
                    return Err(broken(&why));
                }
                None if stop.load(Ordering::SeqCst) => return Err(NotRun::Stopped),
                None if Instant::now() >= deadline => {
                    let why = format!("it did not print {line:?} before the deadline of a run");
                    return Err(broken(&why));
                }
                None => {}
            }
        }
    }

    /// The neighbour must run as long as the command. If the OOM killer killed it, that is a result
    /// and not an error.
    fn check(&mut self, changed: &Changed) -> Result<(), NotRun> {
        let is_killed = changed.values.get(NEIGHBOUR_KILLS).is_some_and(|kills| *kills > 0.0);
        // not reaped, so that the pid remains that of its process group
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let leader = self.leader().filter(|_| !is_killed);
        let ended = leader.map(|leader| waitid(WaitId::Pid(leader), options)).transpose();
        let Some(status) = ended.map_err(|error| failed("the neighbour", &error))?.flatten() else {
            return Ok(());
        };
        self.end_group();
        let output = self.output.take().map_or_else(String::new, Output::said);
        let status =
            status.exit_status().map_or_else(String::new, |it| format!(" with status {it}"));
        let why = format!("it ended before the command did{status}{}", quoted(&output));
        Err(failed("the neighbour", &why))
    }

    fn leader(&self) -> Option<Pid> {
        i32::try_from(self.gate.child.id()).ok().and_then(Pid::from_raw)
    }

    fn end_group(&self) {
        if let Some(leader) = self.leader() {
            // it may have ended already
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.end_group();
    }
}

/// Starts the shell in a new process group, so that Ctrl-C at the terminal is sent to this program
/// only.
fn spawn(start: &StartedProgram<'_>, said: OwnedFd) -> Result<Child, Box<dyn std::error::Error>> {
    let group = start.group.map_or(OsStr::new(""), |group| group.folder.as_os_str());
    let error = said.try_clone()?;
    let child = Command::new(program::find("setpriv", "util-linux")?)
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program::find("sh", "dash")?)
        .args(["-c", GATE])
        .arg(std::process::id().to_string())
        .arg(group)
        .arg(start.file)
        .args(start.arguments)
        .stdin(Stdio::piped())
        .stdout(said)
        .stderr(error)
        .process_group(0)
        .spawn()?;
    Ok(child)
}

/// How the command's own process ended.
#[derive(Debug, Clone, Copy)]
enum CommandEnd {
    Exit(ExitStatus),
    TimedOut,
}

/// What to do while the command runs.
#[derive(Debug, Clone, Copy)]
enum RunEvent {
    /// Take a sample.
    Look,
    /// The command, which leads this process group, has printed the line from which on it is
    /// measured.
    Line(Pid),
}

/// Waits until the command has ended; `None` if the user stopped it. In every case the command has
/// ended on return. `found` signals that it has printed the line.
fn until_end(
    child: &mut Child,
    mut found: Option<OwnedFd>,
    deadline: Instant,
    stop: &AtomicBool,
    act: &mut dyn FnMut(RunEvent),
) -> std::io::Result<Option<CommandEnd>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("no process id"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let mut next = FIRST_LOOK;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match wait(&handle, found.as_ref(), left.min(next)) {
            Some(Waited::Ended) => {
                return child.wait().map(|status| Some(CommandEnd::Exit(status)));
            }
            Some(Waited::Found) => {
                found = None;
                act(RunEvent::Line(pid));
            }
            None => act(RunEvent::Look),
        }
        next = LOOK.min(next * 2);
        let stopped = stop.load(Ordering::SeqCst);
        if stopped || Instant::now() >= deadline {
            end_group(pid, |patience| ended_within(&handle, patience));
            child.wait()?;
            return Ok((!stopped).then_some(CommandEnd::TimedOut));
        }
    }
}

fn ended_within(handle: &OwnedFd, time: Duration) -> bool {
    wait(handle, None, time).is_some()
}

/// What ended the waiting.
#[derive(Debug, Clone, Copy)]
enum Waited {
    /// The command has ended.
    Ended,
    /// It has printed the line.
    Found,
}

/// Waits for either; `None` if the time is over first.
fn wait(handle: &OwnedFd, found: Option<&OwnedFd>, time: Duration) -> Option<Waited> {
    let until = Instant::now() + time;
    let mut waited: Vec<PollFd<'_>> =
        [handle].into_iter().chain(found).map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok()?;
        match poll(&mut waited, Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) if waited[0].revents().is_empty() => return Some(Waited::Found),
            Ok(_) => return Some(Waited::Ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn end(last: CommandEnd, kills: u64) -> RunEnd {
    match last {
        CommandEnd::TimedOut => RunEnd::TimedOut,
        CommandEnd::Exit(_) if kills > 0 => RunEnd::OutOfMemory { kills },
        CommandEnd::Exit(status) => match (status.code(), status.signal()) {
            (Some(status), _) => RunEnd::Exited { status },
            (None, signal) => RunEnd::Killed { signal: signal.unwrap_or(0) },
        },
    }
}
