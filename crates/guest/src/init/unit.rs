// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the job under systemd, started by a unit: waits until the system has started, runs the job
//! in a cgroup below the unit's own, and reports its outcome in the same way as PID 1 does.
//!
//! A system that does not finish starting does not delay the job for ever: after a time limit,
//! failed units and units that are still starting are reported, and the job runs. systemd ends the
//! machine when this process ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::failure::{ErrorContext, Failure};
use super::system::Groups;
use super::{hand_over, job, out_files};
use crate::wire::{Event, JOB, Job};

const LOOK: Duration = Duration::from_millis(50);

/// Reads the job from /run and runs it, as a unit of systemd.
pub(super) fn main(channel: &Channel) -> Result<(), Failure> {
    let path = Path::new("/").join(hand_over::FOLDER).join(JOB);
    let text = fs::read(&path).at_path(&path)?;
    let job: Job = serde_json::from_slice(&text).at_path(&path)?;
    for what in wait_until_started(Duration::from_secs(job.settle_seconds)) {
        channel.send_or_ignore(&Event::Trouble { what });
    }
    let ended = match make_groups() {
        Ok(groups) => job::run(&job, &groups, channel),
        Err(failure) => job::not_started_event(failure.to_string()),
    };
    channel.send_or_ignore(&ended);
    out_files::send_all(channel)
}

/// Waits until systemd has finished starting; returns a line for each problem of the system.
fn wait_until_started(limit: Duration) -> Vec<String> {
    let state = wait_for_state(limit);
    let mut troubles = failed_units();
    match state.as_deref() {
        Some("running") => {}
        Some("degraded") if !troubles.is_empty() => {}
        Some(state) => troubles.push(format!("systemd says that it is {state}")),
        None => troubles.push(describe_starting_units(limit)),
    }
    troubles
}

/// The state that systemd reports once it has started; `None` if the time limit is reached first.
fn wait_for_state(limit: Duration) -> Option<String> {
    let until = Instant::now() + limit;
    let mut command = Command::new("systemctl");
    command.args(["is-system-running", "--wait"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().ok()?;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(LOOK);
    }
    let output = child.wait_with_output().ok()?.stdout;
    Some(String::from_utf8_lossy(&output).trim().to_owned())
}

fn failed_units() -> Vec<String> {
    let listed = output_or_empty(
        "systemctl",
        &["list-units", "--failed", "--plain", "--no-legend", "--full"],
    );
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.map(describe_failure).collect()
}

fn describe_failure(unit: &str) -> String {
    let result = output_or_empty("systemctl", &["show", "--property=Result", "--value", unit]);
    let output =
        output_or_empty("journalctl", &["--unit", unit, "--lines=1", "--output=cat", "--quiet"]);
    let message = output.trim();
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("{unit} failed ({}){message}", result.trim())
}

fn describe_starting_units(limit: Duration) -> String {
    let listed = output_or_empty("systemctl", &["list-jobs", "--plain", "--no-legend", "--full"]);
    let names: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let names = if names.is_empty() { "nothing it names".to_owned() } else { names.join(", ") };
    format!("systemd is still starting after {} s: {names}", limit.as_secs())
}

fn output_or_empty(program: &str, arguments: &[&str]) -> String {
    let asked = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    asked
        .map_or_else(|_| String::new(), |ended| String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// Makes two cgroups below the unit's own, and moves this process into one of them. The unit's
/// cgroup then holds no process, so that it can enable every controller for its children.
fn make_groups() -> Result<Groups, Failure> {
    let path = "/proc/self/cgroup";
    let text = fs::read_to_string(path).context(path)?;
    let unit = text.lines().find_map(|line| line.strip_prefix("0::"));
    let unit = unit.ok_or(Failure::NoCgroups)?;
    let groups = Groups::below(&format!("/sys/fs/cgroup{unit}"), "runner");
    match groups.make().into_iter().next() {
        Some(trouble) => Err(Failure::Group(trouble)),
        None => Ok(groups),
    }
}
