// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process or the cgroup that a finding is about: [`Actor`].
//!
//! The actor is derived from the paths of the values that prove the finding: `/proc/PID/status`
//! names a process, `/sys/fs/cgroup/GROUP/memory.max` a cgroup. If no path names either, the
//! finding is about the machine as a whole; then the actor is the cgroup that the verdict reports
//! as short of memory, if any.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Finding, HostVerdict};
use crate::{Bytes, Cgroup, Name, Process, Snapshot, unit_of};

/// A process or a cgroup, with the memory that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Actor {
    /// The name of the process, or the path of the cgroup.
    pub name: Name,
    /// The process's id; `null` for a cgroup.
    pub pid: Option<u32>,
    /// The unit or the container that the process or the cgroup belongs to.
    pub unit: Option<String>,
    /// Memory in RAM: the proportional size of a process if it was read, otherwise its resident
    /// size.
    pub ram: Option<Bytes>,
    /// Memory in swap.
    pub swap: Option<Bytes>,
}

impl Actor {
    /// Creates the actor for a process, with the process's memory.
    pub fn from_process(process: &Process) -> Self {
        Self {
            name: process.name.clone(),
            pid: Some(process.pid),
            unit: process.cgroup.value().and_then(unit_of),
            ram: process.proportional.get().or_else(|| process.resident()),
            swap: process.swap.get(),
        }
    }

    /// Creates the actor for a cgroup, with the cgroup's memory.
    pub fn from_group(group: &Cgroup) -> Self {
        Self {
            name: group.path.clone(),
            pid: None,
            unit: unit_of(&group.path),
            ram: group.current.get(),
            swap: group.swap_current.get(),
        }
    }

    /// Finds the process or cgroup that the first of these findings is about. `None` if the finding
    /// is about the machine as a whole, or if the snapshot has neither processes nor cgroups.
    pub fn find_first(
        findings: &[Finding],
        verdict: &HostVerdict,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let first = findings.first()?;
        let proven = || first.evidence.iter().find_map(|it| Self::find_by_file(&it.path, snapshot));
        let short = || {
            let group = verdict.groups.first().filter(|group| group.level == verdict.level)?;
            snapshot.cgroups.group(group.group.as_str()).map(Self::from_group)
        };
        proven().or_else(|| Self::find_in_text(&first.title, snapshot)).or_else(short)
    }

    /// Finds the cgroup whose path occurs as a word in `text`.
    fn find_in_text(text: &str, snapshot: &Snapshot) -> Option<Self> {
        let words = text.split(' ').map(|word| word.trim_end_matches([',', ':', ';', ')']));
        let paths = words.filter(|word| word.starts_with('/') && word.len() > 1);
        paths.filter_map(|path| snapshot.cgroups.group(path)).map(Self::from_group).next()
    }

    /// Finds the process or the cgroup to which the file at `path` belongs.
    fn find_by_file(path: &str, snapshot: &Snapshot) -> Option<Self> {
        if let Some(rest) = path.strip_prefix("/proc/") {
            let pid: u32 = rest.split_once('/')?.0.parse().ok()?;
            return snapshot.processes.list.iter().find(|it| it.pid == pid).map(Self::from_process);
        }
        let (folder, file) = path.strip_prefix("/sys/fs/cgroup")?.rsplit_once('/')?;
        // cgroup version 1 has a tree for each controller
        let of_memory =
            folder.strip_prefix("/memory").and_then(|path| snapshot.cgroups.group(path));
        let group = of_memory.or_else(|| snapshot.cgroups.group(folder));
        let is_file = ["memory.", "cgroup.", "pids."].iter().any(|start| file.starts_with(start));
        group.filter(|_| is_file).map(Self::from_group)
    }
}
