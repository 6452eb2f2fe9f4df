// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads every `/proc/PID` into [`Processes`].
//!
//! Three small files per process, `status`, `stat` and `cgroup`, then `smaps_rollup` of as many as
//! a time budget allows ([`smaps`]). Processes start and end meanwhile: those that were listed but
//! have ended are counted, and so are kernel threads, which have no memory of their own.
//!
//! Beyond [`PROCESSES`](crate::limits::PROCESSES) processes, only the largest are read ([`choice`]).
//!
//! The first reading of an interval only needs the values from which growth is computed
//! ([`read_earlier`]).
//!
//! A caller that reads again and again can have the values of unchanged processes kept (`known.rs`).
//!
//! This process is read like any other. Environments are never read, command lines only for the
//! process ids that a caller asks for ([`command_lines`]).

mod choice;
mod command;
mod helper;
mod known;
mod limits;
mod live;
mod smaps;
mod stat;
mod status;

use std::cmp::Reverse;
use std::time::Duration;

use choice::Chosen;
use pagewise_model::{
    Bytes, Memory, Millis, Name, PartRead, Process, Processes, Reading, SmapsOutcome, SmapsTally,
    Snapshot, Source,
};
use status::Task;

use crate::limits::{PEAKS_BEFORE, PROCESS_IDS, PROCESSES, SWAPPED_PROCESSES};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

pub use command::command_lines;
pub(crate) use command::select_with_readable_maps;
pub(crate) use known::{KnownProcesses, Look};
pub(crate) use live::LiveProcesses;
pub(crate) use stat::StatLine;

/// Reads all processes; those that did nothing since an earlier snapshot are taken from its list, if it
/// is given.
pub(crate) fn read(
    host: &HostRoot,
    mut known: Option<(&mut KnownProcesses, &[Process], Look)>,
    budget: Duration,
    enough: usize,
) -> Processes {
    let mut processes = Processes::default();
    let mut sizes = Vec::new();
    let Chosen { pids, left_out } = choice::choose(host, PROCESSES, PROCESS_IDS);
    processes.left_out = left_out;
    choice::record(host, left_out);
    if let Some((known, ..)) = &mut known {
        known.keep_only(&pids);
    }
    for pid in pids {
        let task = match &mut known {
            Some((known, before, look)) => known.read(host, pid, before, *look),
            None => read_task(host, pid),
        };
        match task {
            Task::Process(process, resident) => {
                sizes.push(resident.map(|size| size.saturating_add(swapped_bytes(&process))));
                processes.list.push(*process);
            }
            Task::KernelThread => processes.kernel_threads += 1,
            Task::Ended => processes.vanished += 1,
        }
    }
    limits::read_of_largest(host, &mut processes.list);
    let candidates = processes.list.iter_mut().zip(sizes);
    let candidates =
        candidates.map(|(process, resident)| smaps::Candidate { process, resident }).collect();
    smaps::read(host, candidates, budget, enough);
    processes.smaps = count_smaps_outcomes(&processes.list, budget);
    if left_out > 0 {
        let read = processes.list.len() as u64;
        let all = read.saturating_add(left_out);
        let part = PartRead::Those("with the most memory in RAM");
        host.beyond_limit(&Source::file("/proc"), "processes", all, read, part);
    }
    processes
}

/// Reads the status, the cgroup, times and faults of one process.
fn read_task(host: &HostRoot, pid: u32) -> Task {
    let mut task = status::read(host, pid);
    if let Task::Process(process, _) = &mut task {
        stat::read_times(host, process);
    }
    task
}

/// Reads at most `most` processes, those with the most memory in RAM, without proportional sizes (PSS).
pub(crate) fn read_largest(host: &HostRoot, most: usize) -> Processes {
    let pids = choice::choose(host, most, PROCESS_IDS).pids;
    let list = pids.into_iter().filter_map(|pid| read_one(host, pid)).map(|process| *process);
    Processes { list: list.collect(), ..Processes::default() }
}

/// Reads anonymous memory and swap of every process, from the cheapest files; with `times` also CPU time and
/// faults. Names are read only of processes whose swap is read.
///
/// If no swap is in use on the host, the swap of every process is 0. Otherwise it is read from
/// `status`, which costs as much as all other files here together, and therefore only of the
/// largest processes. Their peaks come from the same file, without swap of fewer of them.
pub(crate) fn read_earlier(host: &HostRoot, at: &Snapshot, times: bool) -> Processes {
    let page = at.page_size();
    let mut found: Vec<(Bytes, Process)> = choice::choose(host, PROCESSES, PROCESS_IDS)
        .pids
        .into_iter()
        .filter_map(|pid| stat::read_sizes(host, pid, page))
        .map(|(process, resident)| (resident, process))
        .collect();
    match unused_swap(&at.memory) {
        Some(none) => {
            found.iter_mut().for_each(|(_, process)| process.swap = none.clone());
            read_peaks(host, &mut found);
        }
        None => read_swap(host, &mut found),
    }
    if times {
        found.iter_mut().for_each(|(_, process)| stat::read_times(host, process));
    }
    let list = found.into_iter().map(|(_, process)| process).collect();
    Processes { list, ..Processes::default() }
}

/// The id and the name of every process that has memory (kernel threads have none), for
/// completions.
pub fn process_names(host: &HostRoot) -> Vec<(u32, Name)> {
    host.keep_folder_open("proc");
    let named = |pid| {
        stat::read_sizes(host, pid, Bytes::new(1))?;
        let name = host.name_at(&format!("proc/{pid}/comm"));
        name.value().cloned().map(|name| (pid, name))
    };
    host.list_numbers("proc", "").into_iter().filter_map(named).collect()
}

/// One process as it is now, without proportional sizes (PSS); `None` if it has ended or has no
/// memory.
pub(crate) fn read_one(host: &HostRoot, pid: u32) -> Option<Box<Process>> {
    let Task::Process(process, _) = read_task(host, pid) else { return None };
    Some(process)
}

/// The swap of a process if no swap is in use on the host: zero, with `SwapFree` as its source.
fn unused_swap(memory: &Memory) -> Option<Reading<Bytes>> {
    let in_use = memory.swap_total.get()?.saturating_sub(memory.swap_free.get()?);
    (in_use == Bytes::new(0)).then(|| memory.swap_free.clone().map(|_| in_use))
}

fn read_swap(host: &HostRoot, found: &mut [(Bytes, Process)]) {
    found.sort_by_key(|(resident, process)| (Reverse(*resident), process.pid));
    for (_, process) in found.iter_mut().take(SWAPPED_PROCESSES) {
        if let Task::Process(full, _) = status::read_sizes(host, process.pid) {
            *process = *full;
        }
    }
    found.sort_by_key(|(_, process)| process.pid);
}

fn read_peaks(host: &HostRoot, found: &mut [(Bytes, Process)]) {
    found.sort_by_key(|(resident, process)| (Reverse(*resident), process.pid));
    for (_, process) in found.iter_mut().take(PEAKS_BEFORE) {
        if let Task::Process(full, _) = status::read_sizes(host, process.pid) {
            process.peak = full.peak;
        }
    }
    found.sort_by_key(|(_, process)| process.pid);
}

fn swapped_bytes(process: &Process) -> Bytes {
    process.swap.get().unwrap_or_default()
}

fn count_smaps_outcomes(list: &[Process], budget: Duration) -> SmapsTally {
    let budget = Millis::new(u64::try_from(budget.as_millis()).unwrap_or(u64::MAX));
    let mut tally = SmapsTally { budget, ..SmapsTally::default() };
    for process in list {
        *match process.smaps {
            SmapsOutcome::Read => &mut tally.read,
            SmapsOutcome::NotRead => &mut tally.not_read,
            SmapsOutcome::Denied => &mut tally.denied,
            SmapsOutcome::Stuck => &mut tally.stuck,
            SmapsOutcome::Gone => &mut tally.gone,
            SmapsOutcome::Smaller => &mut tally.smaller,
        } += 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{file, host};
    use pagewise_hostfs::{Entry, Refusal};

    fn sum(tally: &SmapsTally) -> u64 {
        tally.read + tally.not_read + tally.denied + tally.stuck + tally.gone + tally.smaller
    }

    /// Reads the live machine with this process in it.
    #[test]
    fn the_live_machine_has_us_in_it_and_its_tally_adds_up() {
        let live = HostRoot::live().unwrap();
        let budget = Duration::from_millis(200);
        let processes = read(&live, None, budget, usize::MAX);
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
    fn of_the_live_machine_the_rest_is_smaller_than_what_was_read() {
        let live = HostRoot::live().unwrap();
        let processes = read(&live, None, Duration::from_secs(5), 1);
        let of = |outcome| {
            let list = processes.list.iter();
            list.filter(move |process| process.smaps == outcome).collect::<Vec<_>>()
        };
        let largest = of(SmapsOutcome::Read).iter().filter_map(|it| it.proportional.get()).max();
        let smaller = of(SmapsOutcome::Smaller);
        assert!(
            smaller.iter().all(|it| it.resident() <= largest && it.proportional.get().is_none())
        );
        assert_eq!(processes.smaps.smaller, smaller.len() as u64);
        assert_eq!(sum(&processes.smaps), processes.list.len() as u64);
    }

    #[test]
    fn only_plain_numbers_are_processes() {
        let names = ["1", "20", "3", "007", "-4", "self", "99999999999", "bus"];
        let paths: Vec<String> = names.iter().map(|name| format!("proc/{name}/status")).collect();
        let host = host(paths.iter().map(|path| (path.as_str(), "VmRSS: 8 kB\n")));
        let pids = read(&host, None, Duration::ZERO, usize::MAX)
            .list
            .into_iter()
            .map(|process| process.pid);
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
        let processes = read(&host, None, Duration::ZERO, usize::MAX);
        assert_eq!(processes.list.len(), 1);
        assert_eq!((processes.kernel_threads, processes.vanished), (1, 2));
    }

    /// As many bytes are read of each of 12,000 processes as of each of 3,000.
    #[test]
    fn what_is_read_of_a_process_does_not_depend_on_their_number() {
        let files = |pid: u32| {
            let file = |name: &str, text: &str| file(format!("proc/{pid}/{name}"), text);
            [
                file("status", "Name:\tworker\nVmSize:\t99000 kB\nVmRSS:\t40 kB\nVmSwap:\t4 kB\n"),
                file("stat", &format!("7 (worker) S{}\n", " 7".repeat(30))),
                file("statm", "100 20 4 0 0 0 0\n"),
                file("cgroup", "0::/a\n"),
                file("smaps_rollup", "Pss: 4 kB\n"),
            ]
        };
        let read_bytes = |many: u32| {
            let meminfo = file("proc/meminfo", "SwapTotal: 8 kB\nSwapFree: 8 kB\n");
            let host = HostRoot::memory((1..=many).flat_map(files).chain([meminfo]));
            let at = Snapshot { memory: crate::memory::read(&host), ..Snapshot::default() };
            host.take_bytes_read();
            let earlier = read_earlier(&host, &at, true).list.len();
            let later = read(&host, None, Duration::from_secs(1), usize::MAX).list.len();
            assert_eq!((earlier, later), (many as usize, many as usize));
            host.take_bytes_read()
        };
        // some files are read of a fixed number of the largest processes
        let [some, few, many] = [1000, 3000, 12_000].map(read_bytes);
        assert!(few - some >= 2000 * 100, "{some} {few}");
        assert_eq!(many - few, (few - some) / 2 * 9);
    }

    /// Beyond the limit the smallest are left out, and a problem says so.
    #[test]
    fn of_too_many_processes_the_largest_are_read() {
        let many = 12_000 + 7;
        let host = HostRoot::memory((1..=many).map(|pid| {
            file(format!("proc/{pid}/status"), format!("VmSize:\t9 kB\nVmRSS:\t{pid} kB\n"))
        }));
        let processes = read(&host, None, Duration::ZERO, usize::MAX);
        assert_eq!((processes.list.len(), processes.left_out), (12_000, 7));
        let problems = host.take_problems();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        let text = "/proc: 12,007 processes: only the 12,000 with the most memory in RAM were read";
        assert_eq!(problem.to_string(), text);
    }

    const PAGE_MEMINFO: &str = "SwapTotal: 8 kB\nSwapFree: ";

    /// A host with two processes and a kernel thread; `free` is the free part of 8 KiB of swap.
    fn earlier(free: &str, times: bool) -> Processes {
        let host = host([
            ("proc/1/statm", "100 10 4 0 0 0 0\n".to_owned()),
            (
                "proc/1/status",
                "Name:\tinit\nVmHWM:\t44 kB\nVmRSS:\t40 kB\nRssAnon:\t24 kB\nVmSwap:\t4 kB\n"
                    .into(),
            ),
            ("proc/2/statm", "0 0 0 0 0 0 0\n".into()),
            ("proc/3/statm", "100 20 4 0 0 0 0\n".into()),
            ("proc/3/stat", format!("3 (sh) S{}\n", " 7".repeat(30))),
            ("proc/meminfo", format!("{PAGE_MEMINFO}{free} kB\n")),
        ]);
        let at = Snapshot { memory: crate::memory::read(&host), ..Snapshot::default() };
        read_earlier(&host, &at, times)
    }

    #[test]
    fn the_earlier_end_has_sizes_and_where_asked_for_times() {
        let kib = |kib| Bytes::from_kib(kib);
        let processes = earlier("8", false);
        let sizes: Vec<_> =
            processes.list.iter().map(|p| (p.pid, p.rss_anon.get(), p.swap.get())).collect();
        assert_eq!(sizes, [(1, kib(24), kib(0)), (3, kib(64), kib(0))]);
        let peaks: Vec<_> = processes.list.iter().map(|process| process.peak.get()).collect();
        assert_eq!(peaks, [kib(44), None]);
        assert_eq!(processes.list[1].cpu_time.get(), None);
        let timed = earlier("8", true);
        assert_eq!(timed.list[1].cpu_time.get(), Some(Millis::new(140)));
    }

    #[test]
    fn swap_is_read_where_there_is_any_in_use() {
        let processes = earlier("4", false);
        assert_eq!(processes.list[0].swap.get(), Bytes::from_kib(4));
        // its status can no longer be read: the values from statm are kept, swap is unknown
        assert_eq!(processes.list[1].rss_anon.get(), Bytes::from_kib(64));
        assert_eq!(processes.list[1].swap.get(), None);
        assert!(processes.list.is_sorted_by_key(|process| process.pid));
    }

    proptest! {
        /// For any recording, each listed process has exactly one outcome, and proportional sizes
        /// are known only with the outcome "read".
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
            let processes = read(&HostRoot::memory(files), None, Duration::from_secs(budget), usize::MAX);
            prop_assert_eq!(processes.list.len(), kinds.len());
            prop_assert_eq!(sum(&processes.smaps), kinds.len() as u64);
            for process in &processes.list {
                let listed = process.proportional.get().is_some();
                prop_assert!(!listed || process.smaps == SmapsOutcome::Read);
            }
        }
    }
}
