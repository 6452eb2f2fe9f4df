// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons of recorded hosts, and of made-up ones against a naive second implementation.

use std::collections::BTreeMap;

use pagewise_compare::{Compared, compare};
use pagewise_model::{
    Bytes, Cgroup, Comparison, Interval, KernelThread, Millis, Name, Nanos, Percent, Presence,
    Process, ProgramChange, Reading, Relation, Snapshot, Source,
};
use pagewise_testkit::scene::{Scene, slugs};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn compared(before: Interval, after: Interval) -> Comparison {
    compare(before, after, ["calm".to_owned(), "tight".to_owned()]).comparison
}

fn single(before: Snapshot, after: Snapshot) -> Comparison {
    compared(Interval::single(before), Interval::single(after))
}

fn found<T>(value: T) -> Reading<T> {
    Reading::found(value, Source::file("/proc/x"))
}

/// A host that was booted at 1,000,000 s and read `seconds` after that.
fn host(boot_id: &str, seconds: u32) -> Snapshot {
    let mut host = Snapshot::default();
    host.taken.boot_id = found(Name::from(boot_id));
    host.taken.monotonic_seconds = seconds.into();
    host.taken.unix_seconds = 1e6 + f64::from(seconds);
    host.memory.total = found(Bytes::new(1 << 30));
    host
}

fn process(pid: u32, name: &str, begun: u64, mib: u64) -> Process {
    Process {
        pid,
        name: Name::from(name),
        start_time: found(Millis::new(begun)),
        rss_anon: found(Bytes::new(mib * MIB)),
        rss_file: found(Bytes::new(0)),
        rss_shmem: found(Bytes::new(0)),
        swap: found(Bytes::new(0)),
        cgroup: found(Name::from("/")),
        ..Process::default()
    }
}

fn counters(counts: &[(&str, u64)]) -> pagewise_model::Counters {
    counts.iter().map(|(name, count)| (Name::from(*name), found(*count))).collect()
}

/// A host compared with itself has no changes.
#[test]
fn nothing_differs_between_a_host_and_itself() {
    for slug in slugs() {
        let replay = || Scene::load(&slug).replay();
        let comparison = compared(replay(), replay());
        assert_eq!(comparison.relation, Relation::SameBoot, "{slug}");
        assert_eq!(comparison.settings, [], "{slug}");
        assert_eq!(comparison.processes, [], "{slug}");
        assert_eq!((comparison.cgroups, comparison.unmatched_cgroups), (vec![], 0), "{slug}");
        assert!(comparison.memory.iter().all(|it| it.before == it.after), "{slug}");
        assert!(comparison.effect.better.is_empty() && comparison.effect.worse.is_empty());
        assert_eq!(comparison.seconds, None, "{slug}");
    }
}

/// Two recordings of one machine, 68 minutes apart: their boot ids are hashed with different keys.
#[test]
fn the_same_boot_is_inferred_from_when_it_began() {
    let replay = |slug: &str| Scene::load(slug).replay();
    let before = replay("debian12-6.18-x86_64-24g-zram-swap");
    let after = replay("debian12-6.18-x86_64-24g-zram-swap-used");
    let swapped = |host: &Interval| host.end.vmstat.get("pswpout").get().unwrap();
    let expected = swapped(&after) - swapped(&before);
    let Compared { comparison, interval } =
        compare(before, after, ["before".to_owned(), "after".to_owned()]);
    assert_eq!(comparison.relation, Relation::SameBoot);
    let apart = comparison.seconds.unwrap();
    assert!((4105.0..4107.0).contains(&apart), "{apart}");
    let out = comparison.activity.iter().find(|it| it.name == "swapped out").unwrap();
    assert_eq!(out.between_count, Some(expected));
    assert!((out.between.unwrap() * apart - expected as f64).abs() < 1.0);
    assert_eq!(interval.seconds(), comparison.seconds);
    // the start times were not recorded, so numbered processes have no match
    let numbered = |it: &&ProgramChange| it.name.as_str().starts_with("proc-") && it.pid.is_none();
    let presences = comparison.processes.iter().filter(numbered).map(|it| it.presence);
    assert!(presences.into_iter().all(|it| it != Presence::Namesake));
}

#[test]
fn machines_that_differ_are_said_to_and_have_no_rates() {
    let all = slugs();
    let mut relations = BTreeMap::new();
    for pair in all.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|slug| Scene::load(slug).replay());
        let comparison = compared(before, after);
        *relations.entry(format!("{:?}", comparison.relation)).or_insert(0) += 1;
        assert!(!comparison.reasons.is_empty());
        if comparison.relation == Relation::SameBoot {
            continue;
        }
        assert_eq!(comparison.seconds, None);
        assert!(comparison.activity.iter().all(|it| it.between.is_none()));
        assert!(comparison.processes.iter().all(|it| it.pid.is_none()));
    }
    assert_eq!(relations.len(), 3, "{relations:?}");
}

#[test]
fn a_boot_between_is_noticed() {
    let relation = |before, after| single(before, after).relation;
    let later = || host("aa", 2000);
    assert_eq!(relation(host("bb", 1000), later()), Relation::SameBoot);
    assert_eq!(relation(host("b-b", 1000), host("a-a", 2000)), Relation::AnotherBoot);
    let mut earlier = host("bb", 1000);
    earlier.taken.unix_seconds -= 60.0;
    assert_eq!(relation(earlier.clone(), later()), Relation::AnotherBoot);
    // the clock was set, but three processes have equal start times long after the boot
    let list: Vec<Process> =
        (7..10).map(|pid| process(pid, "x", 30_010 * u64::from(pid), 1)).collect();
    let mut after = later();
    earlier.processes.list.clone_from(&list);
    after.processes.list = list;
    assert_eq!(relation(earlier.clone(), after.clone()), Relation::SameBoot);
    earlier.vmstat = counters(&[("pgfault", 10)]);
    after.vmstat = counters(&[("pgfault", 9)]);
    assert_eq!(relation(earlier, after), Relation::AnotherBoot);
    let mut small = later();
    small.memory.total = found(Bytes::new(1 << 29));
    assert_eq!(relation(host("bb", 1000), small), Relation::AnotherHost);
    let unknown = Snapshot::default();
    assert_eq!(relation(host("bb", 1), unknown), Relation::AnotherBoot);
}

#[test]
fn after_a_boot_there_are_averages_since_each() {
    let (mut before, mut after) = (host("b-b", 1000), host("a-a", 500));
    before.vmstat = counters(&[("pswpin", 3000)]);
    after.vmstat = counters(&[("pswpin", 500)]);
    let comparison = single(before, after);
    let swapped = comparison.activity.iter().find(|it| it.name == "swapped in").unwrap();
    assert_eq!((swapped.between, swapped.since_boot), (None, Some([3.0, 1.0])));
}

#[test]
fn kernel_threads_of_a_kind_are_added_up() {
    let threads = |times: &[(&str, u64)]| -> Vec<KernelThread> {
        let thread = |(name, seconds): &(&str, u64)| KernelThread {
            name: Name::from(*name),
            cpu_time: found(Nanos::new(seconds * 1_000_000_000)),
        };
        times.iter().map(thread).collect()
    };
    let (mut before, mut after) = (host("a-a", 1000), host("a-a", 1100));
    before.kernel_threads = threads(&[("kswapd0", 1), ("kswapd1", 2), ("khugepaged", 1)]);
    after.kernel_threads = threads(&[("kswapd0", 21), ("kswapd1", 7), ("khugepaged", 1)]);
    let shares: Vec<_> = single(before, after)
        .threads
        .iter()
        .map(|it| (it.name, it.between.map(Percent::get)))
        .collect();
    assert_eq!(shares, [("kswapd", Some(25.0)), ("khugepaged", Some(0.0))]);
}

fn group(path: &str, mib: u64) -> Cgroup {
    Cgroup { path: Name::from(path), current: found(Bytes::new(mib * MIB)), ..Cgroup::default() }
}

/// `cg-1` in one recording may be `cg-2` in another: only a process that exists in both shows
/// which.
#[test]
fn numbered_cgroups_are_matched_by_their_processes_alone() {
    let (mut before, mut after) = (host("bb", 1000), host("aa", 2000));
    before.cgroups.groups =
        vec![group("/cg-1", 10), group("/cg-2", 20), group("/cg-3", 4), group("/known", 1)];
    after.cgroups.groups = vec![group("/cg-1", 90), group("/cg-2", 50), group("/known", 7)];
    let within = |cgroup: &str| Process {
        cgroup: found(Name::from(cgroup)),
        ..process(7, "proc-1", 40_000, 1)
    };
    before.processes.list = vec![within("/cg-2")];
    after.processes.list = vec![within("/cg-1")];
    let comparison = single(before, after);
    let sizes = |it: &pagewise_model::GroupChange| {
        let size = |reading: &Reading<Bytes>| reading.get().map(|size| size.get() / MIB);
        (it.path.to_string(), it.presence, size(&it.memory_before), size(&it.memory_after))
    };
    let groups: Vec<_> = comparison.cgroups.iter().map(sizes).collect();
    let same = Presence::Same;
    let expected = [("/cg-1", same, 20, 90), ("/known", same, 1, 7)]
        .map(|(path, same, then, now)| (path.to_owned(), same, Some(then), Some(now)));
    assert_eq!(groups, expected);
    assert_eq!(comparison.unmatched_cgroups, 3, "two before and one after");
}

/// A machine that is read directly has names where its recording has numbers.
#[test]
fn a_recording_and_the_machine_are_matched_by_processes() {
    let (mut before, mut after) = (host("bb", 1000), host("a-a", 2000));
    before.taken.kernel = found(Name::from("6.18.44"));
    after.taken.kernel = found(Name::from("6.18.44-of-bank"));
    before.cgroups.groups = vec![group("/system.slice/cg-1.service", 10), group("/cg-2", 5)];
    after.cgroups.groups = vec![group("/system.slice/bank.service", 90), group("/secret", 50)];
    let within = |name: &str, cgroup: &str| Process {
        cgroup: found(Name::from(cgroup)),
        ..process(7, name, 40_000, 1)
    };
    before.processes.list = vec![within("proc-1", "/system.slice/cg-1.service")];
    after.processes.list = vec![within("bank", "/system.slice/bank.service")];
    let comparison = single(before, after);
    assert_eq!(comparison.settings, []);
    let [group] = &comparison.cgroups[..] else { panic!("{:?}", comparison.cgroups) };
    assert_eq!(
        (group.path.as_str(), group.presence),
        ("/system.slice/bank.service", Presence::Same)
    );
    assert_eq!(comparison.unmatched_cgroups, 2);
    assert_eq!(comparison.processes, []);
}

/// The suggested command contains, in both arms, the settings that changed and can be changed
/// temporarily.
#[test]
fn the_trial_that_would_tell_is_named() {
    let slug = "debian12-6.18-x86_64-24g-plain";
    let set = |swappiness: &str, peak: &str| {
        let scene = Scene::load(slug).file("proc/sys/vm/swappiness", swappiness);
        scene.file("proc/sys/vm/drop_caches", peak).replay()
    };
    let comparison = compared(set("60\n", "0\n"), set("10\n", "3\n"));
    let named: Vec<&str> = comparison.settings.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(named, ["vm.swappiness"]);
    let expected = "sudo pagewise trial --a vm.swappiness=60 --b vm.swappiness=10 -- CMD";
    assert_eq!(comparison.effect.trial.as_deref(), Some(expected));
    let unchanged = compared(set("60\n", "0\n"), set("60\n", "3\n"));
    assert_eq!(unchanged.effect.trial, None);
}

/// No trial is suggested for two machines, because they differ in more than settings.
#[test]
fn of_two_machines_no_trial_is_named() {
    let small = Scene::load("debian-sid-7.2-x86_64-512m-zram-full").replay();
    let comparison = compared(small, Scene::load("debian12-6.18-x86_64-24g-plain").replay());
    assert_eq!(comparison.relation, Relation::AnotherHost);
    let can_be_lent = comparison.settings.iter().any(|it| it.name == "thp.enabled");
    assert!(can_be_lent, "{:?}", comparison.settings);
    assert_eq!(comparison.effect.trial, None);
}

/// A process: id, name, start in milliseconds, MiB.
type Row = (u32, &'static str, u64, u64);

fn any_processes() -> impl Strategy<Value = Vec<Row>> {
    let one = (
        prop::sample::select(vec!["a", "b", "proc-1"]),
        prop::sample::select(vec![30_000_u64, 40_000]),
        0_u64..4,
    );
    prop::collection::btree_map(1_u32..9, one, 0..8).prop_map(|all| {
        all.into_iter().map(|(pid, (name, begun, mib))| (pid, name, begun, mib)).collect()
    })
}

/// The changes as text, found by a naive search: `a 1 2→3`, or `a ×2 4→0` for all others of a name.
fn naive(before: &[Row], after: &[Row]) -> Vec<String> {
    let is_same = |one: &Row, other: &Row| one.0 == other.0 && one.2 == other.2;
    let mut changes = Vec::new();
    for now in after {
        for then in before.iter().filter(|then| is_same(then, now)) {
            if then.3 != now.3 {
                changes.push(format!("{} {} {}→{}", now.1, now.0, then.3, now.3));
            }
        }
    }
    for name in ["a", "b", "proc-1"] {
        let rest = |rows: &[Row], others: &[Row]| -> (usize, u64) {
            let is_rest = |row: &&Row| row.1 == name && !others.iter().any(|it| is_same(it, row));
            let rest: Vec<&Row> = rows.iter().filter(is_rest).collect();
            (rest.len(), rest.iter().map(|row| row.3).sum())
        };
        let (then, now) = (rest(before, after), rest(after, before));
        if then.1 != now.1 {
            changes.push(format!("{name} ×{}→{} {}→{}", then.0, now.0, then.1, now.1));
        }
    }
    changes.sort();
    changes
}

fn described(changes: &[ProgramChange]) -> Vec<String> {
    let mib = |size: Option<Bytes>| size.map_or(0, |size| size.get() / MIB);
    let describe = |it: &ProgramChange| {
        let sizes = format!("{}→{}", mib(it.resident_before), mib(it.resident_after));
        match it.pid {
            Some(pid) => format!("{} {pid} {sizes}", it.name),
            None => format!("{} ×{}→{} {sizes}", it.name, it.count_before, it.count_after),
        }
    };
    let mut all: Vec<String> = changes.iter().map(describe).collect();
    all.sort();
    all
}

proptest! {
    /// Processes are matched as by the naive implementation; the names of one host identify
    /// programs.
    #[test]
    fn processes_are_those_of_the_naive_comparison(
        before in any_processes(),
        after in any_processes(),
    ) {
        // the same process keeps its name; if a process changed its name, the second one is
        // reported
        let renamed = |row: &Row| {
            let same = before.iter().find(|then| then.0 == row.0 && then.2 == row.2);
            (row.0, same.map_or(row.1, |then| then.1), row.2, row.3)
        };
        let after: Vec<Row> = after.iter().map(renamed).collect();
        let snapshot = |seconds, rows: &[Row]| {
            let mut host = host("a-a", seconds);
            let list = rows.iter().map(|&(pid, name, begun, mib)| process(pid, name, begun, mib));
            host.processes.list = list.collect();
            host
        };
        let comparison = single(snapshot(1000, &before), snapshot(2000, &after));
        prop_assert_eq!(described(&comparison.processes), naive(&before, &after));
    }

    /// Every counter has its difference and rate; a counter that decreased has none.
    #[test]
    fn rates_are_differences_by_time(then in 0_u64..1000, more in -5_i64..1000, apart in 1_u32..5000) {
        let now = then.saturating_add_signed(more);
        let (mut before, mut after) = (host("a-a", 1000), host("a-a", 1000 + apart));
        before.vmstat = counters(&[("pgmajfault", then)]);
        after.vmstat = counters(&[("pgmajfault", now)]);
        let comparison = single(before, after);
        let faults = comparison.activity.iter().find(|it| it.name == "major faults");
        if now < then {
            prop_assert!(faults.is_none());
        } else {
            let faults = faults.unwrap();
            prop_assert_eq!(faults.between_count, Some(now - then));
            let expected = (now - then) as f64 / f64::from(apart);
            prop_assert!((faults.between.unwrap() - expected).abs() < 1e-9);
        }
    }

    /// If both hosts are exchanged, better and worse are exchanged too.
    #[test]
    fn better_and_worse_change_places(then in 0_u64..100_000, now in 0_u64..100_000) {
        let with = |available: u64| {
            let mut host = host("a-a", 1000);
            host.memory.total = found(Bytes::new(100_000));
            host.memory.available = found(Bytes::new(available));
            host
        };
        let there = single(with(then), with(now)).effect;
        let back = single(with(now), with(then)).effect;
        prop_assert_eq!(there.better.len(), back.worse.len());
        prop_assert_eq!(there.worse.len(), back.better.len());
        prop_assert!(there.better.is_empty() || now > then);
    }
}
