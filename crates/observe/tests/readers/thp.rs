// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages and khugepaged.

use pagewise_hostfs::HostRoot;
use pagewise_model::{Bytes, Khugepaged, Millis, Nanos, Outcome, Reading, Source, Thp};
use proptest::prelude::*;

use crate::glance;
use crate::testing::{host, mangle};

const STAT: &str = "38 (khugepaged) S 2 0 0 0 -1 2097216 0 0 0 0 0 0 0 0 39 19 1 0 30 0 0\n";

const NO_THREADS: &str = "no kernel threads are visible from here";
const NOT_READ: &str = "not read: this size is allowed to nobody and was never given out";

fn read(host: &HostRoot) -> Thp {
    glance(host).thp
}

fn khugepaged(host: &HostRoot) -> Khugepaged {
    read(host).khugepaged
}

/// A host with these children of kthreadd; the last is khugepaged.
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
    assert_eq!((thp.use_zero_page.get(), thp.shrink_underused.get()), (Some(true), Some(false)));
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

/// The `swpin` statistic of a 64 KiB page with these policies and number of allocations.
fn swapped_in(anon: &'static str, shmem: &'static str, given_out: &'static str) -> Outcome<u64> {
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
    let found = glance(&host);
    let read = found.thp.khugepaged;
    let why = Outcome::Absent("scheduler statistics are switched off".into());
    assert_eq!((read.cpu_time.outcome, read.pid.get()), (why, Some(38)));
    assert!(found.problems.is_empty());
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
        words in mangle("always [madvise] never\n"),
        children in mangle("3 37 38 "),
        stat in mangle(STAT),
        times in mangle("6640 200371 2\n"),
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
