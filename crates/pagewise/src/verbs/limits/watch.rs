// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clears the accessed bits of a cgroup's processes, waits, and reads which memory was used
//! meanwhile.
//!
//! Clearing and reading both take the process's mmap lock, whose holder may be waiting for a disk
//! that does not respond. So a helper thread makes the calls. If a call does not return in time,
//! its thread is abandoned, and a new thread continues with the next process. The number of
//! processes and the time for all calls are limited.

use std::io;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use pagewise_apply::clear_accessed;
use pagewise_facts::groups;
use pagewise_model::{Bytes, Millis, Name, Process, Refusal, WatchCost, WatchedMemory};
use pagewise_observe::{CgroupCounters, HostRoot, ProcessScope, Scope, memory_cgroups, snapshot};
use pagewise_procmem::smaps::read_unreferenced;

/// Maximum number of processes of a cgroup whose accessed bits are watched; the largest are chosen.
const MOST: usize = 1000;
/// Time limit for clearing the accessed bits of all processes, and again for reading them.
const BUDGET: Duration = Duration::from_secs(10);
/// Time after which a call about one process counts as stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of helper threads, and so of threads that are abandoned because their call is
/// stuck.
const MAX_STUCK: usize = 8;
/// Time between two readings of the cgroup's anonymous memory.
const SAMPLE: Duration = Duration::from_secs(1);

/// Watches the processes of the cgroup for this time, with `wait` for waiting. Ctrl-C simply ends the
/// program, because nothing needs to be undone: every access sets the accessed bit again.
pub(in crate::verbs) fn watch(
    group: &Name,
    time: Duration,
    wait: &dyn Fn(Duration) -> anyhow::Result<()>,
) -> anyhow::Result<WatchedMemory> {
    let host = HostRoot::live()?;
    let before = read_processes(&host, group);
    if before.is_empty() {
        let what = format!("{group} has no processes that could be watched");
        return Err(Refusal::with_advice(
            what,
            "choose a cgroup with processes, or leave --for out",
        )
        .into());
    }
    let pids: Vec<u32> = before.iter().take(MOST).map(|process| process.pid).collect();
    let began = Instant::now();
    let cleared = call_for_each(&pids, clear_accessed);
    let mut calls = began.elapsed();
    refuse_if_all_failed(&cleared)?;
    let kept: Vec<u32> = cleared.iter().filter(|(_, it)| it.is_ok()).map(|(pid, _)| *pid).collect();
    let anon_peak = wait_and_find_peak(&host, group, time, wait)?;
    let seconds = began.elapsed().as_secs_f64();
    let same = keep_same_processes(&before, &read_processes(&host, group), &kept);
    let reading = Instant::now();
    let read = call_for_each(&same, read_unreferenced);
    calls += reading.elapsed();
    let processes: Vec<_> = read.into_iter().filter_map(|(_, read)| read.ok()).collect();
    let cost = WatchCost {
        processes: processes.len() as u64,
        not_read: (before.len() - processes.len()) as u64,
        seconds,
        own_seconds: calls.as_secs_f64(),
        looked_at: processes.iter().map(|process| process.looked_at).sum(),
    };
    Ok(WatchedMemory { cost, processes, anon_peak })
}

/// The processes of the cgroup and its descendants, the largest first.
fn read_processes(host: &HostRoot, group: &Name) -> Vec<Process> {
    let scope = Scope { processes: ProcessScope::Everything, ..Scope::glance() };
    let mut inside = snapshot(host, &scope).processes.list;
    inside.retain(|process| groups::contains_process(group, process));
    inside.sort_by_key(|process| std::cmp::Reverse(process.resident()));
    inside
}

/// Leaves out processes that have ended, also if their PID was reused meanwhile.
fn keep_same_processes(before: &[Process], after: &[Process], pids: &[u32]) -> Vec<u32> {
    let began = |all: &[Process], pid: u32| -> Option<Millis> {
        all.iter().find(|process| process.pid == pid)?.start_time.get()
    };
    let is_same = |pid: &&u32| {
        let first = began(before, **pid);
        first.is_some() && first == began(after, **pid)
    };
    pids.iter().filter(is_same).copied().collect()
}

fn refuse_if_all_failed(cleared: &[(u32, io::Result<()>)]) -> anyhow::Result<()> {
    if cleared.iter().any(|(_, cleared)| cleared.is_ok()) {
        return Ok(());
    }
    let error = cleared.iter().find_map(|(pid, it)| Some((pid, it.as_ref().err()?)));
    let what = match error {
        Some((pid, error)) => format!("--for: /proc/{pid}/clear_refs: {error}"),
        None => "--for: no process could be watched".to_owned(),
    };
    Err(Refusal::with_advice(what, "run as root, or leave --for out").into())
}

/// Waits, and returns the peak of the cgroup's anonymous memory meanwhile.
fn wait_and_find_peak(
    host: &HostRoot,
    group: &Name,
    time: Duration,
    wait: &dyn Fn(Duration) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Bytes>> {
    let counters = read_counters(host, group);
    let until = Instant::now() + time;
    let mut peak = None;
    loop {
        peak = peak.max(counters.as_ref().and_then(|counters| anonymous_memory(host, counters)));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(peak);
        }
        wait(left.min(SAMPLE))?;
    }
}

fn read_counters(host: &HostRoot, group: &Name) -> Option<CgroupCounters> {
    let (mount, unified) = memory_cgroups(host)?;
    let folder = format!("{mount}{}", group.as_str());
    Some(CgroupCounters::new(Path::new(&folder), unified))
}

/// Anonymous memory of the cgroup with its descendants: in cgroup v2 `anon` includes them, in v1
/// `total_rss`.
fn anonymous_memory(host: &HostRoot, counters: &CgroupCounters) -> Option<Bytes> {
    let stat = counters.stat(host);
    let total = stat.get("total_rss").get();
    total.or_else(|| stat.get("anon").get()).map(Bytes::new)
}

/// Calls `call` for each process in a helper thread. The result lacks processes whose call is
/// stuck, and those not reached within [`BUDGET`].
fn call_for_each<T: Send + 'static>(
    pids: &[u32],
    call: fn(u32) -> io::Result<T>,
) -> Vec<(u32, io::Result<T>)> {
    let mut done = Vec::with_capacity(pids.len());
    let until = Instant::now() + BUDGET;
    let mut rest = pids.to_vec();
    for _ in 0..MAX_STUCK {
        let (tell, told) = sync_channel(0);
        let work = rest.clone();
        let helper = move || {
            // sending fails if the receiver has abandoned this thread
            work.into_iter().all(|pid| tell.send((pid, call(pid))).is_ok());
        };
        if std::thread::Builder::new().spawn(helper).is_err() {
            return done;
        }
        let mut answered = 0;
        while let Ok(answer) = told.recv_timeout(PATIENCE) {
            answered += 1;
            done.push(answer);
            if Instant::now() >= until {
                return done;
            }
        }
        if answered >= rest.len() {
            return done;
        }
        // the call for this process is stuck: a new thread continues with the next process
        rest.drain(..=answered);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::{Reading, Source};

    #[test]
    fn what_is_refused_is_answered_and_the_rest_goes_on() {
        let call = |pid: u32| if pid == 2 { Err(io::Error::other("no")) } else { Ok(pid * 10) };
        let done = call_for_each(&[1, 2, 3], call);
        let shown: Vec<(u32, Option<u32>)> =
            done.into_iter().map(|(pid, it)| (pid, it.ok())).collect();
        assert_eq!(shown, [(1, Some(10)), (2, None), (3, Some(30))]);
        assert!(call_for_each(&[], call).is_empty());
    }

    /// A process whose mmap lock is held delays the reading of the others only by [`PATIENCE`].
    #[test]
    fn a_stuck_process_is_passed_over() {
        let call = |pid: u32| {
            if pid == 2 {
                std::thread::sleep(PATIENCE * 3);
            }
            Ok(pid)
        };
        let done: Vec<u32> =
            call_for_each(&[1, 2, 3], call).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(done, [1, 3]);
    }

    #[test]
    fn an_id_that_was_given_out_again_is_not_read() {
        let process = |pid, start| Process {
            pid,
            start_time: Reading::found(Millis::new(start), Source::none()),
            ..Process::default()
        };
        let (before, after) = ([process(1, 5), process(2, 6)], [process(1, 5), process(2, 900)]);
        assert_eq!(keep_same_processes(&before, &after, &[1, 2, 3]), [1]);
    }
}
