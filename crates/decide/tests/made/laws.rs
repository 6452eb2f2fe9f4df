// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Laws that every verdict must obey, tested on made-up hosts. The tests of the program check the
//! same laws on every recording.

use pagewise_decide::{diagnose, judge};
use pagewise_model::{Bytes, Interval, Level, Limit, Percent, Severity, Snapshot};
use proptest::prelude::*;

use pagewise_testkit::made_host::{calm, file, grow, knob, line, set_knob, stall};

/// How bad each value is, from 0 (as on a calm host) to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Badness {
    available: f64,
    swap: f64,
    swap_exists: bool,
    some: f64,
    full: f64,
    kills: u64,
    refaults: f64,
    committed: f64,
    group: f64,
    group_kills: u64,
    zones_low: bool,
}

fn badness() -> impl Strategy<Value = Badness> {
    let share = || prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64];
    let few = || prop_oneof![Just(0u64), 1..4u64];
    (
        (share(), share(), any::<bool>(), share(), share(), few()),
        (share(), share(), share(), few(), any::<bool>()),
    )
        .prop_map(|(first, second)| Badness {
            available: first.0,
            swap: first.1,
            swap_exists: first.2,
            some: first.3,
            full: first.4.min(first.3),
            kills: first.5,
            refaults: second.0,
            committed: second.1,
            group: second.2,
            group_kills: second.3,
            zones_low: second.4,
        })
}

/// Makes one value worse; some indexes change nothing.
fn worsened(before: Badness, which: usize, by: f64) -> Badness {
    let more = |value: f64| value + (1.0 - value) * by;
    let mut after = before;
    match which {
        0 => after.available = more(before.available),
        1 => after.swap = more(before.swap),
        // pages in swap would have to be somewhere else, so swap can only be missing if it is empty
        2 if before.swap <= 0.0 => after.swap_exists = false,
        2 => {}
        3 => after.some = more(before.some),
        4 => after.full = more(before.full).min(after.some),
        5 => after.kills += 1,
        6 => after.refaults = more(before.refaults),
        7 => after.committed = more(before.committed),
        8 => after.group = more(before.group),
        9 => after.group_kills += 1,
        _ => after.zones_low = true,
    }
    after
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of sizes")]
fn share_of(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64
}

/// A host of 16 GiB with these values. The group is a database with a limit of 1 GiB.
fn host_of(bad: Badness) -> Interval {
    const GROUP: &str = "/sys/fs/cgroup/system.slice/db.service";
    let mut interval = calm();
    let good = interval.end.memory.available.get().unwrap().get();
    for host in interval.start.as_deref_mut().into_iter().chain([&mut interval.end]) {
        let db = &mut host.cgroups.groups[2];
        db.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(Bytes::new(1 << 30)));
        db.events.oom_kill = line(&format!("{GROUP}/memory.events"), 5, 0);
    }
    let host = &mut interval.end;
    let left = Bytes::new(share_of(good, 1.0 - bad.available));
    host.memory.available = line("/proc/meminfo", 3, left);
    let swap = if bad.swap_exists { 4 << 30 } else { 0 };
    host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(swap));
    let free = Bytes::new(share_of(swap, 1.0 - bad.swap));
    host.memory.swap_free = line("/proc/meminfo", 16, free);
    if bad.swap_exists {
        let used = Bytes::new(swap).saturating_sub(free);
        host.tiers[0].used = line("/proc/swaps", 2, used);
    } else {
        host.tiers.clear();
    }
    pressure_of(host, bad);
    knob(host, "vm.overcommit_memory", "2");
    host.memory.commit_limit = line("/proc/meminfo", 32, Bytes::new(10 << 30));
    let committed = Bytes::new(share_of(10 << 30, bad.committed));
    host.memory.committed = line("/proc/meminfo", 33, committed);
    if bad.zones_low {
        host.zones.iter_mut().for_each(|zone| zone.free_pages = zone.min_pages.clone());
    }
    group_of(host, bad, GROUP);
    counters_of(&mut interval, bad);
    interval
}

fn pressure_of(host: &mut Snapshot, bad: Badness) {
    stall(&mut host.psi.memory.some, 60.0 * bad.some, 40.0 * bad.some);
    stall(&mut host.psi.memory.full, 60.0 * bad.full, 40.0 * bad.full);
}

fn group_of(host: &mut Snapshot, bad: Badness, folder: &str) {
    let db = &mut host.cgroups.groups[2];
    stall(&mut db.pressure.some, 60.0 * bad.group, 40.0 * bad.group);
    stall(&mut db.pressure.full, 40.0 * bad.group, 30.0 * bad.group);
    let reached = share_of(1_000, bad.group) + bad.group_kills;
    db.events.max = line(&format!("{folder}/memory.events"), 3, reached);
    db.events.oom_kill = line(&format!("{folder}/memory.events"), 5, bad.group_kills);
}

fn counters_of(interval: &mut Interval, bad: Badness) {
    let before = interval.end.vmstat.get("oom_kill").get().unwrap_or(0);
    set_knob(interval.start.as_deref_mut().unwrap(), "oom_kill", before);
    set_knob(&mut interval.end, "oom_kill", before + bad.kills + bad.group_kills);
    let pages = share_of(100_000, bad.refaults);
    grow(interval, "workingset_refault_file", pages);
    grow(interval, "pgsteal_file", pages);
    grow(interval, "pgmajfault", pages / 10);
    grow(interval, "pgpgin", 4 * pages);
    grow(interval, "pgfault", pages);
}

const NOTHING: Badness = Badness {
    available: 0.0,
    swap: 0.0,
    swap_exists: true,
    some: 0.0,
    full: 0.0,
    kills: 0,
    refaults: 0.0,
    committed: 0.0,
    group: 0.0,
    group_kills: 0,
    zones_low: false,
};

/// Rules whose findings mean that the host as a whole is short of memory.
const SHORT_HOST: [&str; 5] =
    ["memory-low", "memory-pressure", "commit-limit", "swap-full", "zram-full"];

fn worst_finding(interval: &Interval) -> Option<Severity> {
    diagnose(interval).iter().map(|finding| finding.severity).max()
}

#[test]
fn a_calm_host_is_calm() {
    let verdict = judge(&host_of(NOTHING));
    assert_eq!((verdict.level, verdict.host), (Level::Calm, Level::Calm));
    assert_eq!(
        verdict.line,
        "Memory is not short: 9.0 of 16.0 GiB are available, and no task waited for memory in the last minute."
    );
    assert_eq!(verdict.unknown, Vec::<String>::new());
}

#[test]
fn nothing_known_is_unknown_and_not_calm() {
    let verdict = judge(&Interval::default());
    assert_eq!(verdict.level, Level::Unknown);
    assert_eq!(verdict.unknown.len(), 2);
}

#[test]
fn a_machine_with_one_percent_available_is_never_called_fine() {
    let low = host_of(Badness { available: 0.985, swap_exists: false, ..NOTHING });
    let verdict = judge(&low);
    assert_eq!(verdict.level, Level::Critical);
    assert_eq!(
        verdict.line,
        "Memory is nearly exhausted: 138.2 MiB of 16.0 GiB are available and there is no swap. At the present \
         rate (1.2 GiB/s), memory and swap are used up in about 10 seconds."
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Law 3: a strictly worse host never gets a milder verdict or milder findings.
    #[test]
    fn a_worse_host_never_gets_a_milder_verdict(
        before in badness(), which in 0..11usize, by in 0.0..1.0f64,
    ) {
        let after = worsened(before, which, by);
        let [milder, worse] = [before, after].map(host_of);
        prop_assert!(judge(&worse).level >= judge(&milder).level);
        prop_assert!(worst_finding(&worse) >= worst_finding(&milder));
    }

    /// Law 1: no bad Reading is hidden. The level of all together is at least the level of each
    /// alone.
    #[test]
    fn no_bad_reading_hides_behind_a_good_one(bad in badness()) {
        let together = judge(&host_of(bad)).level;
        for alone in [
            Badness { available: bad.available, swap_exists: bad.swap_exists, ..NOTHING },
            Badness { some: bad.some, full: bad.full, ..NOTHING },
            Badness { kills: bad.kills, ..NOTHING },
            Badness { committed: bad.committed, ..NOTHING },
            Badness { group: bad.group, ..NOTHING },
            Badness { group_kills: bad.group_kills, ..NOTHING },
        ] {
            prop_assert!(together >= judge(&host_of(alone)).level, "{alone:?}");
        }
    }

    /// Law 2: trouble inside a cgroup at its limit is attributed to that group, and the host stays
    /// calm.
    #[test]
    fn a_groups_trouble_is_the_groups(group in 0.4..1.0f64, group_kills in 0..3u64, some in 0.0..1.0f64) {
        let interval = host_of(Badness { group, group_kills, some, full: some, ..NOTHING });
        let verdict = judge(&interval);
        prop_assert_eq!(verdict.host, Level::Calm);
        prop_assert!(verdict.level >= Level::Short);
        prop_assert!(verdict.line.starts_with("The host is not short of memory"), "{}", verdict.line);
        prop_assert!(verdict.line.contains("/system.slice/db.service is "), "{}", verdict.line);
        let findings = diagnose(&interval);
        prop_assert!(findings.iter().any(|finding| finding.id == "group-limit"));
        prop_assert!(findings.iter().all(|finding| !SHORT_HOST.contains(&finding.id)));
    }

    /// Law 4: the verdict and the findings agree about the host.
    #[test]
    fn verdict_and_findings_agree(bad in badness()) {
        let interval = host_of(bad);
        let (verdict, findings) = (judge(&interval), diagnose(&interval));
        let short = findings.iter().filter(|finding| SHORT_HOST.contains(&finding.id)).count();
        match verdict.host {
            Level::Calm => prop_assert_eq!(short, 0, "{:#?}", findings),
            Level::Critical if bad.kills > 0 => {}
            _ => prop_assert!(short > 0, "{}: {:#?}", verdict.line, findings),
        }
        prop_assert_eq!(verdict.groups.is_empty(), !findings.iter().any(|it| it.id == "group-limit"));
        let critical = findings.first().is_some_and(|first| first.severity == Severity::Critical);
        if verdict.level == Level::Critical && bad.kills == 0 {
            prop_assert!(critical, "{}: {:#?}", verdict.line, findings);
        }
    }

    /// Law 4: all findings recommend the same size and algorithm for zram.
    #[test]
    fn every_finding_recommends_the_same_size_and_algorithm(
        bad in badness(), stored in 0u64..1 << 34, ratio in 1u64..40, size in 1u64..100, raw in any::<bool>(),
    ) {
        let mut interval = host_of(bad);
        let host = &mut interval.end;
        let device = &mut host.zram[0];
        device.mm_stat.original = line("/sys/block/zram0/mm_stat", 1, Bytes::new(stored));
        device.mm_stat.memory_used = line("/sys/block/zram0/mm_stat", 1, Bytes::new(stored / ratio));
        device.disksize = file("/sys/block/zram0/disksize", Bytes::new(size << 30));
        let mut second = pagewise_testkit::made_host::zram(1, pagewise_model::ZramUse::NotInitialised, Bytes::new(0));
        if !raw {
            second.used_as = line("/proc/swaps", 3, pagewise_model::ZramUse::Nothing);
        }
        host.zram.push(second);
        let findings = diagnose(&interval);
        let after = |word: &str| -> std::collections::BTreeSet<String> {
            let commands = findings.iter().flat_map(|finding| &finding.next);
            let words = commands.filter_map(|command| {
                Some(command.split_once(word)?.1.split_whitespace().next()?.to_owned())
            });
            words.collect()
        };
        prop_assert!(after("--size ").len() <= 1, "{findings:#?}");
        prop_assert!(after("--algorithm ").len() <= 1, "{findings:#?}");
        let oversized = findings.iter().any(|finding| finding.id == "zram-oversized");
        let full = ((size + 4) << 30) / if stored >= 16 << 20 { ratio } else { 2 };
        prop_assert!(!oversized || full >= 15 << 30, "oversized at {full} bytes of RAM when full");
    }

    /// Stalls are not attributed to a group whose limit was not reached.
    #[test]
    fn waiting_without_a_limit_is_the_hosts(some in 0.3..1.0f64) {
        let interval = host_of(Badness { some, ..NOTHING });
        let verdict = judge(&interval);
        prop_assert_eq!(verdict.groups.len(), 0);
        prop_assert!(verdict.host >= Level::Short);
    }
}

/// The percentages in the sentence come from the Readings.
#[test]
fn the_line_names_the_worst_thing_with_its_number() {
    let line = |bad: Badness| judge(&host_of(bad)).line;
    assert_eq!(
        line(Badness { some: 0.5, full: 0.125, zones_low: true, ..NOTHING }),
        "Memory is short: programs waited for memory 20 % of the last minute (all programs at the same time: \
         5.0 %); 9.0 of 16.0 GiB are available."
    );
    assert_eq!(
        line(Badness { some: 0.5, full: 0.125, ..NOTHING }),
        "Programs waited for memory 20 % of the last minute (all programs at the same time: 5.0 %), although \
         9.0 of 16.0 GiB are available."
    );
    let mut near = host_of(Badness { some: 0.5, full: 0.125, ..NOTHING });
    let service = &mut near.end.cgroups.groups[2];
    stall(&mut service.pressure.some, 3.0, 3.0);
    service.max = file("/sys/fs/cgroup/x/memory.max", Limit::Bytes(service.current.get().unwrap()));
    assert!(
        judge(&near).line.contains(
            "are available: the limit of /system.slice/db.service (1.0 GiB) may be the reason."
        ),
        "{}",
        judge(&near).line
    );
    let killed = line(Badness { kills: 2, ..NOTHING });
    assert!(
        killed
            .starts_with("The kernel killed 2 processes for lack of memory in the last 10 seconds")
    );
    let group = line(Badness { group_kills: 1, group: 0.5, ..NOTHING });
    assert_eq!(
        group,
        "The host is not short of memory: 9.0 of 16.0 GiB are available. /system.slice/db.service is \
         critically short of memory because of its own limit: the kernel killed 1 process in it in the last 10 \
         seconds."
    );
    let full = line(Badness { swap: 0.95, ..NOTHING });
    assert!(full.starts_with("Memory is tight: swap is 95 % full; 9.0 of 16.0 GiB"), "{full}");
    assert_eq!(Percent::new(0.3).format_share_of_time(), "0.30 %");
}
