// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constructed cases of whether the contents of swap fit elsewhere.

use std::slice::from_ref;

use super::*;
use crate::host_ops::GroupCharge;

const MIB: u64 = 1 << 20;

fn area(path: &str, used: u64, size: u64) -> Area {
    let (used, size) = (Bytes::new(used * MIB), Bytes::new(size * MIB));
    Area { path: path.to_owned(), used, size, room: size.saturating_sub(used), priority: 5 }
}

fn facts(available: u64) -> MemoryFacts {
    MemoryFacts {
        total: Bytes::new(1024 * MIB),
        available: Bytes::new(available * MIB),
        ..MemoryFacts::default()
    }
}

fn group(path: &str, current: u64, swap: u64, max: Option<u64>) -> GroupCharge {
    let bytes = |mib: u64| Bytes::new(mib * MIB);
    let (current, swap, max) = (bytes(current), bytes(swap), max.map(bytes));
    let (path, swap_max, swappiness) = (path.to_owned(), None, Some(60));
    GroupCharge { path, current, swap, max, swap_max, swappiness }
}

fn zram(used: u64) -> Area {
    area("/dev/zram1", used, 512)
}

/// The reason why disabling an area is refused; empty if its contents fit elsewhere.
fn refusal(of: &Area, others: &[Area], facts: &MemoryFacts) -> String {
    let all: Vec<Area> = others.iter().cloned().chain([of.clone()]).collect();
    check_fit(of, &all, Bytes::new(0), facts)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[track_caller]
fn assert_refused(why: &str, found: &str) {
    assert!(found.contains(why), "expected {why:?} in {found:?}");
}

#[test]
fn without_other_swap_memory_must_hold_it_and_the_reserve() {
    assert_eq!(refusal(&zram(100), &[], &facts(132)), "");
    let found = refusal(&zram(100), &[], &facts(131));
    assert_refused("100.0 MiB of it are in use and 131.0 MiB of memory are available", &found);
    assert_eq!(refusal(&zram(0), &[], &facts(0)), "", "nothing is read back");
}

#[test]
fn other_swap_with_room_takes_it() {
    let disk = area("/swap", 0, 100);
    assert_eq!(refusal(&zram(100), from_ref(&disk), &facts(32)), "");
    assert_refused("133.0 MiB are needed", &refusal(&zram(101), &[disk], &facts(100)));
    let new = area("/dev/zram2", 0, 512);
    assert_eq!(refusal(&zram(100), from_ref(&new), &facts(32)), "", "from zram to zram");
    assert_refused("are needed", &refusal(&zram(100), from_ref(&new), &facts(31)));
    let from_disk = area("/swap", 100, 512);
    assert_eq!(refusal(&from_disk, from_ref(&new), &facts(82)), "");
    assert_refused("82.0 MiB are needed", &refusal(&from_disk, &[new], &facts(81)));
}

#[test]
fn a_zram_device_at_its_mem_limit_has_no_room() {
    let mut other = area("/dev/zram2", 200, 512);
    assert_eq!(refusal(&zram(100), from_ref(&other), &facts(32)), "");
    other.room = Bytes::new(99 * MIB);
    assert_refused("132.0 MiB are needed", &refusal(&zram(100), &[other], &facts(100)));
}

#[test]
fn swap_that_the_plan_makes_before_counts() {
    let of = zram(100);
    let all = [of.clone()];
    assert!(check_fit(&of, &all, Bytes::new(100 * MIB), &facts(32)).is_ok());
    assert!(check_fit(&of, &all, Bytes::new(99 * MIB), &facts(32)).is_err());
}

#[test]
fn a_group_at_its_limit_would_be_killed_although_memory_is_free() {
    let with = |groups: Vec<GroupCharge>| MemoryFacts { groups, ..facts(900) };
    let fits_in = with(vec![group("/a", 40, 60, Some(100)), group("/b", 500, 40, None)]);
    assert_eq!(refusal(&zram(100), &[], &fits_in), "");
    let tight = with(vec![group("/a/b", 41, 60, Some(100))]);
    assert_refused("the cgroup /a/b", &refusal(&zram(100), &[], &tight));
    // the counters of a cgroup include its descendants
    let above = with(vec![group("/a", 90, 60, Some(100)), group("/a/b", 10, 60, None)]);
    assert_refused("the cgroup /a has", &refusal(&zram(100), &[], &above));
    // at most as much is read back as the area holds
    assert_eq!(refusal(&zram(10), &[], &with(vec![group("/a", 90, 60, Some(100))])), "");
    // other swap with free space takes the pages
    assert_eq!(refusal(&zram(100), &[area("/swap", 0, 100)], &tight), "");
    let unknown = MemoryFacts { groups_left_out: 3, ..facts(900) };
    assert_refused("3 memory cgroups were not read", &refusal(&zram(100), &[], &unknown));
}

/// The kernel does kill in both cases; `guest::plans::drain` shows this in a guest.
#[test]
fn other_swap_is_no_room_for_a_cgroup_that_may_not_swap() {
    let disk = area("/swap", 0, 512);
    let with = |change: &dyn Fn(&mut GroupCharge)| {
        let mut groups = vec![group("/", 900, 60, None), group("/a", 95, 60, None)];
        groups.push(group("/a/b", 90, 60, Some(100)));
        groups.push(group("/a/bc", 10, 60, Some(100)));
        groups.iter_mut().for_each(change);
        MemoryFacts { groups, ..facts(900) }
    };
    let found = |facts: &MemoryFacts| refusal(&zram(60), from_ref(&disk), facts);
    let limit = |path: &'static str, mib: u64| {
        with(&move |it| it.swap_max = (it.path == path).then_some(Bytes::new(mib * MIB)))
    };
    assert_eq!(found(&with(&|_| ())), "");
    assert_refused("since swappiness is 0", &found(&with(&|it| it.swappiness = Some(0))));
    assert_eq!(found(&with(&|it| it.swappiness = None)), "");
    for path in ["/a", "/a/b"] {
        let why = format!(
            "/a/b has 90.0 MiB in memory and 60.0 MiB in swap, and may have 100.0 MiB in memory: the \
                           kernel would kill its processes, since {path} has as much swap as it may have (60.0 MiB)"
        );
        assert_refused(&why, &found(&limit(path, 60)));
        assert_eq!(found(&limit(path, 61)), "", "{path}");
    }
    assert_refused("since /a/b has as much", &found(&limit("/a/b", 0)));
    assert_eq!(found(&limit("/a/bc", 0)), "", "its own pages fit");
}

#[test]
fn strict_overcommit_tests_the_whole_size() {
    let strict = |committed: u64| MemoryFacts {
        is_strict: true,
        committed: Bytes::new(committed * MIB),
        commit_limit: Bytes::new(1000 * MIB),
        ..facts(900)
    };
    assert_eq!(refusal(&zram(0), &[], &strict(488)), "");
    assert_refused("vm.overcommit_memory is 2", &refusal(&zram(0), &[], &strict(489)));
}
