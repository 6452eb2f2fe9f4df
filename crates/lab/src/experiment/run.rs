// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command → how it ended, what it used, what it said.
//!
//! It is started behind a gate: a shell joins the cgroup, says that it is ready and waits for a word
//! before it becomes the command. What joining and starting take is measured at the gate and taken off.
//!
//! Processor time and major faults are those of the command and of all that it started, from the
//! account that the kernel keeps of processes that were waited for; a cgroup of version 2 also knows
//! those for which nobody waited.

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
use pagewise_model::lend::MemoryGroup;
use pagewise_model::{Nanos, RunEnd};
use pagewise_observe::{HostRoot, OwnUsage, ThreadCpu, ThreadProfile, process_usage};
use pagewise_stats::name::{CPU, MAJOR_FAULTS, TIME};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::gauges::Gauges;
use super::host::{self, Changed};
use super::output::Output;
use super::processes::{Reaper, end_group};
use super::swap_traffic::LentSwap;
use super::victims::Log;
use super::watcher::Watcher;

/// How often it is looked whether somebody wants to stop, and what the command holds.
const LOOK: Duration = Duration::from_millis(100);
/// The first look comes so soon, and each after it twice as late: short commands are seen too.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Joins `$1`, waits for a word, becomes the rest. A parent that is gone gets nothing.
const GATE: &str = r#"[ "$PPID" = "$0" ] || exit 125
[ -z "$1" ] || echo $$ > "$1/cgroup.procs" || exit 125
shift
echo
read -r word || exit 125
exec "$@" </dev/null"#;

/// What is run, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunSetup<'a> {
    /// The program's own file.
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) group: Option<&'a MemoryGroup>,
    /// Whether the group has a limit.
    pub(super) limited: bool,
    pub(super) deadline: Duration,
    /// Swap of its own.
    pub(super) swap: &'a LentSwap,
    /// The kernel's reclaim threads.
    pub(super) kswapd: &'a ThreadCpu,
    /// Whether it is looked where those spend their time.
    pub(super) profile: bool,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct RunResult {
    pub(super) end: RunEnd,
    pub(super) left: u32,
    pub(super) changed: Changed,
    pub(super) others_cpu_seconds: Option<f64>,
    /// The end of what it said.
    pub(super) message: String,
    /// Who of the group was killed for lack of memory.
    pub(super) victims: Vec<String>,
    /// Where the reclaim threads were.
    pub(super) profile: Vec<(String, u64)>,
}

/// Why there is nothing.
#[derive(Debug)]
pub(super) enum NotRun {
    /// The user stopped us; it was ended.
    Stopped,
    /// It could not be started.
    Failed(String),
}

/// The file of a program that is named as in a shell.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if !name.contains('/') {
        return program::find(name, "").ok();
    }
    let path = std::path::absolute(name).ok()?;
    program::is_program(&path).then_some(path)
}

/// Runs it to its end, however that comes.
pub(super) fn run(
    start: &RunSetup<'_>,
    watcher: &mut Watcher,
    stop: &AtomicBool,
) -> Result<RunResult, NotRun> {
    let host = HostRoot::live().map_err(|error| failed("/", &error))?;
    let reaper = Reaper::new();
    let accounted = OwnUsage::of_ended_children();
    let mut gate = Gate::open(start)?;
    watcher.watch(Some(gate.child.id()));
    let at_gate = Used::at_gate(&host, gate.child.id());
    let log = Log::from_now(start.group);
    let mut gauges = Gauges::new(&host, start.group, start.swap, start.kswapd);
    let profiled: &[u32] = if start.profile { &start.kswapd.threads } else { &[] };
    let mut profile = ThreadProfile::start(profiled);
    let before = host::before(&host, start.group, start.swap);
    let began = Instant::now();
    let output = gate.pass()?;
    let mut look = || {
        gauges.sample();
        profile.collect();
    };
    let ended = until_end(&mut gate.child, began + start.deadline, stop, &mut look);
    let time = began.elapsed();
    let mut changed = before.until_now(&host, start.group, start.limited);
    gauges.told(&mut changed);
    let left = reaper.sweep();
    watcher.watch(None);
    let output = output.said();
    let Some(last) = ended.map_err(|error| failed("waiting for the command", &error))? else {
        return Err(NotRun::Stopped);
    };
    let own = Used::since(accounted, changed.cpu_seconds).less(at_gate);
    changed.values.insert(TIME.to_owned(), time.as_nanos() as f64 / 1e9);
    changed.values.insert(CPU.to_owned(), own.cpu_nanos as f64 / 1e9);
    changed.values.insert(MAJOR_FAULTS.to_owned(), own.major_faults as f64);
    let others = changed.busy_seconds.map(|busy| (busy - own.cpu_nanos as f64 / 1e9).max(0.0));
    Ok(RunResult {
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

/// A started shell that waits.
struct Gate {
    child: Child,
    output: Option<File>,
}

impl Gate {
    /// Starts it, and returns when it is ready.
    fn open(start: &RunSetup<'_>) -> Result<Self, NotRun> {
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

    /// Lets it become the command.
    fn pass(&mut self) -> Result<Output, NotRun> {
        let mut word = self.child.stdin.take().ok_or_else(|| failed("the gate", &"closed"))?;
        word.write_all(b"go\n").map_err(|error| failed("the gate", &error))?;
        self.output.take().map(Output::follow).ok_or_else(|| failed("the gate", &"passed"))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process group of its own: a Ctrl-C at the terminal is for us alone.
fn spawn(start: &RunSetup<'_>, said: OwnedFd) -> Result<Child, Box<dyn std::error::Error>> {
    let group = start.group.map_or(OsStr::new(""), |group| group.folder.as_os_str());
    let error = said.try_clone()?;
    let child = Command::new(program::find("setpriv", "util-linux")?)
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program::find("sh", "dash")?)
        .args(["-c", GATE])
        .arg(std::process::id().to_string())
        .arg(group)
        .arg(start.program)
        .args(start.arguments)
        .stdin(Stdio::piped())
        .stdout(said)
        .stderr(error)
        .process_group(0)
        .spawn()?;
    Ok(child)
}

/// How the command itself ended.
#[derive(Debug, Clone, Copy)]
enum CommandEnd {
    Exit(ExitStatus),
    TimedOut,
}

/// None where the user stopped us. Whatever it is, the command has ended.
fn until_end(
    child: &mut Child,
    deadline: Instant,
    stop: &AtomicBool,
    look: &mut dyn FnMut(),
) -> std::io::Result<Option<CommandEnd>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("no process id"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let mut next = FIRST_LOOK;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if ended_within(&handle, left.min(next)) {
            return child.wait().map(|status| Some(CommandEnd::Exit(status)));
        }
        look();
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
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return false };
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
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

/// Processor time and major faults.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    cpu_nanos: u64,
    major_faults: u64,
}

impl Used {
    /// Of a process that has started nothing yet. What cannot be read is nothing: it is a
    /// millisecond or two.
    fn at_gate(host: &HostRoot, pid: u32) -> Self {
        let (time, major_faults) = process_usage(host, pid);
        Self { cpu_nanos: time.map_or(0, Nanos::get), major_faults: major_faults.unwrap_or(0) }
    }

    /// Of all that was waited for since, or of the group where that counts it.
    fn since(before: OwnUsage, group_seconds: Option<f64>) -> Self {
        let now = OwnUsage::of_ended_children();
        let cpu = now.cpu.saturating_sub(before.cpu);
        let cpu = group_seconds.map_or(cpu, |seconds| Duration::from_secs_f64(seconds.max(0.0)));
        Self {
            cpu_nanos: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            major_faults: now.major_faults.saturating_sub(before.major_faults),
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            cpu_nanos: self.cpu_nanos.saturating_sub(other.cpu_nanos),
            major_faults: self.major_faults.saturating_sub(other.major_faults),
        }
    }
}
