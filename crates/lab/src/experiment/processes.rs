// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the processes of a run. Processes that outlive the command become children of this
//! process, which kills and reaps them.
//!
//! The kernel reparents a process whose parent has ended to the nearest ancestor that is a
//! subreaper. During an experiment that is this process. So nothing that a command starts can
//! escape, even in a new session; and after it is reaped, its CPU time is included in that of this
//! process's children.
//!
//! Children that this process had before the run (the lender may have some) are left alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pagewise_observe::HostRoot;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitpid,
};

/// How long a process may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a process may take to end after SIGKILL: it may be waiting for a disk.
const STUCK: Duration = Duration::from_secs(30);

/// Makes this process the subreaper, until the value is dropped.
#[derive(Debug)]
pub(super) struct Reaper {
    /// Pids of the children that this process had before the run.
    others: BTreeSet<i32>,
}

impl Reaper {
    pub(super) fn new() -> Self {
        let _ = set_child_subreaper(Some(getpid()));
        Self { others: children() }
    }

    /// Pids of the command while it runs, and of orphaned descendants of the command.
    pub(super) fn processes(&self) -> Vec<u32> {
        let ours = children();
        ours.difference(&self.others).filter_map(|pid| u32::try_from(*pid).ok()).collect()
    }

    /// Kills all processes that the command left behind; returns their number. After a time limit,
    /// processes that do not end are left.
    pub(super) fn kill_leftovers(&self) -> u32 {
        let deadline = Instant::now() + STUCK;
        let mut ended: BTreeSet<i32> = BTreeSet::new();
        while Instant::now() < deadline {
            let left: Vec<i32> = children().difference(&self.others).copied().collect();
            if left.is_empty() {
                break;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                if self.kill_and_reap(pid) {
                    ended.insert(pid.as_raw_nonzero().get());
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        u32::try_from(ended.len()).unwrap_or(u32::MAX)
    }

    /// Kills and reaps a process; returns whether it was still running (not already a zombie).
    fn kill_and_reap(&self, pid: Pid) -> bool {
        if matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))) {
            return false;
        }
        kill_process(pid, Signal::KILL).is_ok()
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let _ = set_child_subreaper(None);
    }
}

/// Ends a process group: SIGTERM, and after a time limit SIGKILL.
pub(super) fn end_group(leader: Pid, has_ended: impl Fn(Duration) -> bool) {
    let _ = kill_process_group(leader, Signal::TERM);
    if !has_ended(PATIENCE) {
        let _ = kill_process_group(leader, Signal::KILL);
        let _ = kill_process(leader, Signal::KILL);
    }
}

fn children() -> BTreeSet<i32> {
    let Ok(host) = HostRoot::live() else { return BTreeSet::new() };
    let ours = pagewise_observe::children(&host, std::process::id()).into_iter();
    ours.filter_map(|pid| i32::try_from(pid).ok()).collect()
}
