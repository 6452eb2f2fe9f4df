// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zmerge devices.

use pagewise_hostfs::{Entry, HostRoot, ReadHost, Refusal};
use pagewise_model::{
    Bytes, Name, Outcome, Pages, Percent, Problem, Reading, Source, Zram, ZramUse,
};
use proptest::prelude::*;

use crate::glance;
use crate::testing::file;

/// Files as the module prints them.
fn files() -> Vec<(String, Entry)> {
    let at = |name: &str, text: &str| file(format!("sys/block/zmerge0/{name}"), text);
    vec![
        at("initstate", "1\n"),
        at("disksize", "67108864\n"),
        at("comp_algorithm", "[lz4] zstd \n"),
        at(
            "mm_stat",
            " 8192000  4096000  5242880        0  6291456       12        7        9        9\n",
        ),
        at("io_stat", "       0        0        0       31\n"),
        at("merge_mode", "off request [inline] adaptive \n"),
        at("merge_domain", "device [cgroup]\n"),
        at("merge_budget", "1048576\n"),
        at("merge_rate", "0\n"),
        at("merge", "0\n"),
        at("merged_pages", "500\n"),
        at("merged_bytes", "1024000\n"),
        at("index_bytes", "40960\n"),
        at("merge_hits", "501\n"),
        at("merge_misses", "1503\n"),
        file(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/zmerge0 partition 65532 8000 100\n",
        ),
    ]
}

fn only(files: Vec<(String, Entry)>) -> (Zram, Vec<Problem>) {
    let mut found = glance(&HostRoot::memory(files));
    assert_eq!(found.zmerge.len(), 1);
    (found.zmerge.remove(0), found.problems)
}

#[test]
fn it_is_a_device_of_compressed_ram_that_also_merges() {
    let (device, problems) = only(files());
    assert_eq!(device.name(), "zmerge0");
    assert_eq!(device.mm_stat.original.get(), Some(Bytes::new(8_192_000)));
    assert_eq!(device.original_per_compressed.unwrap().get(), 2.0);
    assert_eq!(device.slot_table.get(), Some(Bytes::new(16 * 16_384)));
    assert_eq!(device.used_as.value(), Some(&ZramUse::Swap { priority: 100 }));
    let merging = device.merging.unwrap();
    assert_eq!(merging.mode.value().unwrap().active, Name::from("inline"));
    assert!(merging.is_within_cgroups());
    assert_eq!((merging.budget.get(), merging.rate.get()), (Some(Bytes::new(1 << 20)), Some(0)));
    assert_eq!(merging.merged_pages.get(), Some(Pages::new(500)));
    assert_eq!(merging.merged_bytes.get(), Some(Bytes::new(1_024_000)));
    assert_eq!(
        merging.index_bytes,
        Reading::found(Bytes::new(40_960), Source::file("/sys/block/zmerge0/index_bytes"))
    );
    assert_eq!(merging.hit_percent, Some(Percent::new(25.0)));
    assert_eq!((merging.count_searches(), merging.is_inline()), (Some(2004), true));
    assert!(problems.is_empty());
}

#[test]
fn what_zram_alone_has_is_absent_and_no_problem() {
    let (device, problems) = only(files());
    assert!(device.secondary.is_empty() && device.backing_device.value().is_none());
    assert!(device.bd_stat.held.value().is_none() && device.debug_stat.version.value().is_none());
    assert!(problems.is_empty());
}

/// Only root may read the files that show whether a given page is stored already.
#[test]
fn what_only_root_may_read_is_denied_and_not_zero() {
    const FOR_ROOT: [&str; 6] =
        ["mm_stat", "merged_pages", "merged_bytes", "index_bytes", "merge_hits", "merge_misses"];
    let mut files = files();
    for (path, entry) in &mut files {
        if FOR_ROOT.iter().any(|name| path.ends_with(&format!("/{name}"))) {
            *entry = Entry::Refused(Refusal::Denied("run as root".into()));
        }
    }
    let (device, problems) = only(files);
    assert!(matches!(device.mm_stat.original.outcome, Outcome::Denied(_)));
    assert!(matches!(device.mm_stat.memory_used.outcome, Outcome::Denied(_)));
    let merging = device.merging.unwrap();
    assert!(matches!(merging.merged_pages.outcome, Outcome::Denied(_)));
    assert!(matches!(merging.merged_bytes.outcome, Outcome::Denied(_)));
    assert!(matches!(merging.index_bytes.outcome, Outcome::Denied(_)));
    assert!(matches!(merging.hits.outcome, Outcome::Denied(_)));
    assert!(matches!(merging.misses.outcome, Outcome::Denied(_)));
    assert_eq!((merging.hit_percent, merging.count_searches()), (None, None));
    assert_eq!(merging.mode.value().unwrap().active, Name::from("inline"));
    assert!(problems.is_empty());
}

/// For a module without domains the files are absent, without a Problem, and the mode is not
/// "device".
#[test]
fn files_that_an_older_module_does_not_have_are_absent() {
    let mut files = files();
    files.retain(|(path, _)| {
        !["merge_domain", "merge_budget", "merge_rate"].iter().any(|name| path.ends_with(name))
    });
    let (device, problems) = only(files);
    let merging = device.merging.unwrap();
    assert!(merging.domain.value().is_none() && !merging.is_within_cgroups());
    assert_eq!((merging.budget.get(), merging.rate.get()), (None, None));
    assert!(problems.is_empty());
}

#[test]
fn nothing_looked_for_has_no_share() {
    let mut files = files();
    files.retain(|(path, _)| !path.ends_with("merge_hits") && !path.ends_with("merge_misses"));
    files.push(file("sys/block/zmerge0/merge_hits", "0\n"));
    files.push(file("sys/block/zmerge0/merge_misses", "0\n"));
    assert_eq!(only(files).0.merging.unwrap().hit_percent, None);
}

#[test]
fn what_acts_when_it_is_written_is_never_read() {
    let host = HostRoot::memory(files()).start_remembering();
    assert_eq!(glance(&host).zmerge.len(), 1);
    let asked = host.into_remembered_files();
    for acting in ["reset", "compact", "mem_limit", "mem_used_max", "algorithm_params", "hot_add"] {
        assert!(!asked.keys().any(|path| path.ends_with(acting)), "{acting}");
    }
}

#[test]
fn zram_is_not_zmerge() {
    let host = HostRoot::memory([file("sys/block/zram0/initstate", "1\n")]);
    assert!(glance(&host).zmerge.is_empty());
    let host = HostRoot::memory(files());
    assert!(glance(&host).zram.is_empty());
}

proptest! {
    /// No content of a device file makes the reader fail.
    #[test]
    fn any_bytes_are_survived(
        name in prop::sample::select(vec![
            "merge_mode", "merge", "merged_pages", "merged_bytes", "index_bytes", "merge_hits",
            "merge_misses",
        ]),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut files = files();
        files.retain(|(path, _)| !path.ends_with(&format!("/{name}")));
        files.push(file(format!("sys/block/zmerge0/{name}"), bytes));
        let _ = only(files);
    }
}
