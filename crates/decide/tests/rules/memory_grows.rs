// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule `memory-grows` on made-up hosts.

use pagewise_model::{Bytes, Limit, Millis, Reading, Severity, Source};

use super::*;
use crate::testing::{SECONDS, assert_silent, calm, file, gib, line, mib, only};

/// A process of this age that grew by `added` in ten seconds and now holds `held`.
fn grown(added: Bytes, age_seconds: u64, held: Bytes) -> Interval {
    const UPTIME: u64 = 900_000_000;
    let mut interval = calm();
    let begun =
        Reading::found(Millis::new(UPTIME - age_seconds * 1000), Source::file("/proc/4121/stat"));
    interval.end.taken.uptime = file("/proc/uptime", Millis::new(UPTIME));
    let start = interval.start.as_deref_mut().unwrap();
    start.taken.uptime = file("/proc/uptime", Millis::new(UPTIME - 10_000));
    for (host, held) in [(start, held.saturating_sub(added)), (&mut interval.end, held)] {
        let process = &mut host.processes.list[0];
        process.start_time = begun.clone();
        process.rss_anon = line("/proc/4121/status", 23, held);
        process.swap = line("/proc/4121/status", 27, Bytes::new(0));
        process.anon_huge = Reading::not_read();
    }
    interval
}

pub(crate) fn host_with_finding() -> Interval {
    grown(mib(500), 60, gib(3))
}

#[test]
fn a_leak_is_told_with_its_rate_and_when_it_ends() {
    assert!((SECONDS - 10.0).abs() < 0.1);
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.severity, Severity::Warning);
    // 9 GiB available, and 1.75 GiB of RAM that swapping could free
    assert_eq!(finding.title, "postgres (pid 4121) will fill memory in 4 minutes (+50.0 MiB/s)");
    assert!(finding.what.contains("grew by 500.0 MiB in 10.0 s (50.0 MiB/s) to 3.0 GiB"));
}

#[test]
fn into_the_limit_of_its_group() {
    let mut interval = host_with_finding();
    let db = &mut interval.end.cgroups.groups[2];
    db.max = file("/sys/fs/cgroup/system.slice/db.service/memory.max", Limit::Bytes(gib(4)));
    db.current = file("/sys/fs/cgroup/system.slice/db.service/memory.current", gib(3));
    db.file = line("/sys/fs/cgroup/system.slice/db.service/memory.stat", 2, mib(10));
    db.swap_max =
        file("/sys/fs/cgroup/system.slice/db.service/memory.swap.max", Limit::Bytes(mib(0)));
    let own = db.path.clone();
    interval.end.processes.list[0].cgroup = file("/proc/4121/cgroup", own);
    let finding = only(&RULE, &interval);
    assert_eq!(
        finding.title,
        "postgres (pid 4121) will reach its limit in 21 seconds (+50.0 MiB/s)"
    );
    assert_eq!(finding.severity, Severity::Critical);
    assert!(finding.what.contains("db.service will reach its memory limit of 4.0 GiB"));
    // the limit that is set contains it already, and a higher one would not cure it
    assert!(!finding.next.iter().any(|next| next.contains("MemoryMax")), "{finding:#?}");
}

/// A service with this limit, of a master process of 100 seconds and short-lived workers: it grew
/// by `added` in ten seconds and now holds `held`. Its parent slice grows by the same.
fn forked(added: Bytes, held: Bytes, limit: Limit) -> Interval {
    const FOLDER: &str = "/sys/fs/cgroup/system.slice/db.service";
    let mut interval = grown(Bytes::new(1 << 16), 100, mib(20));
    let start = interval.start.as_deref_mut().unwrap();
    for (host, held) in [(start, held.saturating_sub(added)), (&mut interval.end, held)] {
        for group in &mut host.cgroups.groups[1..] {
            let stat = format!("/sys/fs/cgroup{}/memory.stat", group.path);
            group.anon = line(&stat, 1, held);
            group.file = line(&stat, 2, mib(10));
            let current = format!("/sys/fs/cgroup{}/memory.current", group.path);
            group.current = file(&current, held.saturating_add(mib(10)));
        }
        let service = &mut host.cgroups.groups[2];
        service.max = file(&format!("{FOLDER}/memory.max"), limit);
        service.swap_max = file(&format!("{FOLDER}/memory.swap.max"), Limit::Bytes(mib(0)));
        let own = service.path.clone();
        host.processes.list[0].cgroup = file("/proc/4121/cgroup", own);
    }
    interval
}

pub(crate) fn host_with_group_finding() -> Interval {
    forked(mib(200), gib(2), Limit::Max)
}

#[test]
fn many_small_workers_are_told_as_their_group() {
    let finding = only(&RULE, &host_with_group_finding());
    assert_eq!(finding.severity, Severity::Warning);
    // 9 GiB available, and 1.75 GiB of RAM that swapping could free; the parent slice is not
    // reported
    let title = "/system.slice/db.service will fill memory in 9 minutes (+20.0 MiB/s)";
    assert_eq!(finding.title, title);
    assert!(finding.what.contains("grew by 200.0 MiB"), "{}", finding.what);
    assert!(finding.next[0].starts_with("sudo systemctl set-property db.service"));

    let finding = only(&RULE, &forked(mib(200), gib(2), Limit::Bytes(gib(4))));
    let title = "/system.slice/db.service will reach its limit in 2 minutes (+20.0 MiB/s)";
    assert_eq!((finding.title.as_str(), finding.severity), (title, Severity::Critical));
    assert!(finding.what.contains("will reach its memory limit of 4.0 GiB in about"));
    assert!(!finding.next[0].contains("MemoryMax"), "it has a limit: {:?}", finding.next);
}

#[test]
fn a_group_that_stands_still_or_whose_limit_is_far_is_no_leak() {
    assert_silent(&RULE, &forked(Bytes::new((1 << 20) - 1), gib(2), Limit::Bytes(gib(4))));
    // 10.75 GiB would last more than an hour
    assert_silent(&RULE, &forked(mib(20), gib(2), Limit::Max));
    // a group of ten hours grew at once by what it took an hour for before
    let mut old = host_with_group_finding();
    let begun = Millis::new(900_000_000 - 36_000_000);
    for host in [old.start.as_deref_mut().unwrap(), &mut old.end] {
        host.processes.list[0].start_time = file("/proc/4121/stat", begun);
    }
    assert_silent(&RULE, &old);
    // a group that did not exist at the first reading
    let mut new = host_with_group_finding();
    new.start.as_deref_mut().unwrap().cgroups.groups.truncate(1);
    assert_silent(&RULE, &new);
}

/// Growth is reported only once: if one process accounts for half of it, for that process.
#[test]
fn growth_is_told_once() {
    let with_process = |added: Bytes| {
        let mut interval = host_with_group_finding();
        let start = interval.start.as_deref_mut().unwrap();
        let held = mib(1200);
        for (host, held) in [(start, held.saturating_sub(added)), (&mut interval.end, held)] {
            host.processes.list[0].rss_anon = line("/proc/4121/status", 23, held);
        }
        only(&RULE, &interval)
    };
    let names = |finding: &Finding, name: &str, rate: &str| {
        assert!(finding.title.starts_with(&format!("{name} ")), "{}", finding.title);
        assert!(finding.what.contains(&format!("({rate})")), "{}", finding.what);
    };
    names(&with_process(mib(150)), "postgres (pid 4121)", "15.0 MiB/s");
    names(&with_process(mib(100)), "postgres (pid 4121)", "10.0 MiB/s");
    names(&with_process(mib(90)), "/system.slice/db.service", "20.0 MiB/s");
}

/// Three services that grow alike are reported, but not their parent; a slice of forty services is
/// reported if each of them grows too little to matter.
#[test]
fn the_innermost_group_that_explains_growth_is_told() {
    let services = |count: u64, each: Bytes| {
        let mut interval = host_with_group_finding();
        for host in [interval.start.as_deref_mut().unwrap(), &mut interval.end] {
            let (db, process) = (host.cgroups.groups.remove(2), host.processes.list.remove(0));
            for number in 0..count {
                let path = format!("/system.slice/db-{number:02}.service");
                let mut process = process.clone();
                process.pid += u32::try_from(number).unwrap();
                process.cgroup = file("/proc/4121/cgroup", path.as_str().into());
                host.processes.list.push(process);
                host.cgroups
                    .groups
                    .push(pagewise_model::Cgroup { path: path.as_str().into(), ..db.clone() });
            }
        }
        let start = interval.start.as_deref_mut().unwrap();
        for (host, less) in [(start, each.get()), (&mut interval.end, 0)] {
            let slice = &mut host.cgroups.groups[1];
            slice.anon = line(
                "/sys/fs/cgroup/system.slice/memory.stat",
                1,
                Bytes::new((4 << 30) - less * count),
            );
            for group in &mut host.cgroups.groups[2..] {
                group.anon = line(
                    "/sys/fs/cgroup/system.slice/memory.stat",
                    1,
                    Bytes::new((4 << 30) / count - less),
                );
            }
        }
        let findings = diagnose(&interval);
        let slice =
            findings.iter().filter(|finding| finding.title.starts_with("/system.slice will"));
        // a limit of a slice would hold for all of its services
        assert!(slice.flat_map(|it| &it.next).all(|next| !next.contains("set-property")));
        findings.into_iter().map(|finding| finding.title).collect::<Vec<_>>()
    };
    let three = services(3, mib(130));
    assert_eq!(three.len(), 3, "{three:?}");
    assert!(three.iter().all(|title| title.starts_with("/system.slice/db-0")), "{three:?}");
    let forty = services(40, mib(10));
    assert_eq!(forty.len(), 1, "{forty:?}");
    assert!(forty[0].starts_with("/system.slice will fill memory in "), "{forty:?}");
    assert!(forty[0].ends_with(" (+40.0 MiB/s)"), "{forty:?}");
}

#[test]
fn a_burst_of_an_old_process_and_a_program_that_starts_are_no_leaks() {
    // 3 GiB in ten hours, and nothing shows that it was never as large before
    assert_silent(&RULE, &grown(mib(500), 36_000, gib(3)));
    assert_eq!(only(&RULE, &grown(mib(500), 10, mib(600))).severity, Severity::Info);
    assert_silent(&RULE, &calm());
}

pub(crate) fn host_with_early_finding() -> Interval {
    grown(mib(300), 40, mib(1200))
}

/// A guest touches its memory for the first time, with 10.75 GiB left: it may end at any size.
#[test]
fn early_growth_is_told_without_alarm_and_without_a_limit() {
    let early = only(&RULE, &host_with_early_finding());
    assert_eq!(
        (early.severity, early.title.as_str()),
        (Severity::Info, "postgres (pid 4121) grows steadily: full in 6 minutes if it goes on")
    );
    assert!(early.what.ends_with("It is not known yet whether it will go on."), "{}", early.what);
    assert!(early.what.contains("grew by 300.0 MiB in 10.0 s (30.0 MiB/s) to 1.2 GiB"));
    assert!(early.next.iter().all(|next| next.starts_with("pagewise ")), "{:?}", early.next);
    assert_silent(&RULE, &grown(mib(100), 40, mib(400)));
    // the same process when it is larger
    assert_eq!(only(&RULE, &grown(mib(300), 70, mib(2100))).severity, Severity::Warning);
}

/// The process had `before` in RAM at most until the interval began, and has `now` at most since.
fn with_peaks(mut interval: Interval, before: Option<Bytes>, now: Bytes) -> Interval {
    let peak = |size: Bytes| line("/proc/4121/status", 19, size);
    let start = &mut interval.start.as_deref_mut().unwrap().processes.list[0];
    start.peak = before.map_or_else(Reading::not_read, peak);
    let end = &mut interval.end.processes.list[0];
    end.peak = peak(now);
    (end.rss_file, end.rss_shmem) = (peak(mib(0)), peak(mib(0)));
    interval
}

#[test]
fn a_process_that_was_as_large_before_does_not_leak() {
    let leak = || with_peaks(host_with_finding(), Some(mib(2572)), gib(3));
    assert_eq!(only(&RULE, &leak()).severity, Severity::Warning);
    // it had 3 GiB once, and the last tenth of its growth is new
    assert_silent(&RULE, &with_peaks(host_with_finding(), Some(gib(3)), gib(3)));
    assert_silent(&RULE, &with_peaks(host_with_finding(), Some(mib(3022)), gib(3)));
    // its peak is known only now, and 1 GiB away
    assert_silent(&RULE, &with_peaks(host_with_finding(), None, gib(4)));
    assert_eq!(
        only(&RULE, &with_peaks(host_with_finding(), None, gib(3))).severity,
        Severity::Warning
    );
    // the kernel took pages from its cgroup, perhaps file pages of this process
    let mut reclaimed = with_peaks(host_with_finding(), Some(gib(3)), gib(3));
    let group = &mut reclaimed.end.cgroups.groups[2];
    let taken = line("/sys/fs/cgroup/system.slice/db.service/memory.stat", 40, 9);
    group.stat = [(pagewise_model::Name::from("pgsteal"), taken)].into_iter().collect();
    let own = group.path.clone();
    reclaimed.end.processes.list[0].cgroup = file("/proc/4121/cgroup", own);
    assert_eq!(only(&RULE, &reclaimed).severity, Severity::Warning);
}

/// An old process begins to grow: no average shows it, its peak does.
#[test]
fn an_old_process_that_is_larger_than_ever_is_told() {
    let old = |held: Bytes| {
        let before = held.saturating_sub(mib(500));
        with_peaks(grown(mib(500), 360_000, held), Some(before), held)
    };
    let told = only(&RULE, &old(gib(3)));
    let title = "postgres (pid 4121) grows: full in 4 minutes if it goes on";
    assert_eq!((told.severity, told.title.as_str()), (Severity::Info, title));
    let large = old(gib(36));
    assert_eq!(only(&RULE, &large).severity, Severity::Warning);
}

/// Three processes that allocate and free memory in turn grow together, and their group with them.
#[test]
fn a_group_of_processes_that_were_as_large_before_does_not_leak() {
    let mut interval = forked(mib(300), gib(2), Limit::Max);
    for host in [interval.start.as_deref_mut().unwrap(), &mut interval.end] {
        let process = host.processes.list.remove(0);
        for pid in 4121..4124 {
            let peak = line("/proc/4121/status", 19, mib(300));
            host.processes.list.push(pagewise_model::Process { pid, peak, ..process.clone() });
        }
    }
    let sizes = |host: &mut Snapshot, size: Bytes| {
        for process in &mut host.processes.list {
            process.rss_anon = line("/proc/4121/status", 23, size);
            process.rss_file = line("/proc/4121/status", 24, mib(0));
            process.rss_shmem = line("/proc/4121/status", 25, mib(0));
        }
    };
    sizes(interval.start.as_deref_mut().unwrap(), mib(100));
    sizes(&mut interval.end, mib(200));
    assert_silent(&RULE, &interval);
    for process in &mut interval.start.as_deref_mut().unwrap().processes.list {
        process.peak = line("/proc/4121/status", 19, mib(100));
    }
    assert!(!diagnose(&interval).is_empty());
}

#[test]
fn pagewise_itself_is_no_finding() {
    let mut interval = host_with_finding();
    interval.end.processes.list[0].name = "pagewise".into();
    assert_silent(&RULE, &interval);
}

#[test]
fn memory_high_and_limits_of_parents_bound_the_forecast() {
    let limited = |file_name: &str, group: usize| {
        let mut interval = host_with_group_finding();
        let path = interval.end.cgroups.groups[group].path.clone();
        let reading =
            file(&format!("/sys/fs/cgroup{path}/memory.{file_name}"), Limit::Bytes(gib(4)));
        let group = &mut interval.end.cgroups.groups[group];
        *(if file_name == "high" { &mut group.high } else { &mut group.max }) = reading;
        group.swap_max = file("/sys/fs/cgroup/memory.swap.max", Limit::Bytes(mib(0)));
        only(&RULE, &interval)
    };
    for (name, group) in [("high", 2), ("high", 1), ("max", 1)] {
        let finding = limited(name, group);
        let title = "/system.slice/db.service will reach its limit in 2 minutes (+20.0 MiB/s)";
        assert_eq!(finding.title, title, "{name} {group}");
        let high = "will reach its memory.high of 4.0 GiB, where the kernel slows it down,";
        assert_eq!(finding.what.contains(high), name == "high", "{}", finding.what);
        let slice = "the cgroup /system.slice will reach its memory";
        assert_eq!(finding.what.contains(slice), group == 1, "{}", finding.what);
        assert!(finding.what.contains("; the largest process, postgres (pid 4121), has 20.0 MiB."));
    }
}
