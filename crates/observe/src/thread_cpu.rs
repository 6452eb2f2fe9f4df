// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of threads and processes from `/proc/PID`, for code that measures: kernel threads by
//! name, child processes, and what a process has used so far.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::{KernelThread, Millis, Name, Nanos};

use crate::process::StatLine;
use crate::thp::{is_kernel_thread, kernel_threads, khugepaged_pid, run_times};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// Threads whose CPU time is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadCpu {
    /// The thread ids.
    pub threads: Vec<u32>,
}

impl ThreadCpu {
    /// The threads of kswapd, the kernel's background reclaim: one for each node; none if a
    /// container hides them.
    #[must_use]
    pub fn kswapd(host: &HostRoot) -> Self {
        Self::read_named(host, is_kswapd)
    }

    /// The thread of khugepaged, which collapses pages into huge pages. Some settings stop it and
    /// start a new thread.
    #[must_use]
    pub fn khugepaged(host: &HostRoot) -> Self {
        Self { threads: khugepaged_pid(host).get().into_iter().collect() }
    }

    /// The thread of ksmd, which merges identical pages.
    #[must_use]
    pub fn ksmd(host: &HostRoot) -> Self {
        Self::read_named(host, |name| name == b"ksmd")
    }

    /// Kernel threads with a matching name; programs are excluded, because they may have any name.
    fn read_named(host: &HostRoot, is_it: impl Fn(&[u8]) -> bool) -> Self {
        let name = |pid: u32| host.bytes(&format!("proc/{pid}/comm"));
        let is = |pid: &u32| {
            name(*pid).is_ok_and(|name| is_it(name.trim_ascii())) && is_kernel_thread(host, *pid)
        };
        Self { threads: kernel_threads(host).into_iter().filter(is).collect() }
    }

    /// The sum of the threads' CPU times; `None` if one cannot be read or there is no thread.
    #[must_use]
    pub fn time(&self, host: &HostRoot) -> Option<Nanos> {
        let time = |pid: &u32| Some(run_times(host, *pid).get()?.on_cpu.get());
        let sum = self.threads.iter().map(time).sum::<Option<u64>>().map(Nanos::new);
        sum.filter(|_| !self.threads.is_empty())
    }
}

fn is_kswapd(name: &[u8]) -> bool {
    is_numbered(name, b"kswapd")
}

fn is_numbered(name: &[u8], thread: &[u8]) -> bool {
    let node = name.strip_prefix(thread);
    node.is_some_and(|node| !node.is_empty() && node.iter().all(u8::is_ascii_digit))
}

/// The kernel threads for reclaim (kswapd), compaction (kcompactd) and khugepaged with their ids, in
/// order of these; with `among`, only those of these ids.
pub(crate) fn memory_threads(
    host: &HostRoot,
    among: Option<&[u32]>,
) -> impl Iterator<Item = (u32, KernelThread)> {
    let is_it =
        |name: &[u8]| is_kswapd(name) || is_numbered(name, b"kcompactd") || name == b"khugepaged";
    let thread = move |pid: u32| {
        let name = host.bytes(&format!("proc/{pid}/comm")).ok()?;
        let is_it = is_it(name.trim_ascii()) && is_kernel_thread(host, pid);
        is_it.then(|| {
            let cpu_time = run_times(host, pid).map(|times| times.on_cpu);
            (pid, KernelThread { name: Name::from_bytes(name.trim_ascii()), cpu_time })
        })
    };
    let pids = among.map_or_else(|| kernel_threads(host), <[u32]>::to_vec);
    pids.into_iter().filter_map(thread)
}

/// CPU time and major faults of a process; each `None` if it cannot be read.
#[must_use]
pub fn process_usage(host: &HostRoot, pid: u32) -> (Option<Nanos>, Option<u64>) {
    let time = run_times(host, pid).get().map(|times| times.on_cpu);
    (time, StatLine::read(host, pid).map(|stat| stat.major_faults))
}

/// CPU time and major faults of these processes and all their descendants, including children that
/// ended and were waited for. CPU time has a resolution of 10 ms.
#[must_use]
pub fn family_usage(host: &HostRoot, processes: &[u32]) -> (Millis, u64) {
    let all = host.list_numbers("proc", "").into_iter();
    let all: BTreeMap<u32, StatLine> =
        all.filter_map(|pid| Some((pid, StatLine::read(host, pid)?))).collect();
    let mut children: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (pid, stat) in &all {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let (mut cpu, mut major_faults) = (Millis::new(0), 0_u64);
    let mut left = processes.to_vec();
    let mut seen = BTreeSet::new();
    while let Some(pid) = left.pop() {
        let Some(stat) = all.get(&pid).filter(|_| seen.insert(pid)) else { continue };
        cpu = cpu.saturating_add(stat.cpu).saturating_add(stat.ended_cpu);
        major_faults =
            major_faults.saturating_add(stat.major_faults).saturating_add(stat.ended_major_faults);
        left.extend(children.get(&u64::from(pid)).into_iter().flatten());
    }
    (cpu, major_faults)
}

/// The child processes of a process, including zombies.
#[must_use]
pub fn children(host: &HostRoot, parent: u32) -> Vec<u32> {
    let is_child =
        |pid: &u32| StatLine::read(host, *pid).is_some_and(|stat| stat.parent == u64::from(parent));
    host.list_numbers("proc", "").into_iter().filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    #[test]
    fn reclaim_threads_are_found_by_name_and_parent() {
        for (name, is) in
            [("kswapd0", true), ("kswapd12", true), ("kswapd", false), ("kswapdx", false)]
        {
            assert_eq!(is_kswapd(name.as_bytes()), is, "{name}");
        }
        let host = host([
            ("proc/2/task/2/children", "38 39 77 "),
            ("proc/38/comm", "kswapd0\n"),
            ("proc/38/stat", "38 (kswapd0) S 2 0 0\n"),
            ("proc/38/schedstat", "6640 200371 2\n"),
            ("proc/39/comm", "kworker/0\n"),
            ("proc/39/stat", "39 (kworker/0) S 2 0 0\n"),
            ("proc/77/comm", "kswapd1\n"),
            ("proc/77/stat", "77 (kswapd1) S 1 0 0\n"),
        ]);
        let found = ThreadCpu::kswapd(&host);
        assert_eq!(found.threads, [38], "77 is a program that calls itself so");
        assert_eq!(found.time(&host), Some(Nanos::new(6640)));
        assert_eq!(ThreadCpu { threads: vec![38, 99] }.time(&host), None);
        assert_eq!(ThreadCpu::default().time(&host), None);
    }

    #[test]
    fn threads_that_work_on_memory_have_their_time_or_why_not() {
        let host = host([
            ("proc/2/task/2/children", "38 39 40 77 "),
            ("proc/38/comm", "kswapd0\n"),
            ("proc/38/stat", "38 (kswapd0) S 2 0 0\n"),
            ("proc/38/schedstat", "6640 200371 2\n"),
            ("proc/39/comm", "kcompactd0\n"),
            ("proc/39/stat", "39 (kcompactd0) S 2 0 0\n"),
            ("proc/40/comm", "kcompactd\n"),
            ("proc/40/stat", "40 (kcompactd) S 2 0 0\n"),
            ("proc/77/comm", "khugepaged\n"),
            ("proc/77/stat", "77 (khugepaged) S 1 0 0\n"),
        ]);
        let found: Vec<KernelThread> = memory_threads(&host, None).map(|(_, it)| it).collect();
        let times: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.cpu_time.get())).collect();
        assert_eq!(times, [("kswapd0", Some(Nanos::new(6640))), ("kcompactd0", None)]);
    }

    /// Fields of `stat` as numbered in proc_pid_stat(5): 10 and 12 are faults of the process, 11
    /// and 13 those of ended children, 14 to 17 are times.
    #[test]
    fn a_family_is_all_that_descends_from_a_process() {
        let stat = |pid: u32, parent: u32, faults: u32, ended_faults: u32| {
            let text = format!(
                "{pid} (x) S {parent} 1 1 0 -1 0 5 5 {faults} {ended_faults} 1 2 3 4 20 0 1 0 9 0\n"
            );
            (format!("proc/{pid}/stat"), text)
        };
        let processes = [
            stat(10, 1, 100, 1),
            stat(11, 10, 10, 2),
            stat(12, 11, 1000, 3),
            stat(20, 1, 7, 0),
            stat(21, 20, 7, 0),
        ];
        let host = host(processes.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        assert_eq!(family_usage(&host, &[10]), (Millis::new(3 * 100), 1116));
        assert_eq!(family_usage(&host, &[11]), (Millis::new(2 * 100), 1015));
        assert_eq!(family_usage(&host, &[10, 12]), (Millis::new(3 * 100), 1116), "each once");
        assert_eq!(family_usage(&host, &[99]), (Millis::new(0), 0));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child to be found")]
    fn our_own_time_and_children_are_known() {
        let live = HostRoot::live().unwrap();
        let (time, faults) = process_usage(&live, std::process::id());
        assert!(time.is_some_and(|time| time > Nanos::new(0)) && faults.is_some());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(&live, std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children(&live, std::process::id()).contains(&child.id()));
        let other = process_usage(&live, u32::MAX);
        assert_eq!(other, (None, None));
    }
}
