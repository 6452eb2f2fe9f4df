// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the processes of a target in a snapshot of the host.

use pagewise_model::{Name, Process, Snapshot};
use pagewise_observe::{HostRoot, Scope, snapshot};
use std::time::Duration;

use crate::candidate::Candidate;
use crate::{OpenError, Target};

pub(crate) fn find_candidates(
    host: &HostRoot,
    target: &Target,
) -> Result<Vec<Candidate>, OpenError> {
    let by_id = |pid: &u32| Candidate { pid: *pid, name: Name::default(), cgroup: None };
    match target {
        Target::Process(pid) => Ok(vec![by_id(pid)]),
        Target::Processes(pids) => Ok(sort_and_dedup(pids).iter().map(by_id).collect()),
        Target::Cgroup(path) => find_in_cgroup(&read_candidates(host, true), path),
        Target::Host => {
            Ok(read_candidates(host, false).processes.list.iter().map(candidate_of).collect())
        }
        Target::File(_) | Target::Device(_) | Target::Core(_) => Ok(Vec::new()),
    }
}

/// Sorts the ids and removes duplicates, because a process must not count twice.
fn sort_and_dedup(pids: &[u32]) -> Vec<u32> {
    let mut pids = pids.to_vec();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn read_candidates(host: &HostRoot, cgroups: bool) -> Snapshot {
    let smaps_budget = Duration::ZERO;
    let scope =
        Scope { settings: false, kernel_log: false, cgroups, ..Scope::everything(smaps_budget) };
    snapshot(host, &scope)
}

fn candidate_of(process: &Process) -> Candidate {
    let cgroup = process.cgroup.value().cloned();
    Candidate { pid: process.pid, name: process.name.clone(), cgroup }
}

/// Finds the processes of a cgroup and of its descendants.
fn find_in_cgroup(snapshot: &Snapshot, path: &str) -> Result<Vec<Candidate>, OpenError> {
    let group = resolve(snapshot, path).ok_or_else(|| OpenError::NoCgroup(Name::from(path)))?;
    let inside = |process: &&Process| {
        process.cgroup.value().is_some_and(|cgroup| is_below(cgroup.as_str(), &group))
    };
    Ok(snapshot.processes.list.iter().filter(inside).map(candidate_of).collect())
}

/// Finds the cgroup's path as it is in the snapshot. A folder below `/sys/fs/cgroup` is accepted,
/// too; in v1 that path has the controller's name before the cgroup's path.
fn resolve(snapshot: &Snapshot, path: &str) -> Option<String> {
    let path = Name::from(path);
    let below = path.as_str().strip_prefix("/sys/fs/cgroup");
    let controller = below.and_then(|below| below.strip_prefix("/memory"));
    let candidates = [Some(path.as_str()), below, controller];
    let exists = |path: &str| {
        let group = |group: &pagewise_model::Cgroup| trim(group.path.as_str()) == trim(path);
        let process = |process: &Process| {
            process.cgroup.value().is_some_and(|cgroup| is_below(cgroup.as_str(), path))
        };
        // a cgroup without an entry of its own is accepted if a process in the snapshot belongs to
        // it
        snapshot.cgroups.groups.iter().any(group) || snapshot.processes.list.iter().any(process)
    };
    candidates.into_iter().flatten().find(|path| exists(path)).map(str::to_owned)
}

fn trim(path: &str) -> &str {
    path.trim_matches('/')
}

fn is_below(path: &str, group: &str) -> bool {
    let (path, group) = (trim(path), trim(group));
    let rest = path.strip_prefix(group);
    group.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::{Cgroup, Reading, Source};

    fn host() -> Snapshot {
        let mut snapshot = Snapshot::default();
        for path in ["/", "/a", "/a/b", "/ab"] {
            snapshot.cgroups.groups.push(Cgroup { path: Name::from(path), ..Cgroup::default() });
        }
        for (pid, path) in [(1, "/"), (2, "/a"), (3, "/a/b"), (4, "/ab"), (5, "/left/out")] {
            let cgroup = Reading::found(Name::from(path), Source::none());
            snapshot.processes.list.push(Process { pid, cgroup, ..Process::default() });
        }
        snapshot
    }

    fn pids(path: &str) -> Vec<u32> {
        find_in_cgroup(&host(), path).unwrap().iter().map(|candidate| candidate.pid).collect()
    }

    #[test]
    fn a_group_has_its_children_and_no_namesakes() {
        assert_eq!(pids("/a"), [2, 3]);
        assert_eq!(pids("a/"), [2, 3]);
        assert_eq!(pids("/a/b"), [3]);
        assert_eq!(pids("/"), [1, 2, 3, 4, 5]);
        assert_eq!(pids("/left"), [5]);
    }

    #[test]
    fn a_folder_of_either_version_is_a_group() {
        assert_eq!(pids("/sys/fs/cgroup/a"), [2, 3]);
        assert_eq!(pids("/sys/fs/cgroup/memory/a/b"), [3]);
    }

    #[test]
    fn a_group_that_does_not_exist_is_named() {
        let error = find_in_cgroup(&host(), "/c").unwrap_err();
        assert_eq!(error.to_string(), "no memory cgroup /c on this host");
    }

    #[test]
    fn nobody_is_counted_twice() {
        assert_eq!(sort_and_dedup(&[7, 3, 7]), [3, 7]);
    }
}
