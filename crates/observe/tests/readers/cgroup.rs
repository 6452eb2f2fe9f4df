// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cgroups of both versions.

use pagewise_hostfs::{Entry, HostRoot, Refusal};
use pagewise_model::{Bytes, Cgroup, Cgroups, Hierarchy, Limit, Outcome, Problem};
use pagewise_observe::{Scope, snapshot};
use proptest::prelude::*;

use crate::limit;
use crate::testing::{file, mangle};

const MOUNT_2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const MOUNT_1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
const MOUNT_BESIDE: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

/// In the format of Linux 6.12, shortened; the numbers are made up.
const STAT_2: &str = "anon 4096\nfile 8192\nkernel 100\nshmem 1024\nanon_thp 2048\nworkingset_refault_anon 3\nworkingset_refault_file 5\npgfault 10\npgmajfault 7\n";
const EVENTS_2: &str = "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 0\n";

/// From Linux 6.18, shortened.
const STAT_1: &str = "cache 9416704\nrss 13656064\nrss_huge 0\nshmem 9068544\nswap 0\nhierarchical_memory_limit 67108864\nhierarchical_memsw_limit 100663296\ntotal_cache 1735118848\ntotal_rss 212729856\ntotal_rss_huge 2097152\ntotal_shmem 9068544\ntotal_workingset_refault_anon 12\ntotal_workingset_refault_file 722684\ntotal_swap 4096\ntotal_pgmajfault 2629\n";
const CONTROL_1: &str = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";

fn groups() -> usize {
    limit("memory cgroups that are read in full")
}

type Tree = Vec<(String, Entry)>;

fn read_host(host: &HostRoot) -> (Cgroups, Vec<Problem>) {
    let found = snapshot(host, &Scope { cgroups: true, ..Scope::glance() });
    (found.cgroups, found.problems)
}

fn read_tree(files: Tree) -> (Cgroups, Vec<Problem>) {
    read_host(&HostRoot::memory(files))
}

fn unified() -> Tree {
    let mut tree = vec![
        file("proc/self/mountinfo", MOUNT_2),
        file("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
        file("sys/fs/cgroup/memory.stat", STAT_2),
        file("sys/fs/cgroup/nomem/cgroup.procs", ""),
        file("sys/fs/cgroup/nomem/sub/cgroup.procs", ""),
    ];
    let group = [
        ("stat", STAT_2),
        ("events", EVENTS_2),
        ("current", "16384\n"),
        ("peak", "20480\n"),
        ("min", "0\n"),
        ("low", "4096\n"),
        ("high", "max\n"),
        ("max", "65536\n"),
        ("swap.current", "12288\n"),
        ("swap.max", "max\n"),
        ("zswap.writeback", "0\n"),
    ];
    tree.extend(group.map(|(name, text)| file(format!("sys/fs/cgroup/a/memory.{name}"), text)));
    tree
}

fn version_1_tree(mounted: &str) -> Tree {
    let mut tree = vec![file("proc/self/mountinfo", mounted)];
    for group in ["sys/fs/cgroup/memory", "sys/fs/cgroup/memory/job"] {
        let files = [
            ("stat", STAT_1),
            ("oom_control", CONTROL_1),
            ("usage_in_bytes", "1000000\n"),
            ("max_usage_in_bytes", "2000000\n"),
            ("limit_in_bytes", "67108864\n"),
            ("memsw.limit_in_bytes", "100663296\n"),
            ("soft_limit_in_bytes", "9223372036854771712\n"),
            ("failcnt", "9\n"),
            ("swappiness", "60\n"),
        ];
        tree.extend(files.map(|(name, text)| file(format!("{group}/memory.{name}"), text)));
    }
    tree
}

/// The components of a group's path: sorting by them puts parents before children.
fn steps(group: &Cgroup) -> impl Iterator<Item = &str> {
    group.path.as_str().split('/').filter(|step| !step.is_empty())
}

fn paths(cgroups: &Cgroups) -> Vec<&str> {
    cgroups.groups.iter().map(|group| group.path.as_str()).collect()
}

fn size(bytes: u64) -> Option<Bytes> {
    Some(Bytes::new(bytes))
}

#[test]
fn version_2_groups_are_read_and_those_without_memory_are_not() {
    let (cgroups, problems) = read_tree(unified());
    assert_eq!(cgroups.hierarchy, Hierarchy::V2);
    assert_eq!(paths(&cgroups), ["/", "/a"]);
    let group = &cgroups.groups[1];
    assert_eq!((group.current.get(), group.peak.get()), (size(16384), size(20480)));
    assert_eq!((group.anon.get(), group.file.get()), (size(4096), size(8192)));
    assert_eq!((group.shmem.get(), group.anon_thp.get()), (size(1024), size(2048)));
    assert_eq!(group.low.get(), Some(Limit::Bytes(Bytes::new(4096))));
    assert_eq!((group.high.get(), group.swap_max.get()), (Some(Limit::Max), Some(Limit::Max)));
    assert_eq!((group.refault_anon.get(), group.refault_file.get()), (Some(3), Some(5)));
    assert_eq!(group.refault_file.source.to_string(), "/sys/fs/cgroup/a/memory.stat:7");
    assert_eq!((group.pgmajfault.get(), group.events.oom_kill.get()), (Some(7), Some(5)));
    assert_eq!(group.zswap_writeback.get(), Some(false));
    assert_eq!(group.zswap_current.outcome, Outcome::Absent("no such file".into()));
    assert_eq!(group.stat.get("kernel").get(), Some(100));
    assert_eq!(problems, []);
}

#[test]
fn the_top_of_version_2_has_no_limits_and_that_is_not_zero() {
    let (cgroups, _) = read_tree(unified());
    let root = &cgroups.groups[0];
    assert_eq!(root.anon.get(), size(4096));
    assert_eq!((root.current.get(), root.max.get(), root.events.max.get()), (None, None, None));
}

/// If an ancestor has a limit, the group may have none of its own, and its own file decides.
#[test]
fn a_version_1_group_under_no_limit_has_none_of_its_own() {
    let group = |limit: &str, own: Option<&str>| {
        let mut tree = version_1_tree(MOUNT_1);
        let stat = STAT_1.replace("memory_limit 67108864", &format!("memory_limit {limit}"));
        tree.retain(|(path, _)| !path.ends_with("memory.limit_in_bytes"));
        tree.push(file("sys/fs/cgroup/memory/job/memory.stat", stat));
        let own = own.map(|own| file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", own));
        tree.extend(own);
        read_tree(tree).0.groups.remove(1).max
    };
    let none = group("9223372036854771712", None);
    assert_eq!(none.get(), Some(Limit::Max));
    assert_eq!(none.source.to_string(), "/sys/fs/cgroup/memory/job/memory.stat:6");
    let above = group("4096", Some("9223372036854771712\n"));
    assert_eq!(above.get(), Some(Limit::Max));
    let place = "/sys/fs/cgroup/memory/job/memory.limit_in_bytes";
    assert_eq!(above.source.to_string(), place);
    assert_eq!(group("4096", Some("8192\n")).get(), Some(Limit::Bytes(Bytes::new(8192))));
    assert_eq!(group("many", None).get(), None);
}

#[test]
fn version_1_is_told_in_the_words_of_version_2() {
    let (cgroups, problems) = read_tree(version_1_tree(MOUNT_1));
    assert_eq!(cgroups.hierarchy, Hierarchy::V1);
    assert_eq!(paths(&cgroups), ["/", "/job"]);
    let group = &cgroups.groups[1];
    assert_eq!((group.anon.get(), group.file.get()), (size(212_729_856), size(1_735_118_848)));
    assert_eq!((group.anon_thp.get(), group.swap_current.get()), (size(2 << 20), size(4096)));
    assert_eq!(group.max.get(), Some(Limit::Bytes(Bytes::new(64 << 20))));
    assert_eq!(group.swap_max.get(), Some(Limit::Bytes(Bytes::new(32 << 20))));
    assert_eq!((group.refault_anon.get(), group.refault_file.get()), (Some(12), Some(722_684)));
    assert_eq!((group.events.max.get(), group.events.oom_kill.get()), (Some(9), Some(2)));
    assert_eq!(group.swappiness.get(), Some(60));
    assert_eq!(group.low.outcome, Outcome::Absent("cgroup v1 has no such limit".into()));
    assert!(group.pressure.some.avg10.get().is_none());
    assert_eq!(problems, []);
}

#[test]
fn without_swap_accounting_swap_is_absent() {
    let mut tree = version_1_tree(MOUNT_1);
    tree.retain(|(path, _)| !path.contains("memsw"));
    tree.push(file("sys/fs/cgroup/memory/job/memory.stat", STAT_1.replace("swap", "swop")));
    let (cgroups, _) = read_tree(tree);
    let group = &cgroups.groups[1];
    assert_eq!((group.swap_current.get(), group.swap_max.get()), (None, None));
}

#[test]
fn the_tree_that_has_the_memory_controller_counts() {
    let hierarchy = |tree: Tree| read_tree(tree).0.hierarchy;
    let both = [MOUNT_1, MOUNT_BESIDE].concat();
    assert_eq!(hierarchy(version_1_tree(&both)), Hierarchy::Hybrid);
    assert_eq!(hierarchy(version_1_tree(MOUNT_BESIDE)), Hierarchy::None);
    assert_eq!(hierarchy(Tree::new()), Hierarchy::None);
    let mut unified_wins = version_1_tree(MOUNT_BESIDE);
    unified_wins.push(file("sys/fs/cgroup/unified/cgroup.controllers", "memory"));
    assert_eq!(hierarchy(unified_wins), Hierarchy::V2);
}

#[test]
fn a_group_that_we_may_not_read_is_still_a_group() {
    let mut tree = unified();
    let denied = || Entry::Refused(Refusal::Denied("run as root".into()));
    for name in ["stat", "current"] {
        tree.push((format!("sys/fs/cgroup/secret/memory.{name}"), denied()));
    }
    let (cgroups, _) = read_tree(tree);
    assert_eq!(paths(&cgroups), ["/", "/a", "/secret"]);
    let secret = &cgroups.groups[2];
    assert!(secret.current.is_denied() && secret.anon.is_denied());
}

#[test]
fn children_stand_right_below_their_parent() {
    let mut tree = vec![file("proc/self/mountinfo", MOUNT_1)];
    for path in ["", "/a", "/a/z", "/a-b", "/a.slice", "/b"] {
        tree.push(file(format!("sys/fs/cgroup/memory{path}/memory.stat"), STAT_1));
    }
    assert_eq!(paths(&read_tree(tree).0), ["/", "/a", "/a/z", "/a-b", "/a.slice", "/b"]);
}

#[test]
fn what_is_left_out_is_counted_and_lies_deepest() {
    let mut tree = vec![file("proc/self/mountinfo", MOUNT_1)];
    tree.push(file("sys/fs/cgroup/memory/memory.stat", STAT_1));
    for n in 0..groups() / 2 {
        tree.push(file(format!("sys/fs/cgroup/memory/{n}/memory.stat"), "total_rss 1\n"));
        tree.push(file(format!("sys/fs/cgroup/memory/{n}/sub/memory.stat"), "total_rss 1\n"));
    }
    let (cgroups, _) = read_tree(tree);
    assert_eq!((cgroups.groups.len(), cgroups.left_out), (groups(), 1));
}

/// Of thousands of groups the deepest may be the one that matters.
#[test]
fn the_largest_and_the_most_hurt_are_kept_wherever_they_are() {
    const MANY: usize = 5000;
    for (mounted, mount, usage, kills) in [
        (MOUNT_1, "sys/fs/cgroup/memory", "usage_in_bytes", "oom_control"),
        (MOUNT_2, "sys/fs/cgroup", "current", "events"),
    ] {
        let mut tree = vec![file("proc/self/mountinfo", mounted)];
        tree.push(file("sys/fs/cgroup/cgroup.controllers", "memory\n"));
        tree.push(file(format!("{mount}/memory.stat"), "anon 1\n"));
        let mut add = |path: &str, bytes: u64, killed: u64| {
            let group = format!("{mount}/{path}/memory");
            tree.push(file(format!("{group}.stat"), "anon 1\n"));
            tree.push(file(format!("{group}.{usage}"), format!("{bytes}\n")));
            tree.push(file(format!("{group}.{kills}"), format!("oom_kill {killed}\n")));
        };
        for n in 0..MANY {
            add(&format!("{n:04}"), 4096, 0);
        }
        add("0001/deep", 4096, 0);
        add("0001/deep/large", 1 << 30, 0);
        add("0001/deep/killed", 4096, 3);
        let (cgroups, problems) = read_tree(tree);
        assert_eq!(cgroups.groups.len(), groups());
        assert_eq!(cgroups.left_out, (MANY + 4 - groups()) as u64);
        let found = |path: &str| cgroups.groups.iter().find(|group| group.path.as_str() == path);
        assert_eq!(found("/0001/deep/large").unwrap().current.get(), size(1 << 30));
        assert_eq!(found("/0001/deep/killed").unwrap().events.oom_kill.get(), Some(3));
        assert!(cgroups.groups.is_sorted_by(|a, b| steps(a).le(steps(b))));
        assert_eq!(problems, []);
    }
}

#[test]
fn a_group_that_vanishes_while_it_is_read_is_not_listed() {
    let mut tree = version_1_tree(MOUNT_1);
    // a group whose folder was listed but whose files no longer exist
    tree.push(file("sys/fs/cgroup/memory/gone/cgroup.procs", ""));
    let (cgroups, problems) = read_tree(tree);
    assert_eq!(paths(&cgroups), ["/", "/job"]);
    assert_eq!((cgroups.left_out, problems), (0, vec![]));
}

#[test]
fn a_bottomless_tree_ends() {
    let deep = "x/".repeat(5000);
    let mut tree = version_1_tree(MOUNT_1);
    for depth in 1..100 {
        let path = &deep[..depth * 2];
        tree.push(file(format!("sys/fs/cgroup/memory/{path}memory.stat"), "total_rss 1\n"));
    }
    tree.push(file(format!("sys/fs/cgroup/memory/{deep}memory.stat"), "total_rss 1\n"));
    // the root, its job, and the groups down to the maximum depth
    assert_eq!(read_tree(tree).0.groups.len(), 2 + limit("levels of memory cgroups"));
}

/// Reads the cgroup tree of this machine, of either version.
#[test]
fn the_live_tree_is_read_without_a_problem() {
    let live = HostRoot::live().unwrap();
    let (cgroups, problems) = read_host(&live);
    assert_eq!(cgroups.groups.is_empty(), cgroups.hierarchy == Hierarchy::None);
    for group in &cgroups.groups {
        assert!(group.anon.get().is_some(), "{}", group.path);
    }
    let about_groups = |problem: &&Problem| problem.path.as_str().contains("cgroup");
    assert_eq!(problems.iter().find(about_groups), None);
}

proptest! {
    #[test]
    fn no_file_of_a_group_panics(
        stat in mangle(STAT_1),
        events in mangle(EVENTS_2),
        control in mangle(CONTROL_1),
        limit in mangle("9223372036854771712\n"),
    ) {
        for mut tree in [unified(), version_1_tree(MOUNT_1)] {
            let top = tree.iter().find(|(path, _)| path.ends_with("memory.stat")).unwrap();
            let folder = top.0.trim_end_matches("memory.stat").to_owned();
            let spoiled = [("stat", &stat), ("events", &events), ("oom_control", &control),
                ("max", &limit), ("limit_in_bytes", &limit), ("memsw.limit_in_bytes", &limit)];
            for group in ["a", "job"] {
                tree.extend(spoiled.map(|(name, bytes)| {
                    file(format!("{folder}{group}/memory.{name}"), bytes)
                }));
            }
            let _ = read_tree(tree);
        }
    }
}
