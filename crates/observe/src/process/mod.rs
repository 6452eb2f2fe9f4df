// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads every `/proc/PID` into [`Processes`].
//!
//! Two small files per process, `status` and `cgroup`, then `smaps_rollup` of as many as a time
//! budget allows ([`smaps`]). Processes come and go while they are read: what was listed and could
//! not be found any more is counted, as are kernel threads, which have no memory of their own.
//!
//! We read ourselves like any other process. Command lines and environments are never read.

mod helper;
mod smaps;
mod status;

use std::time::Duration;

use pagewise_model::{Bytes, Millis, Process, Processes, SmapsOutcome, SmapsTally};

use crate::root::HostRoot;
use status::Task;

pub(crate) fn read(host: &HostRoot, budget: Duration) -> Processes {
    let mut processes = Processes::default();
    let mut sizes = Vec::new();
    let skipped = if host.is_live() { helper::left_behind() } else { Vec::new() };
    for pid in host.numbered("proc", "").into_iter().filter(|pid| !skipped.contains(pid)) {
        match status::read(host, pid) {
            Task::Process(process, resident) => {
                sizes.push(resident.map(|size| size.saturating_add(in_swap(&process))));
                processes.list.push(*process);
            }
            Task::KernelThread => processes.kernel_threads += 1,
            Task::Ended => processes.vanished += 1,
        }
    }
    let candidates = processes.list.iter_mut().zip(sizes);
    let candidates =
        candidates.map(|(process, resident)| smaps::Candidate { process, resident }).collect();
    smaps::read(host, candidates, budget);
    processes.smaps = tally(&processes.list, budget);
    processes
}

fn in_swap(process: &Process) -> Bytes {
    process.swap.get().unwrap_or_default()
}

fn tally(list: &[Process], budget: Duration) -> SmapsTally {
    let budget = Millis::new(u64::try_from(budget.as_millis()).unwrap_or(u64::MAX));
    let mut tally = SmapsTally { budget, ..SmapsTally::default() };
    for process in list {
        *match process.smaps {
            SmapsOutcome::Read => &mut tally.read,
            SmapsOutcome::NotRead => &mut tally.not_read,
            SmapsOutcome::Denied => &mut tally.denied,
            SmapsOutcome::Stuck => &mut tally.stuck,
            SmapsOutcome::Gone => &mut tally.gone,
        } += 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::root::{Entry, Refusal};
    use crate::text::testing::host;

    fn sum(tally: &SmapsTally) -> u64 {
        tally.read + tally.not_read + tally.denied + tally.stuck + tally.gone
    }

    /// This process, as the kernel tells it now.
    #[test]
    fn the_live_machine_has_us_in_it_and_its_tally_adds_up() {
        let live = HostRoot::live().unwrap();
        let budget = Duration::from_millis(200);
        let processes = read(&live, budget);
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let us = processes.list.iter().find(|process| process.pid == own).unwrap();
        assert_eq!(us.uid.get(), Some(rustix::process::geteuid().as_raw()));
        assert!(us.resident().unwrap() > Bytes::new(0));
        assert!(us.cgroup.value().is_none_or(|path| path.as_str().starts_with('/')));
        if us.smaps == SmapsOutcome::Read {
            assert!(us.proportional.get().unwrap() > Bytes::new(0));
        }
        assert_eq!(sum(&processes.smaps), processes.list.len() as u64);
        assert_eq!(processes.smaps.budget, Millis::new(200));
        assert!(processes.list.is_sorted_by_key(|process| process.pid));
        assert_eq!(live.take_problems(), []);
    }

    #[test]
    fn only_plain_numbers_are_processes() {
        let names = ["1", "20", "3", "007", "-4", "self", "99999999999", "bus"];
        let paths: Vec<String> = names.iter().map(|name| format!("proc/{name}/status")).collect();
        let host = host(paths.iter().map(|path| (path.as_str(), "VmRSS: 8 kB\n")));
        let pids = read(&host, Duration::ZERO).list.into_iter().map(|process| process.pid);
        assert_eq!(pids.collect::<Vec<_>>(), [1, 3, 20]);
    }

    #[test]
    fn what_has_no_memory_is_counted_and_not_listed() {
        let host = host([
            ("proc/1/status", "Name:\tinit\nVmSize:\t1 kB\n"),
            ("proc/2/status", "Name:\tkthreadd\nKthread:\t1\n"),
            ("proc/3/status", "Name:\tdefunct\nState:\tZ (zombie)\n"),
            ("proc/4/comm", "status is gone"),
        ]);
        let processes = read(&host, Duration::ZERO);
        assert_eq!(processes.list.len(), 1);
        assert_eq!((processes.kernel_threads, processes.vanished), (1, 2));
    }

    proptest! {
        /// Whatever is recorded, each listed process has exactly one outcome, and of a process
        /// without the outcome "read" nothing proportional is known.
        #[test]
        fn the_tally_adds_up(kinds in prop::collection::vec(0u8..5, 0..40), budget in 0u64..2) {
            let entry = |kind: &u8| match kind {
                0 => Some(Entry::File(b"Pss: 4 kB\n".to_vec())),
                1 => Some(Entry::File(b"\xff".to_vec())),
                2 => Some(Entry::Refused(Refusal::Denied("run as root".into()))),
                3 => Some(Entry::Refused(Refusal::Absent("it ended while it was read".into()))),
                _ => None,
            };
            let status = |pid| (format!("proc/{pid}/status"), Entry::File(b"VmRSS: 8 kB\n".to_vec()));
            let rollup = |(pid, kind)| {
                entry(kind).map(|entry| (format!("proc/{pid}/smaps_rollup"), entry))
            };
            let files = (1..=kinds.len()).map(status).chain((1..).zip(&kinds).filter_map(rollup));
            let processes = read(&HostRoot::memory(files), Duration::from_secs(budget));
            prop_assert_eq!(processes.list.len(), kinds.len());
            prop_assert_eq!(sum(&processes.smaps), kinds.len() as u64);
            for process in &processes.list {
                let told = process.proportional.get().is_some();
                prop_assert!(!told || process.smaps == SmapsOutcome::Read);
            }
        }
    }
}
