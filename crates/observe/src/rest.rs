// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which files a reading of a part of the live machine leaves out ([`Rest`]): of these, an earlier
//! reading is still valid.
//!
//! A file of a kind that the part includes is gone if it was not read again: those of cgroups always,
//! and those of processes and disks that do not exist any more.

use std::collections::BTreeSet;

use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

use crate::snapshot::{ProcessScope, Scope};

/// The files that a reading leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rest {
    /// No file was left out: a file that was not read does not exist.
    #[default]
    Nothing,
    /// Files that were not read were left out, except those of cgroups, and of processes and disks that do not
    /// exist any more.
    Unread {
        /// The processes that exist, if not all of them were read.
        processes: BTreeSet<u32>,
        /// The disks that exist.
        disks: BTreeSet<String>,
    },
}

impl Rest {
    /// What a reading with this scope will leave out. It is determined before the reading: a process
    /// that starts in between is read, or is missing until the next reading.
    pub fn of(host: &HostRoot, scope: &Scope) -> Self {
        if !scope.volatile_only {
            return Self::Nothing;
        }
        let processes = match scope.processes {
            ProcessScope::Everything => BTreeSet::new(),
            ProcessScope::Nothing | ProcessScope::Largest(_) | ProcessScope::Changed => {
                host.list_numbers("proc", "").into_iter().collect()
            }
        };
        let disks = host.names("sys/block").into_iter().collect();
        host.close_held_folders();
        Self::Unread { processes, disks }
    }

    /// Whether the reading left out this file, and an earlier reading of it still holds.
    pub fn has(&self, path: &str) -> bool {
        let Self::Unread { processes, disks } = self else { return false };
        let mut parts = path.split('/');
        match [(); 3].map(|()| parts.next().unwrap_or_default()) {
            ["proc", id, _] if id.bytes().all(|byte| byte.is_ascii_digit()) => {
                id.parse().is_ok_and(|id| processes.contains(&id))
            }
            ["sys", "fs", "cgroup"] => false,
            ["sys", "block", disk] => disks.contains(disk),
            // an alias of a mount point: only cgroups are below one
            [first, ..] => !first.starts_with("mount-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::host;

    #[test]
    fn what_can_have_ended_is_not_kept() {
        let host = host([("proc/7/stat", ""), ("sys/block/zram0/stat", ""), ("etc/fstab", "")]);
        let everything = Scope::everything(Duration::ZERO);
        assert_eq!(Rest::of(&host, &everything), Rest::Nothing);
        let part = Scope { volatile_only: true, ..everything };
        let largest = Scope { processes: ProcessScope::Largest(1), ..part };
        let [usual, quick] = [part, largest].map(|scope| Rest::of(&host, &scope));
        for (path, expected) in [
            ("proc/7/stat", [false, true]),
            ("proc/8/stat", [false, false]),
            ("proc/sys/vm/swappiness", [true, true]),
            ("proc/vmstat", [true, true]),
            ("sys/fs/cgroup/memory/a/memory.stat", [false, false]),
            ("mount-1/a/memory.stat", [false, false]),
            ("sys/block/zram0/disksize", [true, true]),
            ("sys/block/zram1/disksize", [false, false]),
            ("sys/kernel/mm/ksm/run", [true, true]),
            ("etc/sysctl.d/a.conf", [true, true]),
            ("dev/kmsg", [true, true]),
        ] {
            assert_eq!([&usual, &quick].map(|rest| rest.has(path)), expected, "{path}");
            assert!(!Rest::Nothing.has(path));
        }
    }
}
