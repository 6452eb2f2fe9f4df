// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches the processes and cgroups of the first host with those of the second.
//!
//! A recording replaces names that are not widely used by numbers (`proc-15`, `cg-3.service`),
//! which are assigned in an order of its own. The same number in two recordings may mean two
//! different programs. Such names are therefore matched only if a process is the same in both:
//! equal id and start time.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::{Interval, Name, Process, Relation, Snapshot};

use crate::relation::is_hashed;

/// How the names of the two hosts relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Equal names mean the same thing, because both readings are from one recording or neither is
    /// from a recording.
    One,
    /// The readings are from two different recordings: only names that are not numbered can be
    /// compared.
    Numbered,
    /// One reading is from a recording and the other is not: a name in one may be a number in the
    /// other.
    Mixed,
}

impl Naming {
    pub(crate) fn new(before: &Snapshot, after: &Snapshot) -> Self {
        let (one, other) = (before.taken.boot_id.value(), after.taken.boot_id.value());
        let hashed = [one, other].map(|id| id.is_some_and(is_hashed));
        match hashed {
            [true, true] if one != other => Self::Numbered,
            [true, false] | [false, true] => Self::Mixed,
            _ => Self::One,
        }
    }
}

/// The result of matching both hosts.
#[derive(Debug)]
pub(crate) struct Matching {
    naming: Naming,
    /// Ids of the processes that are the same in both readings.
    pub(crate) processes: BTreeSet<u32>,
    /// Paths of cgroups that may have different names in the two readings: the path in the second
    /// reading by the path in the first one.
    groups: BTreeMap<Name, Name>,
}

impl Matching {
    pub(crate) fn new(interval: &Interval, relation: Relation, naming: Naming) -> Self {
        let mut matching = Self { naming, processes: BTreeSet::new(), groups: BTreeMap::new() };
        if let (Relation::SameBoot, Some(start)) = (relation, interval.start.as_deref()) {
            matching.match_processes(start, &interval.end);
        }
        matching
    }

    fn match_processes(&mut self, before: &Snapshot, after: &Snapshot) {
        let by_pid: BTreeMap<u32, &Process> =
            before.processes.list.iter().map(|it| (it.pid, it)).collect();
        for now in &after.processes.list {
            let Some(then) = by_pid.get(&now.pid).filter(|then| is_same(then, now)) else {
                continue;
            };
            self.processes.insert(now.pid);
            if let (Some(one), Some(other)) = (then.cgroup.value(), now.cgroup.value()) {
                self.match_groups(one.as_str(), other.as_str());
            }
        }
    }

    /// Matches two paths of cgroups, and all their ancestors. If a process moved from one cgroup to
    /// another, the paths belong to different cgroups; therefore the paths must be alike, and an
    /// earlier match is kept.
    fn match_groups(&mut self, before: &str, after: &str) {
        if self.naming == Naming::One || !are_alike(before, after) {
            return;
        }
        let parts = |path: &str| -> Vec<String> {
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
            ends.map(|end| path[..end].to_owned()).collect()
        };
        for (one, other) in parts(before).into_iter().zip(parts(after)) {
            self.groups.entry(one.as_str().into()).or_insert_with(|| other.as_str().into());
        }
    }

    /// Returns the path in the second reading of a cgroup of the first reading, if the cgroup still
    /// exists; `None` if this cannot be determined.
    pub(crate) fn path_after(&self, path: &Name, is_there: impl Fn(&Name) -> bool) -> Option<Name> {
        let known = self.groups.get(path).cloned();
        match self.naming {
            Naming::One => Some(path.clone()),
            _ if known.is_some() => known,
            Naming::Numbered => Some(path.clone()).filter(|path| !is_numbered_path(path.as_str())),
            Naming::Mixed => Some(path.clone()).filter(is_there),
        }
    }

    /// Whether a cgroup that exists only in the second reading is certainly new.
    pub(crate) fn is_new_group(&self, path: &Name) -> bool {
        match self.naming {
            Naming::One => true,
            Naming::Numbered => !is_numbered_path(path.as_str()),
            Naming::Mixed => false,
        }
    }

    /// Whether the name of a program identifies the same program in both readings.
    pub(crate) fn is_unambiguous(&self, name: &Name) -> bool {
        self.naming == Naming::One || !is_numbered(name.as_str(), "proc-")
    }
}

/// Whether two processes with equal ids are the same process: they have the same start time or, if
/// no start time was recorded, the same name.
fn is_same(before: &Process, after: &Process) -> bool {
    match (before.start_time.get(), after.start_time.get()) {
        (Some(one), Some(other)) => one == other,
        _ => before.name == after.name,
    }
}

fn is_numbered_path(path: &str) -> bool {
    path.split('/').any(is_numbered_group)
}

/// Whether a component of a cgroup's path is a number that a recording assigned: `cg-3`,
/// `cg-3.service`, `docker-cg-3.scope`.
fn is_numbered_group(part: &str) -> bool {
    part.split_once("cg-").is_some_and(|(before, rest)| {
        let end = rest.find('.').unwrap_or(rest.len());
        (before.is_empty() || before.ends_with('-')) && is_digits(&rest[..end])
    })
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(is_digits)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether two paths may belong to the same cgroup: each component has the same name in both, or is
/// a number in one of them.
fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (one.split('/'), other.split('/'));
    one.clone().count() == other.clone().count()
        && one.zip(other).all(|(a, b)| a == b || is_numbered_group(a) || is_numbered_group(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_are_those_that_a_recording_gives() {
        for part in ["cg-1", "cg-12.service", "docker-cg-3.scope"] {
            assert!(is_numbered_group(part), "{part}");
        }
        for part in ["system.slice", "cg-x", "xcg-1", "cg-", "cg-1x.service", "nginx.service"] {
            assert!(!is_numbered_group(part), "{part}");
        }
        assert!(is_numbered("proc-7", "proc-") && !is_numbered("proc-seven", "proc-"));
        assert!(are_alike("/system.slice/cg-12.service", "/system.slice/bank.service"));
        assert!(!are_alike("/system.slice/cg-1", "/user.slice/cg-1"));
        assert!(!are_alike("/system.slice/cg-1", "/system.slice"));
    }
}
