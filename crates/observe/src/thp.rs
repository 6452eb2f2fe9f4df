// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads transparent huge pages into [`Thp`]: the settings, each size with its statistics, and the
//! thread that collapses pages afterwards.
//!
//! A size may serve anonymous memory, shmem or both: the folder of an 8 KiB page has
//! `shmem_enabled` and no `enabled`. Statistics are one file per counter, some 150 files in all: of a
//! size that is allowed to nobody, and of which no page was ever given out, the others are not read.
//!
//! khugepaged gets a new pid whenever THP is switched off and on, so it is looked for by name, among
//! the children of kthreadd alone: any program may call itself khugepaged. In a container no kernel
//! thread is visible, which is not the same as khugepaged not running.

use crate::huge_page_sizes::by_huge_page_size;
use pagewise_model::{
    Bytes, Choice, Counters, Khugepaged, Name, Nanos, Outcome, Reading, Source, Thp, ThpSize,
};

use crate::limits::{self, HUGE_PAGE_STATS, KERNEL_THREADS};
use pagewise_files::text::{number, words};
use pagewise_files::{HostRoot, NO_SUCH_FILE, ReadHost, ReadValues, absolute, explained};

const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";

/// Counters that tell whether pages of a size were ever given out.
const GIVEN_OUT: [&str; 3] = ["anon_fault_alloc", "nr_anon", "shmem_alloc"];

pub(crate) fn read(host: &HostRoot) -> Thp {
    Thp {
        enabled: host.choice_at(&path("enabled")),
        defrag: host.choice_at(&path("defrag")),
        shmem_enabled: host.choice_at(&path("shmem_enabled")),
        use_zero_page: host.flag_at(&path("use_zero_page")),
        shrink_underused: host.flag_at(&path("shrink_underused")),
        pmd_size: host.bytes_at(&path("hpage_pmd_size")),
        sizes: sizes(host),
        khugepaged: khugepaged(host),
    }
}

/// What rates are computed from: how long khugepaged ran and waited.
pub(crate) fn read_counters(host: &HostRoot) -> Thp {
    Thp { khugepaged: khugepaged_times(host), ..Thp::default() }
}

fn path(file: &str) -> String {
    format!("{FOLDER}/{file}")
}

fn sizes(host: &HostRoot) -> Vec<ThpSize> {
    let sizes = by_huge_page_size(host, FOLDER).into_iter();
    sizes.map(|(bytes, name)| size(host, &path(&name), bytes)).collect()
}

const ANON_ONLY: &str = "this kernel has no shmem pages of this size";
const SHMEM_ONLY: &str = "pages of this size are for shmem only";

fn size(host: &HostRoot, folder: &str, bytes: Bytes) -> ThpSize {
    let enabled = policy(host, folder, "enabled", SHMEM_ONLY);
    let shmem_enabled = policy(host, folder, "shmem_enabled", ANON_ONLY);
    let forbidden = [&enabled, &shmem_enabled].into_iter().all(forbids);
    let stats = stats(host, &format!("{folder}/stats"), forbidden);
    ThpSize { bytes, enabled, shmem_enabled, stats }
}

/// Whether a policy certainly gives out no page; one that cannot be read might.
fn forbids(policy: &Reading<Choice>) -> bool {
    match &policy.outcome {
        Outcome::Value(choice) => choice.active.as_str() == "never",
        Outcome::Absent(why) => [ANON_ONLY, SHMEM_ONLY].contains(&&**why),
        Outcome::Denied(_) => false,
    }
}

fn policy(host: &HostRoot, folder: &str, file: &str, why_none: &'static str) -> Reading<Choice> {
    explained(host.choice_at(&format!("{folder}/{file}")), NO_SUCH_FILE, why_none)
}

fn stats(host: &HostRoot, folder: &str, forbidden: bool) -> Counters {
    host.hold(folder);
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
        let why = Reading::absent(NOT_READ, Source::file(absolute(folder)));
        return telling.into_iter().collect::<Counters>().and_unread(why);
    }
    others.into_iter().map(read).chain(telling).collect()
}

const NOT_READ: &str = "not read: this size is allowed to nobody and was never given out";

fn khugepaged(host: &HostRoot) -> Khugepaged {
    Khugepaged {
        defrag: host.flag_at(&path("khugepaged/defrag")),
        pages_to_scan: host.number_at(&path("khugepaged/pages_to_scan")),
        scan_sleep: host.millis_at(&path("khugepaged/scan_sleep_millisecs")),
        alloc_sleep: host.millis_at(&path("khugepaged/alloc_sleep_millisecs")),
        max_ptes_none: host.number_at(&path("khugepaged/max_ptes_none")),
        max_ptes_swap: host.number_at(&path("khugepaged/max_ptes_swap")),
        max_ptes_shared: host.number_at(&path("khugepaged/max_ptes_shared")),
        pages_collapsed: host.number_at(&path("khugepaged/pages_collapsed")),
        ..khugepaged_times(host)
    }
}

/// The thread and its times; its full scans, because a kernel without them has no such thread.
fn khugepaged_times(host: &HostRoot) -> Khugepaged {
    let full_scans = host.number_at(&path("khugepaged/full_scans"));
    let pid = after(&full_scans, |_| khugepaged_pid(host));
    let times = after(&pid, |pid| run_times(host, *pid));
    Khugepaged {
        full_scans,
        pid,
        cpu_time: times.clone().map(|times| times.on_cpu),
        run_queue_wait: times.map(|times| times.waiting),
        ..Khugepaged::default()
    }
}

/// The reading that `first` leads to, or why there is no first.
fn after<A, B>(first: &Reading<A>, next: impl FnOnce(&A) -> Reading<B>) -> Reading<B> {
    match &first.outcome {
        Outcome::Value(value) => next(value),
        Outcome::Absent(why) => Reading::absent(why.clone(), first.source.clone()),
        Outcome::Denied(help) => Reading::denied(help.clone(), first.source.clone()),
    }
}

/// khugepaged's process id.
pub(crate) fn khugepaged_pid(host: &HostRoot) -> Reading<u32> {
    let parent = explained(host.name_at("proc/2/comm"), NO_SUCH_FILE, NO_THREADS);
    after(&parent, |name| match name.as_str() {
        "kthreadd" => khugepaged_among(host, &kernel_threads(host)),
        _ => Reading::absent(NO_THREADS, parent.source.clone()),
    })
}

const NO_THREADS: &str = "no kernel threads are visible from here";

fn khugepaged_among(host: &HostRoot, threads: &[u32]) -> Reading<u32> {
    let looked_at = &threads[..threads.len().min(KERNEL_THREADS)];
    let proc = Source::file("/proc");
    match looked_at.iter().find(|&&pid| is_khugepaged(host, pid)) {
        Some(&pid) => Reading::found(pid, Source::file(format!("/proc/{pid}/comm"))),
        None if looked_at.len() < threads.len() => {
            let why = format!("khugepaged is not among the first {KERNEL_THREADS} kernel threads");
            Reading::absent(why, proc)
        }
        None => Reading::absent("khugepaged is not running", proc),
    }
}

/// Kernel threads, oldest first: the kernel's own list of kthreadd's children where it keeps one,
/// else every process.
pub(crate) fn kernel_threads(host: &HostRoot) -> Vec<u32> {
    match host.bytes("proc/2/task/2/children") {
        Ok(children) => words(&children).filter_map(number).take(KERNEL_THREADS + 1).collect(),
        Err(_) => host.numbered("proc", ""),
    }
}

fn is_khugepaged(host: &HostRoot, pid: u32) -> bool {
    let comm = host.bytes(&format!("proc/{pid}/comm"));
    comm.is_ok_and(|name| name.trim_ascii() == b"khugepaged") && is_kernel_thread(host, pid)
}

/// Whether kthreadd is the parent: `38 (khugepaged) S 2 …`. The name may hold any byte, so what
/// follows its last parenthesis counts.
pub(crate) fn is_kernel_thread(host: &HostRoot, pid: u32) -> bool {
    let Ok(stat) = host.bytes(&format!("proc/{pid}/stat")) else { return false };
    let after_name = stat.rsplit(|&byte| byte == b')').next().unwrap_or_default();
    words(after_name).nth(1) == Some(b"2")
}

/// Where a thread's time went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTimes {
    pub(crate) on_cpu: Nanos,
    waiting: Nanos,
}

/// `schedstat`: time on a CPU, time waiting for one, times it was given one.
pub(crate) fn run_times(host: &HostRoot, pid: u32) -> Reading<RunTimes> {
    let three = |text: &[u8]| {
        let all: Option<Vec<u64>> = words(text).take(4).map(number).collect();
        <[u64; 3]>::try_from(all?).ok()
    };
    let read = host.value(&format!("proc/{pid}/schedstat"), "three whole numbers", three);
    read.and_then(|times| match times {
        // a thread that exists has run: this is how a kernel says that it does not count
        [0, 0, 0] => Err("scheduler statistics are switched off".into()),
        [on_cpu, waiting, _] => {
            Ok(RunTimes { on_cpu: Nanos::new(on_cpu), waiting: Nanos::new(waiting) })
        }
    })
}

#[cfg(test)]
mod tests {
    use pagewise_model::Millis;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangled};

    const STAT: &str = "38 (khugepaged) S 2 0 0 0 -1 2097216 0 0 0 0 0 0 0 0 39 19 1 0 30 0 0\n";

    /// A host where kthreadd has these children; the last is khugepaged.
    fn threads() -> Vec<(&'static str, &'static str)> {
        vec![
            ("sys/kernel/mm/transparent_hugepage/khugepaged/full_scans", "3\n"),
            ("proc/2/comm", "kthreadd\n"),
            ("proc/2/task/2/children", "3 37 38 "),
            ("proc/3/comm", "pool_workqueue_release\n"),
            ("proc/37/comm", "ksmd\n"),
            ("proc/38/comm", "khugepaged\n"),
            ("proc/38/stat", STAT),
            ("proc/38/schedstat", "6640 200371 2\n"),
        ]
    }

    fn without(path: &str) -> HostRoot {
        host(threads().into_iter().filter(|(name, _)| *name != path))
    }

    fn with(path: &'static str, text: &'static str) -> HostRoot {
        let others = threads().into_iter().filter(|(name, _)| *name != path);
        host(others.chain([(path, text)]))
    }

    fn why_no_pid(host: &HostRoot) -> String {
        match khugepaged(host).pid.outcome {
            Outcome::Absent(why) => why.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn global_settings_are_words_flags_and_a_size() {
        let thp = read(&host([
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            (
                "sys/kernel/mm/transparent_hugepage/defrag",
                "always defer defer+madvise [madvise] never\n",
            ),
            (
                "sys/kernel/mm/transparent_hugepage/shmem_enabled",
                "always within_size advise [never] deny force\n",
            ),
            ("sys/kernel/mm/transparent_hugepage/use_zero_page", "1\n"),
            ("sys/kernel/mm/transparent_hugepage/shrink_underused", "0\n"),
            ("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n"),
        ]));
        let words = [&thp.enabled, &thp.defrag, &thp.shmem_enabled]
            .map(|r| r.value().unwrap().active.to_string());
        assert_eq!(words, ["madvise", "madvise", "never"]);
        assert_eq!(
            (thp.use_zero_page.get(), thp.shrink_underused.get()),
            (Some(true), Some(false))
        );
        assert_eq!(thp.pmd_size.get(), Some(Bytes::new(2 << 20)));
        assert!(thp.sizes.is_empty());
    }

    #[test]
    fn sizes_come_smallest_first_with_their_statistics() {
        let thp = read(&host([
            (
                "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled",
                "always [inherit] madvise never\n",
            ),
            ("sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/swpin", "7\n"),
            ("sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/anon_fault_alloc", "5\n"),
            (
                "sys/kernel/mm/transparent_hugepage/hugepages-8kB/shmem_enabled",
                "always inherit within_size advise [never]\n",
            ),
        ]));
        let [small, large] = thp.sizes.as_slice() else { panic!("{:?}", thp.sizes) };
        assert_eq!((small.bytes, large.bytes), (Bytes::new(8 << 10), Bytes::new(2 << 20)));
        assert_eq!(
            small.enabled.outcome,
            Outcome::Absent("pages of this size are for shmem only".into())
        );
        assert_eq!(small.shmem_enabled.value().unwrap().active.as_str(), "never");
        assert_eq!(large.enabled.value().unwrap().active.as_str(), "inherit");
        assert_eq!((large.stats.len(), large.stats.get("anon_fault_alloc").get()), (2, Some(5)));
    }

    #[test]
    fn settings_of_khugepaged_keep_their_units() {
        let path = "sys/kernel/mm/transparent_hugepage/khugepaged";
        let files = [
            "defrag",
            "pages_to_scan",
            "scan_sleep_millisecs",
            "alloc_sleep_millisecs",
            "max_ptes_none",
            "max_ptes_swap",
            "max_ptes_shared",
            "pages_collapsed",
            "full_scans",
        ]
        .map(|file| format!("{path}/{file}"));
        let values = ["1", "4096", "10000", "60000", "511", "64", "256", "12", "3"];
        let host = host(files.iter().map(String::as_str).zip(values));
        let read = khugepaged(&host);
        assert_eq!((read.defrag.get(), read.pages_to_scan.get()), (Some(true), Some(4096)));
        assert_eq!(read.scan_sleep.get(), Some(Millis::new(10_000)));
        assert_eq!(read.alloc_sleep.get(), Some(Millis::new(60_000)));
        let limits =
            [&read.max_ptes_none, &read.max_ptes_swap, &read.max_ptes_shared].map(Reading::get);
        assert_eq!(limits, [Some(511), Some(64), Some(256)]);
        assert_eq!((read.pages_collapsed.get(), read.full_scans.get()), (Some(12), Some(3)));
    }

    #[test]
    fn khugepaged_is_found_with_its_times() {
        let read = khugepaged(&host(threads()));
        assert_eq!(read.pid, Reading::found(38, Source::file("/proc/38/comm")));
        let at = Source::file("/proc/38/schedstat");
        assert_eq!(read.cpu_time, Reading::found(Nanos::new(6640), at.clone()));
        assert_eq!(read.run_queue_wait, Reading::found(Nanos::new(200_371), at));
    }

    #[test]
    fn a_kernel_that_keeps_no_list_of_children_is_searched() {
        assert_eq!(khugepaged(&without("proc/2/task/2/children")).pid.get(), Some(38));
    }

    /// The statistics of a 64 KiB page with these policies and so many pages given out.
    fn swapped_in(
        anon: &'static str,
        shmem: &'static str,
        given_out: &'static str,
    ) -> Outcome<u64> {
        let files = [
            ("sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", anon),
            ("sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled", shmem),
            ("sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/anon_fault_alloc", given_out),
            ("sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/nr_anon", "0\n"),
            ("sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/swpin", "7\n"),
        ];
        let thp = read(&host(files.into_iter().filter(|(_, text)| !text.is_empty())));
        thp.sizes[0].stats.get("swpin").outcome
    }

    #[test]
    fn statistics_of_a_size_that_nobody_gets_or_got_are_not_read() {
        let (never, always) = ("always inherit madvise [never]", "[always] inherit madvise never");
        assert_eq!(swapped_in(never, never, "0\n"), Outcome::Absent(NOT_READ.into()));
        assert_eq!(swapped_in(never, "", "0\n"), Outcome::Absent(NOT_READ.into()));
        for (anon, shmem, given_out) in [
            (always, never, "0\n"),
            (never, always, "0\n"),
            (never, never, "1\n"),
            (never, never, "?\n"),
            ("?", never, "0\n"),
        ] {
            let read = swapped_in(anon, shmem, given_out);
            assert_eq!(read, Outcome::Value(7), "{anon} {shmem} {given_out}");
        }
    }

    #[test]
    fn a_program_of_that_name_is_not_khugepaged() {
        let impostor = with("proc/38/stat", "38 (khugepaged) S 2) S 1 38 38\n");
        assert_eq!(why_no_pid(&impostor), "khugepaged is not running");
    }

    #[test]
    fn not_running_and_not_visible_and_not_built_are_three_things() {
        assert_eq!(why_no_pid(&without("proc/38/comm")), "khugepaged is not running");
        assert_eq!(why_no_pid(&without("proc/2/comm")), NO_THREADS);
        assert_eq!(why_no_pid(&with("proc/2/comm", "bash\n")), NO_THREADS);
        let no_thp = without("sys/kernel/mm/transparent_hugepage/khugepaged/full_scans");
        assert_eq!(why_no_pid(&no_thp), "no such file");
        assert!(khugepaged(&no_thp).cpu_time.get().is_none());
    }

    #[test]
    fn zeros_of_a_kernel_that_does_not_count_are_no_times() {
        let host = with("proc/38/schedstat", "0 0 0\n");
        let read = khugepaged(&host);
        let why = Outcome::Absent("scheduler statistics are switched off".into());
        assert_eq!((read.cpu_time.outcome, read.pid.get()), (why, Some(38)));
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn the_search_ends_and_says_that_it_did() {
        let children: String = (3..20_000).map(|pid| format!("{pid} ")).collect();
        let children: &'static str = children.leak();
        let why = "khugepaged is not among the first 4096 kernel threads";
        let far = with("proc/2/task/2/children", children);
        assert_eq!(khugepaged(&far).pid.get(), Some(38));
        let mut files = threads();
        files.retain(|(path, _)| *path != "proc/38/comm" && *path != "proc/2/task/2/children");
        let names: Vec<String> = (100..5000).map(|pid| format!("proc/{pid}/stat")).collect();
        let listed = names.iter().map(|name| (name.as_str(), "")).chain(files.clone());
        assert_eq!(why_no_pid(&host(listed)), why);
        files.push(("proc/2/task/2/children", children));
        assert_eq!(why_no_pid(&host(files)), why);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            words in mangled("always [madvise] never\n"),
            children in mangled("3 37 38 "),
            stat in mangled(STAT),
            times in mangled("6640 200371 2\n"),
        ) {
            let mut files: Vec<(&str, Vec<u8>)> =
                threads().into_iter().map(|(path, text)| (path, text.into())).collect();
            files[2].1 = children;
            files[6].1 = stat;
            files[7].1 = times.clone();
            files.push(("sys/kernel/mm/transparent_hugepage/enabled", words.clone()));
            files.push(("sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", words));
            files.push(("sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/split", times));
            read(&host(files));
        }
    }
}
