// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads transparent huge pages into [`Thp`]: the settings, each size with its statistics, and
//! khugepaged.
//!
//! A size may be for anonymous memory, shmem or both: the folder of an 8 KiB page has
//! `shmem_enabled` but no `enabled`. Statistics are one file per counter, some 150 files in all.
//! For a size that is set to "never" and of which no page was ever allocated, only the counters
//! that show this are read.
//!
//! khugepaged gets a new pid whenever THP is switched off and on, so it is searched by name, among
//! the children of kthreadd only, because any program may call itself khugepaged. Kernel threads
//! are not visible in a container; that does not mean khugepaged is not running.

use crate::huge_page_sizes::list_huge_page_sizes;
use pagewise_model::{
    Bytes, Choice, Counters, Khugepaged, Name, Nanos, Outcome, Reading, Source, Thp, ThpSize,
};

use crate::limits::{self, HUGE_PAGE_STATS, KERNEL_THREADS};
use pagewise_hostfs::text::{number, words};
use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, ReadHost, ReadValues, absolute_path, explain};

const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";

/// Names of counters that show whether a page of a size was ever allocated.
const GIVEN_OUT: [&str; 3] = ["anon_fault_alloc", "nr_anon", "shmem_alloc"];

pub(crate) fn read(host: &HostRoot) -> Thp {
    read_with(host, None)
}

/// As [`read`], but first looks for khugepaged where an earlier reading found it.
pub(crate) fn read_with(host: &HostRoot, khugepaged_before: Option<u32>) -> Thp {
    Thp {
        enabled: host.choice_at(&path("enabled")),
        defrag: host.choice_at(&path("defrag")),
        shmem_enabled: host.choice_at(&path("shmem_enabled")),
        use_zero_page: host.flag_at(&path("use_zero_page")),
        shrink_underused: host.flag_at(&path("shrink_underused")),
        pmd_size: host.bytes_at(&path("hpage_pmd_size")),
        sizes: sizes(host),
        khugepaged: khugepaged(host, khugepaged_before),
    }
}

/// Reads the values from which rates are computed: the time that khugepaged ran and waited for a
/// CPU.
pub(crate) fn read_counters(host: &HostRoot) -> Thp {
    Thp { khugepaged: khugepaged_times(host, None), ..Thp::default() }
}

fn path(file: &str) -> String {
    format!("{FOLDER}/{file}")
}

fn sizes(host: &HostRoot) -> Vec<ThpSize> {
    let sizes = list_huge_page_sizes(host, FOLDER).into_iter();
    sizes.map(|(bytes, name)| size(host, &path(&name), bytes)).collect()
}

const ANON_ONLY: &str = "this kernel has no shmem pages of this size";
const SHMEM_ONLY: &str = "pages of this size are for shmem only";

fn size(host: &HostRoot, folder: &str, bytes: Bytes) -> ThpSize {
    let enabled = policy(host, folder, "enabled", SHMEM_ONLY);
    let shmem_enabled = policy(host, folder, "shmem_enabled", ANON_ONLY);
    let forbidden = [&enabled, &shmem_enabled].into_iter().all(is_never);
    let stats = stats(host, &format!("{folder}/stats"), forbidden);
    ThpSize { bytes, enabled, shmem_enabled, stats }
}

/// Whether a huge page policy is known to allocate no huge pages; one that cannot be read might.
fn is_never(policy: &Reading<Choice>) -> bool {
    match &policy.outcome {
        Outcome::Value(choice) => choice.active.as_str() == "never",
        Outcome::Absent(why) => [ANON_ONLY, SHMEM_ONLY].contains(&&**why),
        Outcome::Denied(_) => false,
    }
}

fn policy(host: &HostRoot, folder: &str, file: &str, why_none: &'static str) -> Reading<Choice> {
    explain(host.choice_at(&format!("{folder}/{file}")), NO_SUCH_FILE, why_none)
}

fn stats(host: &HostRoot, folder: &str, forbidden: bool) -> Counters {
    host.keep_folder_open(folder);
    let names = limits::first(host, folder, HUGE_PAGE_STATS, host.names(folder));
    let (telling, others): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| GIVEN_OUT.contains(&name.as_str()));
    let read = |name: String| {
        let reading = host.number_at(&format!("{folder}/{name}"));
        (Name::from(name.as_str()), reading)
    };
    let telling: Vec<_> = telling.into_iter().map(read).collect();
    let unused = !telling.is_empty() && telling.iter().all(|(_, pages)| pages.get() == Some(0));
    if forbidden && unused {
        let why = Reading::absent(NOT_READ, Source::file(absolute_path(folder)));
        return telling.into_iter().collect::<Counters>().with_unread_reason(why);
    }
    others.into_iter().map(read).chain(telling).collect()
}

const NOT_READ: &str = "not read: this size is allowed to nobody and was never given out";

fn khugepaged(host: &HostRoot, before: Option<u32>) -> Khugepaged {
    Khugepaged {
        defrag: host.flag_at(&path("khugepaged/defrag")),
        pages_to_scan: host.number_at(&path("khugepaged/pages_to_scan")),
        scan_sleep: host.millis_at(&path("khugepaged/scan_sleep_millisecs")),
        alloc_sleep: host.millis_at(&path("khugepaged/alloc_sleep_millisecs")),
        max_ptes_none: host.number_at(&path("khugepaged/max_ptes_none")),
        max_ptes_swap: host.number_at(&path("khugepaged/max_ptes_swap")),
        max_ptes_shared: host.number_at(&path("khugepaged/max_ptes_shared")),
        pages_collapsed: host.number_at(&path("khugepaged/pages_collapsed")),
        ..khugepaged_times(host, before)
    }
}

/// khugepaged's pid, CPU times and number of full scans; a kernel without that counter has no
/// khugepaged.
fn khugepaged_times(host: &HostRoot, before: Option<u32>) -> Khugepaged {
    let full_scans = host.number_at(&path("khugepaged/full_scans"));
    let still = |pid: &u32| is_khugepaged(host, *pid);
    let pid = read_if_known(&full_scans, |_| match before.filter(still) {
        Some(pid) => found_khugepaged(pid),
        None => khugepaged_pid(host),
    });
    let times = read_if_known(&pid, |pid| run_times(host, *pid));
    Khugepaged {
        full_scans,
        pid,
        cpu_time: times.clone().map(|times| times.on_cpu),
        run_queue_wait: times.map(|times| times.waiting),
        ..Khugepaged::default()
    }
}

/// Reads `next` with the value of `first`, or returns the refusal of `first`.
fn read_if_known<A, B>(first: &Reading<A>, next: impl FnOnce(&A) -> Reading<B>) -> Reading<B> {
    match &first.outcome {
        Outcome::Value(value) => next(value),
        Outcome::Absent(why) => Reading::absent(why.clone(), first.source.clone()),
        Outcome::Denied(help) => Reading::denied(help.clone(), first.source.clone()),
    }
}

/// khugepaged's process id.
pub(crate) fn khugepaged_pid(host: &HostRoot) -> Reading<u32> {
    let parent = explain(host.name_at("proc/2/comm"), NO_SUCH_FILE, NO_THREADS);
    read_if_known(&parent, |name| match name.as_str() {
        "kthreadd" => find_khugepaged(host, &kernel_threads(host)),
        _ => Reading::absent(NO_THREADS, parent.source.clone()),
    })
}

const NO_THREADS: &str = "no kernel threads are visible from here";

fn find_khugepaged(host: &HostRoot, threads: &[u32]) -> Reading<u32> {
    let looked_at = &threads[..threads.len().min(KERNEL_THREADS)];
    let proc = Source::file("/proc");
    match looked_at.iter().find(|&&pid| is_khugepaged(host, pid)) {
        Some(&pid) => found_khugepaged(pid),
        None if looked_at.len() < threads.len() => {
            let why = format!("khugepaged is not among the first {KERNEL_THREADS} kernel threads");
            Reading::absent(why, proc)
        }
        None => Reading::absent("khugepaged is not running", proc),
    }
}

fn found_khugepaged(pid: u32) -> Reading<u32> {
    Reading::found(pid, Source::file(format!("/proc/{pid}/comm")))
}

/// Pids of kernel threads, oldest first: from the kernel's list of kthreadd's children if
/// available, otherwise all processes.
pub(crate) fn kernel_threads(host: &HostRoot) -> Vec<u32> {
    match host.bytes("proc/2/task/2/children") {
        Ok(children) => words(&children).filter_map(number).take(KERNEL_THREADS + 1).collect(),
        Err(_) => host.list_numbers("proc", ""),
    }
}

fn is_khugepaged(host: &HostRoot, pid: u32) -> bool {
    let comm = host.bytes(&format!("proc/{pid}/comm"));
    comm.is_ok_and(|name| name.trim_ascii() == b"khugepaged") && is_kernel_thread(host, pid)
}

/// Whether a process is a kernel thread: its parent is kthreadd, as in `38 (khugepaged) S 2 …`. The
/// name may contain any byte, so fields are counted from the last parenthesis.
pub(crate) fn is_kernel_thread(host: &HostRoot, pid: u32) -> bool {
    let Ok(stat) = host.bytes(&format!("proc/{pid}/stat")) else { return false };
    let after_name = stat.rsplit(|&byte| byte == b')').next().unwrap_or_default();
    words(after_name).nth(1) == Some(b"2")
}

/// Time of a thread on a CPU and waiting for one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTimes {
    pub(crate) on_cpu: Nanos,
    waiting: Nanos,
}

/// Parses the `schedstat` of a process: time on a CPU, time waiting for one, number of time slices.
pub(crate) fn run_times(host: &HostRoot, pid: u32) -> Reading<RunTimes> {
    let three = |text: &[u8]| {
        let all: Option<Vec<u64>> = words(text).take(4).map(number).collect();
        <[u64; 3]>::try_from(all?).ok()
    };
    let read = host.value(&format!("proc/{pid}/schedstat"), "three whole numbers", three);
    read.and_then(|times| match times {
        // an existing thread has run, so zeros mean that the kernel does not count
        [0, 0, 0] => Err("scheduler statistics are switched off".into()),
        [on_cpu, waiting, _] => {
            Ok(RunTimes { on_cpu: Nanos::new(on_cpu), waiting: Nanos::new(waiting) })
        }
    })
}
