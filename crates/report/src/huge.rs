// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects and sorts what `thp` shows, for both text and JSON.

use std::cmp::Reverse;

use pagewise_model::{Bytes, Cgroup, Interval, Nanos, Process, Reading, Snapshot};

use crate::HugeSeen;

/// Groups that hold anonymous memory, largest first: the selected group and its descendants, or
/// all.
pub(crate) fn groups<'a>(seen: &HugeSeen<'a>) -> Vec<&'a Cgroup> {
    let holds = |group: &&Cgroup| group.anon.get().is_some_and(|anon| anon > Bytes::new(0));
    let matches = |group: &&Cgroup| match (seen.cgroup, seen.pids) {
        (Some(path), _) => is_below(group.path.as_str(), path),
        (None, pids) => pids.is_none(),
    };
    let all = seen.interval.end.cgroups.groups.iter();
    let mut groups: Vec<&Cgroup> = all.filter(holds).filter(matches).collect();
    groups.sort_by_key(|group| Reverse(group.anon.get()));
    groups
}

/// Number of huge pages allocated for a cgroup since it was created. Only version 2 counts them.
pub(crate) struct MadeHugePages {
    /// Huge pages allocated in a page fault.
    pub(crate) at_fault: Reading<u64>,
    /// Huge pages allocated to collapse small pages into, by khugepaged or on request
    /// (`MADV_COLLAPSE`).
    pub(crate) by_collapse: Reading<u64>,
}

/// Reads both numbers of huge pages from the group's `memory.stat` (Linux:
/// Documentation/admin-guide/cgroup-v2.rst).
pub(crate) fn count_made(group: &Cgroup) -> MadeHugePages {
    MadeHugePages {
        at_fault: group.stat.get("thp_fault_alloc"),
        by_collapse: group.stat.get("thp_collapse_alloc"),
    }
}

fn is_below(path: &str, group: &str) -> bool {
    let (path, group) = (path.trim_matches('/'), group.trim_matches('/'));
    let rest = path.strip_prefix(group);
    group.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Processes with anonymous memory, those with most of it in small pages first.
pub(crate) fn processes<'a>(seen: &HugeSeen<'a>) -> Vec<&'a Process> {
    let matches = |process: &&Process| seen.pids.is_none_or(|pids| pids.contains(&process.pid));
    let all = seen.interval.end.processes.list.iter();
    let mut processes: Vec<&Process> = all.filter(matches).collect();
    processes.sort_by_key(|process| (Reverse(small_page_memory(process)), process.pid));
    processes
}

/// A process's anonymous memory in small pages; all its anonymous memory if the huge part is
/// unknown.
fn small_page_memory(process: &Process) -> Bytes {
    let huge = process.anon_huge.get().unwrap_or_default();
    process.rss_anon.get().unwrap_or_default().saturating_sub(huge)
}

/// Seconds that khugepaged ran and waited for a CPU over the interval; `None` if the thread was
/// replaced.
pub(crate) fn khugepaged(interval: &Interval) -> Option<(f64, f64)> {
    let pid = |snapshot: &Snapshot| snapshot.thp.khugepaged.pid.get();
    if pid(interval.start.as_deref()?)? != pid(&interval.end)? {
        return None;
    }
    let seconds =
        |pick: fn(&Snapshot) -> Reading<Nanos>| Some(interval.change(pick)?.delta as f64 / 1e9);
    let cpu = seconds(|snapshot| snapshot.thp.khugepaged.cpu_time.clone())?;
    Some((cpu, seconds(|snapshot| snapshot.thp.khugepaged.run_queue_wait.clone())?))
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Name, Source};

    use super::*;

    fn snapshot_at(seconds: f64, pid: u32, cpu: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.taken.monotonic_seconds = seconds;
        snapshot.taken.boot_id = Reading::found(Name::from("a"), Source::none());
        let thread = &mut snapshot.thp.khugepaged;
        thread.pid = Reading::found(pid, Source::none());
        thread.cpu_time = Reading::found(Nanos::new(cpu), Source::none());
        thread.run_queue_wait = Reading::found(Nanos::new(2 * cpu), Source::none());
        snapshot
    }

    #[test]
    fn another_thread_has_no_rate() {
        let between =
            |before, after| khugepaged(&Interval { start: Some(Box::new(before)), end: after });
        assert_eq!(
            between(snapshot_at(1.0, 38, 0), snapshot_at(2.0, 38, 500_000_000)),
            Some((0.5, 1.0))
        );
        assert_eq!(between(snapshot_at(1.0, 38, 0), snapshot_at(2.0, 99, 500_000_000)), None);
    }

    #[test]
    fn groups_below_the_one_that_was_asked_for() {
        assert!(is_below("/a/b", "a") && is_below("/a", "/a/") && is_below("/x", "/"));
        assert!(!is_below("/ab", "/a"));
    }
}
