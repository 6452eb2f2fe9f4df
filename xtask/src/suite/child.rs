// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a command within a deadline, and keeps its exit status and everything it printed.
//!
//! Each command is a process group of its own, so that a deadline or a Ctrl-C ends all its
//! processes: by SIGINT first, because tests and guests then undo their changes, and by SIGKILL
//! after ten seconds. The output goes to a file below `target/jobs`, because several commands run
//! at the same time.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::run;

/// Maximum duration of one command.
pub(super) const DEADLINE: Duration = Duration::from_secs(45 * 60);
const PATIENCE: Duration = Duration::from_secs(10);

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether the user asked to stop all commands.
pub(super) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// From now on, SIGINT and SIGTERM end the running commands, and no new ones are started.
pub(super) fn listen_to_signals() -> Result<()> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.set(()).is_err() {
        return Ok(());
    }
    let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            STOPPED.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}

/// How a command ended, and where its output is.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) log: PathBuf,
    /// Why this program ended the command; `None` if the command ended by itself.
    pub(super) cut: Option<&'static str>,
}

impl Ended {
    pub(super) fn has_succeeded(&self) -> bool {
        self.status.success() && self.cut.is_none()
    }

    /// Describes in words how the command ended.
    pub(super) fn describe_end(&self) -> String {
        self.cut.map_or_else(|| self.status.to_string(), str::to_owned)
    }

    /// Everything the command printed to standard output and standard error.
    pub(super) fn output(&self) -> Result<String> {
        let bytes = fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Path of the file for the output of the job with this name.
pub(super) fn log_of(name: &str) -> PathBuf {
    run::project().join("target/jobs").join(format!("{}.log", name.replace(['/', ' '], "-")))
}

/// Runs a command to completion; its output is in `target/jobs/NAME.log`.
pub(super) fn run_logged(command: &mut Command, name: &str, deadline: Duration) -> Result<Ended> {
    let log = log_of(name);
    let folder = log.parent().unwrap_or(&log);
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("{name}: {command:?}"))?;
    let group = Pid::from_raw(i32::try_from(child.id()).context("a process number")?);
    let mut cut = None;
    let mut asked = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let why = match (is_stopped(), started.elapsed() > deadline) {
            (true, _) => Some("stopped by the user"),
            (_, true) => Some("took longer than it may"),
            _ => None,
        };
        match (why, asked) {
            (Some(why), None) => {
                cut = Some(why);
                asked = Some(Instant::now());
                let _ = killpg(group, Signal::SIGINT);
            }
            (_, Some(asked)) if asked.elapsed() > PATIENCE => {
                let _ = killpg(group, Signal::SIGKILL);
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if cut.is_some() {
        end_rest(group);
    }
    Ok(Ended { status, log, cut })
}

/// Ends the processes that the command left in its process group, such as background processes of a
/// shell, which ignore SIGINT.
fn end_rest(group: Pid) {
    let until = Instant::now() + PATIENCE;
    let _ = killpg(group, Signal::SIGTERM);
    while Instant::now() < until && killpg(group, None).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = killpg(group, Signal::SIGKILL);
}

#[cfg(test)]
mod check {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = run::program("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_status_are_kept() {
        let ended = run_logged(&mut shell("echo a; echo b >&2; exit 3"), "check/a b", DEADLINE);
        let ended = ended.unwrap();
        assert_eq!((ended.status.code(), ended.cut), (Some(3), None));
        assert_eq!(ended.output().unwrap(), "a\nb\n");
        assert!(!ended.has_succeeded() && ended.log.ends_with("check-a-b.log"));
    }

    #[test]
    fn all_of_the_group_ends_at_the_deadline() {
        let script = "sleep 100 & echo $!; wait";
        let ended = run_logged(&mut shell(script), "check deadline", Duration::from_millis(300));
        let ended = ended.unwrap();
        assert_eq!(ended.cut, Some("took longer than it may"));
        let sleeper: i32 = ended.output().unwrap().trim().parse().unwrap();
        let gone = |_| {
            std::thread::sleep(Duration::from_millis(20));
            let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z")
        };
        assert!((0..500).any(gone), "the background process {sleeper} still runs");
    }
}
