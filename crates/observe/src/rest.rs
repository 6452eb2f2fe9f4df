// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which files a reading of a part of the live machine leaves out ([`Rest`]): of these, an earlier
//! reading is still valid.
//!
//! A file of a kind that the part includes is gone if it was not read again: those of processes, cgroups and
//! disks that do not exist any more.

use std::collections::BTreeSet;

use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

use crate::known::Known;
use crate::snapshot::{ProcessScope, Scope};

/// The files that a reading leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rest {
    /// No file was left out: a file that was not read does not exist.
    #[default]
    Nothing,
    /// Only files of processes were left out.
    OfProcesses {
        /// The processes that exist.
        processes: BTreeSet<u32>,
    },
    /// Files that were not read were left out, except those of processes, cgroups and disks that do not exist any
    /// more.
    Unread {
        /// The processes that exist, if not all of them were read.
        processes: BTreeSet<u32>,
        /// The disks that exist.
        disks: BTreeSet<String>,
        /// The folders of cgroups that exist and of which not every file was read.
        cgroups: BTreeSet<String>,
    },
}

impl Rest {
    /// What the last reading left out, if it had this scope; with [`Known`], if it was read with that.
    pub fn of(host: &HostRoot, scope: &Scope, known: Option<&Known>) -> Self {
        let processes = match (scope.processes, known) {
            (ProcessScope::Everything, _) => BTreeSet::new(),
            (ProcessScope::Changed | ProcessScope::Awake, Some(known)) => {
                known.processes.pids().collect()
            }
            _ => host.list_numbers("proc", "").into_iter().collect(),
        };
        let rest = match (scope.volatile_only, scope.processes) {
            (false, ProcessScope::Everything) => Self::Nothing,
            (false, _) => Self::OfProcesses { processes },
            (true, _) => Self::Unread {
                processes,
                disks: host.names("sys/block").into_iter().collect(),
                cgroups: known.map(|known| known.groups.kept().clone()).unwrap_or_default(),
            },
        };
        host.close_held_folders();
        rest
    }

    /// Whether the reading left out this file, and an earlier reading of it still holds.
    pub fn has(&self, path: &str) -> bool {
        let (processes, rest) = match self {
            Self::Nothing => return false,
            Self::OfProcesses { processes } => (processes, None),
            Self::Unread { processes, disks, cgroups } => (processes, Some((disks, cgroups))),
        };
        let mut parts = path.split('/');
        let first = [(); 3].map(|()| parts.next().unwrap_or_default());
        if let ["proc", id, _] = first {
            if id.bytes().all(|byte| byte.is_ascii_digit()) {
                return id.parse().is_ok_and(|id| processes.contains(&id));
            }
        }
        let Some((disks, cgroups)) = rest else { return false };
        match first {
            ["sys", "block", disk] => disks.contains(disk),
            ["sys", "fs", "cgroup"] => is_in(cgroups, path),
            // an alias of a mount point: only cgroups are below one
            [first, ..] => !first.starts_with("mount-") || is_in(cgroups, path),
        }
    }
}

/// Whether one of these folders contains the file itself.
fn is_in(folders: &BTreeSet<String>, path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| folders.contains(folder))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use pagewise_model::Snapshot;
    use proptest::prelude::*;

    use super::*;
    use crate::process::Look;
    use crate::snapshot::{snapshot, snapshot_after};
    use crate::testing::host;

    /// Of a cgroup that did nothing, the files that were not read again are kept; not those of a cgroup below it. A
    /// complete reading keeps only those of processes.
    #[test]
    fn what_a_reading_with_known_values_leaves_out_is_kept() {
        let host = host([("proc/7/stat", ""), ("sys/block/zram0/stat", "")]);
        let mut known = Known::default();
        known.groups.note("mount-1/a", 1, true);
        known.groups.note("mount-1/a/b", 1, false);
        let complete =
            Scope { processes: ProcessScope::Changed, ..Scope::everything(Duration::ZERO) };
        let usual = Scope { volatile_only: true, ..complete };
        let [complete, usual] =
            [complete, usual].map(|scope| Rest::of(&host, &scope, Some(&known)));
        let list = (&mut known.processes, &[][..], Look::AtAll);
        crate::process::read(&host, Some(list), Duration::ZERO, 0);
        let later = Rest::of(
            &host,
            &Scope { processes: ProcessScope::Awake, ..Scope::everything(Duration::ZERO) },
            Some(&known),
        );
        for (path, expected) in [
            ("mount-1/a/memory.max", [false, true, false]),
            ("mount-1/a/b/memory.max", [false, false, false]),
            ("mount-1/memory.max", [false, false, false]),
            ("proc/7/status", [false, false, true]),
            ("proc/vmstat", [false, true, false]),
        ] {
            assert_eq!([&complete, &usual, &later].map(|rest| rest.has(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_can_have_ended_is_not_kept() {
        let host = host([("proc/7/stat", ""), ("sys/block/zram0/stat", ""), ("etc/fstab", "")]);
        let everything = Scope::everything(Duration::ZERO);
        assert_eq!(Rest::of(&host, &everything, None), Rest::Nothing);
        let part = Scope { volatile_only: true, ..everything };
        let largest = Scope { processes: ProcessScope::Largest(1), ..part };
        let [usual, quick] = [part, largest].map(|scope| Rest::of(&host, &scope, None));
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

    /// Processes by id: start time, faults and KiB in RAM. Cgroups by name: anonymous memory, usage and limit.
    type Made = (BTreeMap<u32, (u64, u64, u64)>, BTreeMap<char, (u64, u64, u64)>);

    fn made() -> impl Strategy<Value = Made> {
        let process = (0..2u64, 0..2u64, 0..2u64);
        let group = (0..2u64, 1..3u64, 0..2u64);
        (
            prop::collection::btree_map(1..5u32, process, 0..5),
            prop::collection::btree_map(prop::char::range('a', 'd'), group, 0..4),
        )
    }

    fn files_of((processes, groups): &Made) -> Vec<(String, String)> {
        let mut files = vec![
            (
                "proc/self/mountinfo".to_owned(),
                "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n".to_owned(),
            ),
            ("sys/fs/cgroup/cgroup.controllers".to_owned(), "memory\n".to_owned()),
            ("sys/fs/cgroup/memory.stat".to_owned(), "anon 9\n".to_owned()),
        ];
        for (pid, (start, faults, kib)) in processes {
            let stat = format!(
                "{pid} (a) S 1 1 1 0 -1 0 {faults} 0 0 0 0 0 0 0 20 0 1 0 {start} 4096 {kib}\n"
            );
            let status = format!("Name:\ta\nVmSize:\t4 kB\nVmRSS:\t{kib} kB\nRssAnon:\t{kib} kB\n");
            let of_process = [("stat", stat), ("status", status), ("cgroup", "0::/a\n".to_owned())];
            files.extend(of_process.map(|(name, text)| (format!("proc/{pid}/{name}"), text)));
        }
        for (name, (anon, current, max)) in groups {
            let of_group =
                [("stat", format!("anon {anon}\n")), ("current", format!("{current}\n"))];
            let max = ("max", format!("{max}\n"));
            let of_group = of_group.into_iter().chain([max]);
            files.extend(
                of_group.map(|(file, text)| (format!("sys/fs/cgroup/{name}/memory.{file}"), text)),
            );
        }
        files
    }

    proptest! {
        /// What the files that were kept and those that were read say is what the reading said.
        #[test]
        fn the_record_of_a_reading_says_what_the_reading_said(
            times in prop::collection::vec((made(), 0..3u8), 1..10),
        ) {
            let (mut known, mut before) = (Known::default(), Snapshot::default());
            let mut record: pagewise_hostfs::Files = BTreeMap::new();
            for (at, (made, kind)) in times.iter().enumerate() {
                let everything = Scope { settings: false, ..Scope::everything(Duration::ZERO) };
                let scope = match kind {
                    _ if at == 0 => everything,
                    0 => Scope { processes: ProcessScope::Changed, ..everything },
                    _ => Scope {
                        processes: ProcessScope::Awake,
                        changed_cgroups_only: true,
                        volatile_only: true,
                        kernel_log: false,
                        ..everything
                    },
                };
                let files: Vec<_> = files_of(made);
                let live = host(files.iter().map(|(path, text)| (path.as_str(), text.as_str()))).start_remembering();
                let read = snapshot_after(&live, &scope, Some((&mut known, &before)));
                let rest = Rest::of(&live, &scope, Some(&known));
                record.retain(|path, _| rest.has(path));
                record.extend(live.into_remembered_files());
                let again = snapshot(&HostRoot::memory(record.clone()), &everything);
                prop_assert_eq!(format!("{:?}", read.processes.list), format!("{:?}", again.processes.list));
                prop_assert_eq!(format!("{:?}", read.cgroups), format!("{:?}", again.cgroups));
                before = read;
            }
        }
    }
}
