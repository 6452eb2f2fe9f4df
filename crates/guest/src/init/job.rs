// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the job and reports how it ended; kills every process that the job left behind.
//!
//! PID 1 inherits orphaned processes, so it reaps every child until the job's own process has
//! ended. Then it kills the processes in the job's cgroup and all others, which also closes the
//! pipes that background processes of the job hold open.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::channel::Channel;
use super::failure::{ErrorContext, Failure};
use super::system::{self, Groups};
use crate::wire::{CHUNK, Event, Job, JobExit, Stream};

/// How long to wait for killed processes to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the job to its end, and returns the event that reports the end.
pub(super) fn run(job: &Job, groups: &Groups, channel: &Channel) -> Event {
    let before = StartCounters::now();
    // PID 1 inherits orphans in any case; under systemd this process is not PID 1 and must ask for
    // them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    std::thread::scope(|scope| {
        let how = match start(job, groups) {
            Err(failure) => JobExit::NotStarted(failure.to_string()),
            Ok(mut child) => {
                channel.send_or_ignore(&Event::Started);
                if let Some(pipe) = child.stdout.take() {
                    scope.spawn(move || pass_on(pipe, Stream::Out, channel));
                }
                if let Some(pipe) = child.stderr.take() {
                    scope.spawn(move || pass_on(pipe, Stream::Err, channel));
                }
                reap_until_end(child.id())
            }
        };
        let after = StartCounters::now();
        let left = kill_everything(groups);
        end_event(how, left, &before, &after)
    })
}

/// Counters of the guest at the start of the job, from which the increase at its end is computed.
struct StartCounters {
    ticks: Option<u64>,
    idle: u64,
    kills: u64,
    time: Instant,
}

impl StartCounters {
    fn now() -> Self {
        Self {
            kills: system::read_counter("/proc/vmstat", "oom_kill"),
            idle: system::read_idle_milliseconds(),
            time: Instant::now(),
            ticks: pagewise_observe::ticks(),
        }
    }
}

fn end_event(how: JobExit, left: u64, before: &StartCounters, after: &StartCounters) -> Event {
    let time = after.time.duration_since(before.time).as_millis();
    Event::Ended {
        how,
        left,
        oom_kills: after.kills.saturating_sub(before.kills),
        ticks: after.ticks.zip(before.ticks).map(|(after, before)| after.saturating_sub(before)),
        idle_milliseconds: after.idle.saturating_sub(before.idle),
        milliseconds: u64::try_from(time).unwrap_or(u64::MAX),
    }
}

/// The event for a job that could not be started.
pub(super) fn not_started_event(why: String) -> Event {
    let now = StartCounters::now();
    end_event(JobExit::NotStarted(why), 0, &now, &now)
}

/// Starts the job in its own cgroup and folder, with exactly the environment that it names.
fn start(job: &Job, groups: &Groups) -> Result<std::process::Child, Failure> {
    let (program, arguments) = job.argv.split_first().ok_or(Failure::EmptyJob)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&job.environment).current_dir("/root");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // This process enters the job's cgroup before it forks, so that the child cannot run outside of
    // that cgroup.
    groups.enter_job();
    let child = command.spawn().context(program);
    groups.enter_own_group();
    let child = child?;
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "0");
    Ok(child)
}

fn pass_on(mut pipe: impl Read, stream: Stream, channel: &Channel) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        channel.send_or_ignore(&Event::Output { stream, bytes: buffer[..length].to_vec() });
    }
}

/// Reaps every child that ends, until the process with this pid has ended.
fn reap_until_end(requested: u32) -> JobExit {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if is_pid(pid, requested) => return job_exit(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return JobExit::NotStarted(format!("the job was lost: {errno}")),
        }
    }
}

fn is_pid(pid: Pid, requested: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()) == Ok(requested)
}

fn job_exit(status: WaitStatus) -> JobExit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => JobExit::Exited(code),
        (None, Some(signal)) => JobExit::Signalled(signal),
        (None, None) => JobExit::NotStarted("the job neither exited nor was killed".to_owned()),
    }
}

/// Kills and reaps all processes except PID 1 and kernel threads; returns how many the job had left
/// behind.
fn kill_everything(groups: &Groups) -> u64 {
    let left = u64::try_from(read_members(&groups.job).len()).unwrap_or(u64::MAX);
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        kill_each(groups);
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(_) => break,
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Ok(Some(_)) => {}
        }
    }
    left
}

/// Kills the whole cgroup at once if this kernel has `cgroup.kill`. Then kills its members one by
/// one or, in a guest with nothing but the job, every process. Kernel threads ignore the signal.
fn kill_each(groups: &Groups) {
    let _ = fs::write(format!("{}/cgroup.kill", groups.job), "1");
    let numbers = if groups.alone { all_pids() } else { read_members(&groups.job) };
    for pid in numbers.into_iter().filter(|pid| *pid > 1).filter_map(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn read_members(group: &str) -> Vec<i32> {
    let text = fs::read_to_string(format!("{group}/cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
