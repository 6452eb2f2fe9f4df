// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup that is short of memory because of its own limit.

use pagewise_model::{Cgroup, Limit, Reading};

use super::*;
use crate::testing::{
    assert_silent, calm, file, line, mib, only, proof_of, stall, swappiness, with,
};

const GROUP: &str = "/sys/fs/cgroup/system.slice/db.service";

fn db(host: &mut Snapshot) -> &mut Cgroup {
    host.cgroups
        .groups
        .iter_mut()
        .find(|group| group.path.as_str().ends_with("db.service"))
        .unwrap()
}

/// A service that is at its limit of 1 GiB with 100 MiB in swap, on a machine with gigabytes
/// available.
pub(in crate::rules) fn host_with_finding() -> Interval {
    let mut interval = with(|host| {
        stall(&mut host.psi.memory.some, 34.0, 9.0);
        let group = db(host);
        group.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(mib(1024)));
        group.swap_current = file(&format!("{GROUP}/memory.swap.current"), mib(100));
        group.pressure.some.avg60 =
            line(&format!("{GROUP}/memory.pressure"), 1, pagewise_model::Percent::new(9.0));
    });
    db(&mut interval.end).events.max = line(&format!("{GROUP}/memory.events"), 3, 4998);
    interval
}

#[test]
fn the_limit_is_told_and_one_that_fits() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.title, "/system.slice/db.service waits for memory at its limit of 1.0 GiB");
    let reached = "/system.slice/db.service reached its memory.max (1.0 GiB) 4,998 times";
    assert!(finding.what.contains(reached), "{}", finding.what);
    assert_eq!(
        finding.next.first().unwrap(),
        "sudo systemctl set-property db.service MemoryMax=1237M  # writes; takes the group's \
         shortage away, not a leak; permanent; undo with sudo systemctl set-property db.service \
         MemoryMax=1073741824"
    );
    assert!(proof_of(&finding).contains("memory.events:3 = reached max +4998"));
}

#[test]
fn no_limit_is_raised_below_a_group_that_is_full_itself() {
    let mut interval = host_with_finding();
    let mut slice = db(&mut interval.end).clone();
    slice.path = pagewise_model::Name::from("/system.slice");
    let folder = "/sys/fs/cgroup/system.slice";
    slice.max = file(&format!("{folder}/memory.max"), Limit::Bytes(mib(1100)));
    slice.current = file(&format!("{folder}/memory.current"), mib(1090));
    slice.events = pagewise_model::CgroupEvents::default();
    slice.pressure = pagewise_model::Pressure::default();
    interval.end.cgroups.groups.retain(|group| group.path != slice.path);
    interval.end.cgroups.groups.push(slice);
    let limited = crate::verdict::find_troubled(&interval);
    let limited = limited.iter().find(|it| it.limited.path.as_str().ends_with("db.service"));
    let raised = raise_command(&interval.end, limited.unwrap(), mib(1024)).unwrap();
    assert_eq!(
        raised,
        "# a higher limit of /system.slice/db.service changes nothing: /system.slice above it has a \
         limit of its own with 10.0 MiB left"
    );
}

/// A cache whose limit is filled with memory that cannot be dropped, without swap.
pub(in crate::rules) fn host_with_full_finding() -> Interval {
    with(|host| {
        let group = db(host);
        group.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(mib(1024)));
        group.current = file(&format!("{GROUP}/memory.current"), mib(1000));
        group.file = line(&format!("{GROUP}/memory.stat"), 2, mib(60));
        group.swap_max = file(&format!("{GROUP}/memory.swap.max"), Limit::Bytes(Bytes::new(0)));
    })
}

/// A group of version 1 that refaults its own code again and again.
pub(in crate::rules) fn host_with_v1_finding() -> Interval {
    const V1: &str = "/sys/fs/cgroup/memory/system.slice/db.service";
    let grown = |host: &mut Snapshot, times: u64| {
        let group = db(host);
        *group = Cgroup { path: group.path.clone(), ..Cgroup::default() };
        group.max = file(&format!("{V1}/memory.limit_in_bytes"), Limit::Bytes(mib(64)));
        group.current = file(&format!("{V1}/memory.usage_in_bytes"), mib(64));
        group.events.max = file(&format!("{V1}/memory.failcnt"), 10 * times);
        group.refault_file = line(&format!("{V1}/memory.stat"), 30, 5_000 * times);
        group.pgmajfault = line(&format!("{V1}/memory.stat"), 31, 500 * times);
    };
    let mut interval = with(|host| stall(&mut host.psi.memory.full, 30.0, 12.0));
    grown(interval.start.as_deref_mut().unwrap(), 1);
    grown(&mut interval.end, 2);
    interval
}

/// A group of version 2 with idle anonymous memory and free swap, whose code is refaulted again and
/// again.
fn rereading() -> Interval {
    let at = |host: &mut Snapshot, times: u64| {
        let group = db(host);
        let stat = |number, value| line(&format!("{GROUP}/memory.stat"), number, value);
        group.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(mib(48)));
        group.current = file(&format!("{GROUP}/memory.current"), mib(48));
        group.anon = line(&format!("{GROUP}/memory.stat"), 1, mib(40));
        group.swap_current = file(&format!("{GROUP}/memory.swap.current"), mib(3));
        group.events.max = line(&format!("{GROUP}/memory.events"), 3, 900 * times);
        group.refault_file = stat(30, 50_000 * times);
        group.refault_anon = stat(29, 7);
        group.pgmajfault = stat(31, 50_000 * times);
    };
    let mut interval = with(|host| {
        host.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 7);
        swappiness(host, "60");
    });
    at(interval.start.as_deref_mut().unwrap(), 1);
    at(&mut interval.end, 2);
    interval
}

#[test]
fn anonymous_memory_that_is_never_swapped_is_told_with_multi_gen_lru() {
    let finding = only(&RULE, &rereading());
    assert!(
        finding.title.contains("thrashes at its memory limit of 48.0 MiB"),
        "{}",
        finding.title
    );
    let kept =
        "Meanwhile none of its 40.0 MiB of anonymous memory was swapped out, although swap has ";
    assert!(finding.what.contains(kept), "{}", finding.what);
    assert!(finding.why.contains("it does not age the pages of a cgroup"), "{}", finding.why);
    let first = "sudo pagewise age --cgroup /system.slice/db.service  # writes; ages this cgroup at most 6 times; \
                 nothing to undo";
    assert_eq!(finding.next[0], first);
    let off = "echo n | sudo tee /sys/kernel/mm/lru_gen/enabled  # writes; for the whole host, until the next boot; \
               undo with echo 7 | sudo tee /sys/kernel/mm/lru_gen/enabled";
    assert_eq!(finding.next[1], off);
    assert!(proof_of(&finding).contains("/sys/kernel/mm/lru_gen/enabled = 7"));
}

type Change = fn(&mut Interval);

#[test]
fn multi_gen_lru_is_not_blamed_for_what_has_another_cause() {
    let changes: [(&str, Change); 8] = [
        ("off", |it| it.end.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 6)),
        ("not known", |it| it.end.mglru.enabled = Reading::default()),
        ("swappiness 0", |it| swappiness(&mut it.end, "0")),
        ("something was swapped out", |it| db(&mut it.end).swap_current = file(GROUP, mib(4))),
        ("something came back", |it| db(&mut it.end).refault_anon = line(GROUP, 29, 8)),
        ("little anonymous memory", |it| db(&mut it.end).anon = line(GROUP, 1, mib(20))),
        ("no swap for it", |it| db(&mut it.end).swap_max = file(GROUP, Limit::Bytes(mib(3)))),
        ("no earlier look", |it| db(it.start.as_deref_mut().unwrap()).path = "/other".into()),
    ];
    for (what, change) in changes {
        let mut interval = rereading();
        change(&mut interval);
        for finding in (RULE.diagnose)(&interval) {
            assert!(!finding.why.contains("multi-gen"), "{what}: {}", finding.why);
            let of_mglru =
                |next: &String| next.contains("lru_gen") || next.contains("pagewise age");
            assert!(!finding.next.iter().any(of_mglru), "{what}: {:?}", finding.next);
        }
    }
}

#[test]
fn a_limit_of_a_group_above_counts() {
    let mut interval = host_with_finding();
    db(&mut interval.end).max = file(&format!("{GROUP}/memory.max"), Limit::Max);
    assert_silent(&RULE, &interval);
    let parent = "/sys/fs/cgroup/system.slice";
    let slice = |host: &mut Snapshot, times| {
        let slice = |group: &&mut Cgroup| group.path.as_str() == "/system.slice";
        let slice = host.cgroups.groups.iter_mut().find(slice).unwrap();
        slice.max = file(&format!("{parent}/memory.max"), Limit::Bytes(mib(1024)));
        slice.events.max = line(&format!("{parent}/memory.events"), 3, times);
        slice.pressure.some.avg60 =
            line(&format!("{parent}/memory.pressure"), 1, pagewise_model::Percent::new(9.0));
    };
    slice(&mut interval.end, 9);
    slice(interval.start.as_mut().unwrap(), 1);
    assert!(only(&RULE, &interval).title.starts_with("/system.slice waits"));
}

#[test]
fn a_limit_that_the_group_below_reached_is_not_its_parents() {
    let mut interval = host_with_finding();
    for host in interval.start.as_deref_mut().into_iter().chain([&mut interval.end]) {
        let times = db(host).events.max.get().unwrap();
        let slice = &mut host.cgroups.groups[1];
        slice.max = file("/sys/fs/cgroup/system.slice/memory.max", Limit::Bytes(mib(9000)));
        slice.events.max = line("/sys/fs/cgroup/system.slice/memory.events", 3, times);
        stall(&mut slice.pressure.some, 34.0, 9.0);
    }
    assert!(only(&RULE, &interval).title.starts_with("/system.slice/db.service waits"));
}

#[test]
fn a_limit_that_was_not_reached_again_is_no_reason() {
    let mut interval = host_with_finding();
    db(&mut interval.end).events.max = line(&format!("{GROUP}/memory.events"), 3, 0);
    assert_silent(&RULE, &interval);
}

#[test]
fn what_cannot_be_dropped_nearly_fills_the_limit() {
    let finding = only(&RULE, &host_with_full_finding());
    assert_eq!(
        finding.title,
        "unreclaimable memory fills 92 % of the limit of /system.slice/db.service"
    );
    assert_eq!(finding.severity, Severity::Warning);
    let swapping = with(|host| {
        let barred = db(&mut host_with_full_finding().end).clone();
        *db(host) = Cgroup { swap_max: db(host).swap_max.clone(), ..barred };
    });
    assert_silent(&RULE, &swapping);
}

#[test]
fn a_group_full_of_page_cache_is_not_short() {
    let mut interval = host_with_full_finding();
    db(&mut interval.end).file = line(&format!("{GROUP}/memory.stat"), 2, mib(600));
    assert_silent(&RULE, &interval);
}

#[test]
fn version_1_has_no_pressure_and_refaults_stand_for_it() {
    let finding = only(&RULE, &host_with_v1_finding());
    let title = "/system.slice/db.service thrashes at its memory limit of 64.0 MiB";
    assert_eq!(finding.title, title);
    assert_eq!(finding.severity, Severity::Critical, "the host counts the group's waiting");
    assert!(proof_of(&finding).contains("memory.failcnt = reached max +10"));
}

#[test]
fn no_limit_is_offered_that_the_machine_cannot_give() {
    let mut interval = host_with_finding();
    interval.end.memory.available = line("/proc/meminfo", 3, mib(150));
    assert!(only(&RULE, &interval).next.first().unwrap().starts_with("grep "));
}

#[test]
fn nothing_is_said_of_groups_without_trouble() {
    assert_silent(&RULE, &calm());
}
