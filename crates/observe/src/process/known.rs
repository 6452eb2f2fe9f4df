// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the `stat` of each process, so that a process that did nothing since the snapshot before
//! costs one file instead of three.
//!
//! Whatever a process does with its memory changes its `stat`: CPU time, faults, the size of its
//! address space, or how much of it is in RAM. Reclaim changes the last of these. If `stat` is the
//! same byte for byte, the process's `status` and `cgroup` are not read again. What others can
//! change without a change of `stat` is missed until everything is read again: that a process was
//! moved to another cgroup.

use std::collections::BTreeMap;

use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{Bytes, Process};

use super::stat;
use super::status::{self, Task};

/// The `stat` of each process when the processes of an earlier snapshot were read, by process id.
#[derive(Debug, Default)]
pub(crate) struct KnownProcesses {
    by_pid: BTreeMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    /// The text of `stat`. It was read before the other files: if the process did something in
    /// between, the next text differs.
    stat: Box<[u8]>,
    kind: Kind,
    /// Number of readings in a row that found the same text.
    unchanged: u8,
}

/// A process whose `stat` was the same at so many readings in a row is asleep.
const ASLEEP: u8 = 2;

/// Of which processes `stat` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    AtAll,
    /// Not of those that were asleep at the reading before.
    AtAwake,
}

/// What a [`Task`] was; the values of a process are in the earlier snapshot.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A process, with its resident size if known.
    Process(Option<Bytes>),
    KernelThread,
    Ended,
}

impl Kind {
    fn of(task: &Task) -> Self {
        match task {
            Task::Process(_, resident) => Self::Process(*resident),
            Task::KernelThread => Self::KernelThread,
            Task::Ended => Self::Ended,
        }
    }

    /// The task of this id as it was in the earlier snapshot, whose processes are in the order of
    /// their ids; `None` if it is not there.
    fn find(self, pid: u32, before: &[Process]) -> Option<Task> {
        Some(match self {
            Self::KernelThread => Task::KernelThread,
            Self::Ended => Task::Ended,
            Self::Process(resident) => {
                let at = before.binary_search_by_key(&pid, |process| process.pid).ok()?;
                Task::Process(Box::new(before.get(at)?.clone()), resident)
            }
        })
    }
}

impl KnownProcesses {
    /// Forgets all processes, so that the next reading reads each of them.
    pub(crate) fn forget_all(&mut self) {
        self.by_pid.clear();
    }

    /// The ids of all processes.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.by_pid.keys().copied()
    }

    /// Forgets all processes but these; `pids` is in ascending order.
    pub(super) fn keep_only(&mut self, pids: &[u32]) {
        self.by_pid.retain(|pid, _| pids.binary_search(pid).is_ok());
    }

    /// Reads one process, unless its `stat` is as it was when the processes `before` were read.
    pub(super) fn read(
        &mut self,
        host: &HostRoot,
        pid: u32,
        before: &[Process],
        look: Look,
    ) -> Task {
        let known = self.by_pid.get_mut(&pid);
        let asleep = known.filter(|known| look == Look::AtAwake && known.unchanged >= ASLEEP);
        if let Some(task) = asleep.and_then(|known| known.kind.find(pid, before)) {
            return task;
        }
        let stat = host.bytes(&stat::path(pid));
        let known = self
            .by_pid
            .get_mut(&pid)
            .filter(|known| stat.as_ref().is_ok_and(|stat| **stat == *known.stat));
        if let Some(known) = known {
            known.unchanged = known.unchanged.saturating_add(1);
            if let Some(task) = known.kind.find(pid, before) {
                return task;
            }
        }
        let mut task = status::read(host, pid);
        if let Task::Process(process, _) = &mut task {
            stat::fill_times(host, process, stat.as_deref());
        }
        match stat {
            Ok(stat) => {
                let stat = stat.into_boxed_slice();
                let known = Known { stat, kind: Kind::of(&task), unchanged: 0 };
                self.by_pid.insert(pid, known)
            }
            Err(_) => self.by_pid.remove(&pid),
        };
        task
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pagewise_model::Processes;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::host;

    /// What a process of a made-up machine has: a start time, faults so far, and KiB in RAM.
    type Made = (u64, u64, u64);

    fn files(made: &BTreeMap<u32, Made>) -> HostRoot {
        let files = made.iter().flat_map(|(pid, (start, faults, kib))| {
            let stat = format!(
                "{pid} (a) S 1 1 1 0 -1 0 {faults} 0 0 0 0 0 0 0 20 0 1 0 {start} 4096 {kib}\n"
            );
            let status = format!("Name:\ta\nVmSize:\t4 kB\nVmRSS:\t{kib} kB\nRssAnon:\t{kib} kB\n");
            [("stat", stat), ("status", status), ("cgroup", "0::/a\n".to_owned())]
                .map(|(name, text)| (format!("proc/{pid}/{name}"), text))
        });
        let files: Vec<_> = files.collect();
        host(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
    }

    fn read_after(host: &HostRoot, known: &mut KnownProcesses, before: &Processes) -> Processes {
        read_looking(host, known, before, Look::AtAll)
    }

    fn read_looking(
        host: &HostRoot,
        known: &mut KnownProcesses,
        before: &Processes,
        look: Look,
    ) -> Processes {
        super::super::read(host, Some((known, &before.list, look)), Duration::ZERO, 0)
    }

    /// A process that was asleep at two readings is not read, until a reading reads all; what
    /// began or ended is noticed at once.
    #[test]
    fn a_process_that_sleeps_is_read_less_often() {
        let mut known = KnownProcesses::default();
        let mut made: BTreeMap<u32, Made> = (1..=3).map(|pid| (pid, (5, 0, 40))).collect();
        let mut before = Processes::default();
        let mut sizes = |before: &mut Processes, made: &BTreeMap<u32, Made>, look| {
            *before = read_looking(&files(made), &mut known, before, look);
            let of = |it: &Process| (it.pid, it.rss_anon.get().map(|size| size.get() >> 10));
            before.list.iter().map(of).collect::<Vec<_>>()
        };
        for _ in 0..=ASLEEP {
            sizes(&mut before, &made, Look::AtAwake);
        }
        made.insert(1, (5, 7, 44));
        made.remove(&2);
        made.insert(4, (9, 1, 4));
        let expected = |first, last| [(1, Some(first)), (3, Some(40)), (4, Some(last))];
        assert_eq!(sizes(&mut before, &made, Look::AtAwake), expected(40, 4));
        made.insert(4, (9, 2, 8));
        assert_eq!(sizes(&mut before, &made, Look::AtAwake), expected(40, 8));
        assert_eq!(sizes(&mut before, &made, Look::AtAll), expected(44, 8));
        made.insert(1, (5, 8, 48));
        assert_eq!(sizes(&mut before, &made, Look::AtAwake), expected(48, 8));
    }

    /// Of nine processes, `status` and `cgroup` of the one that grew are read again, and `stat` of
    /// all.
    #[test]
    fn only_a_process_whose_stat_has_changed_is_read_again() {
        let mut known = KnownProcesses::default();
        let mut made: BTreeMap<u32, Made> = (1..=9).map(|pid| (pid, (5, 0, 40))).collect();
        let first = files(&made);
        let before = read_after(&first, &mut known, &Processes::default());
        made.insert(3, (5, 1, 44));
        let second = files(&made);
        read_after(&second, &mut known, &before);
        let length = |name: &str| {
            let text = files(&made).bytes(&format!("proc/3/{name}")).unwrap();
            text.len() as u64
        };
        let [stat, rest] = [length("stat"), length("status") + length("cgroup")];
        assert_eq!(first.take_bytes_read(), 9 * (stat + rest));
        assert_eq!(second.take_bytes_read(), 9 * stat + rest);
    }

    fn made() -> impl Strategy<Value = BTreeMap<u32, Made>> {
        prop::collection::btree_map(1..6u32, (0..3u64, 0..2u64, 0..3u64), 0..6)
    }

    proptest! {
        /// Processes start, end, have the id of an ended one, grow and shrink: what is read with
        /// earlier values is what is read without.
        #[test]
        fn earlier_values_are_only_used_where_they_hold(
            times in prop::collection::vec(made(), 1..8),
            forgets in prop::collection::vec(any::<bool>(), 8),
        ) {
            let (mut known, mut before) = (KnownProcesses::default(), Processes::default());
            for (made, forgets) in times.iter().zip(forgets) {
                if forgets {
                    known.forget_all();
                }
                let read = read_after(&files(made), &mut known, &before);
                let afresh = super::super::read(&files(made), None, Duration::ZERO, 0);
                prop_assert_eq!(format!("{read:?}"), format!("{afresh:?}"));
                before = read;
                prop_assert_eq!(known.by_pid.len(), made.len());
            }
        }
    }
}
