// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit that a cgroup needs, as a table: one service with one change per row.

use pagewise_model::{
    Cgroup, Confidence, Counters, Generation, GroupGenerations, IdleMethod, Limit, LimitAdvice,
    LimitVerdict, Millis, NodeGenerations, Percent, Reading, Snapshot, Source, WatchCost,
    WatchedMemory, WatchedProcess,
};
use proptest::prelude::*;

use super::*;
use crate::testing::{file, line, mib, stall, still};

const PATH: &str = "/system.slice/db.service";
const FOLDER: &str = "/sys/fs/cgroup/system.slice/db.service";

fn db(host: &mut Snapshot) -> &mut Cgroup {
    host.cgroups.groups.iter_mut().find(|group| group.path.as_str() == PATH).unwrap()
}

/// `memory.stat` with these sizes in MiB.
fn stat(sizes: &[(&str, u64)]) -> Counters {
    let line = |(&(name, size), number)| {
        (Name::from(name), line(&format!("{FOLDER}/memory.stat"), number, size << 20))
    };
    sizes.iter().zip(1..).map(line).collect()
}

/// 1 GiB in use: 600 MiB anonymous, 400 MiB page cache of which 300 MiB are inactive, 24 MiB kernel
/// memory. No limit, a peak of 4 GiB, no refaults, no swap in use; the readings are 1 s apart.
fn service(change: impl Fn(&mut Cgroup)) -> Interval {
    let mut host = crate::testing::host();
    let group = db(&mut host);
    group.peak = file(&format!("{FOLDER}/memory.peak"), mib(4096));
    group.high = file(&format!("{FOLDER}/memory.high"), Limit::Max);
    group.anon = line(&format!("{FOLDER}/memory.stat"), 1, mib(600));
    group.file = line(&format!("{FOLDER}/memory.stat"), 2, mib(400));
    group.shmem = line(&format!("{FOLDER}/memory.stat"), 3, mib(0));
    group.swap_current = file(&format!("{FOLDER}/memory.swap.current"), mib(0));
    group.refault_file = line(&format!("{FOLDER}/memory.stat"), 4, 1000);
    group.refault_anon = line(&format!("{FOLDER}/memory.stat"), 5, 1000);
    group.pgmajfault = line(&format!("{FOLDER}/memory.stat"), 6, 1000);
    group.events.high = line(&format!("{FOLDER}/memory.events"), 2, 0);
    group.events.oom_kill = line(&format!("{FOLDER}/memory.events"), 5, 0);
    group.stat = stat(&[("inactive_file", 300), ("unevictable", 0)]);
    change(group);
    still(host)
}

fn limited(size: u64) -> impl Fn(&mut Cgroup) {
    move |group| group.max = file(&format!("{FOLDER}/memory.max"), Limit::Bytes(mib(size)))
}

/// A survey with only the counters as a source.
fn survey(interval: &Interval, idle: &Idle) -> WorkingSet {
    let selected = Name::from(PATH);
    let inputs = LimitInputs {
        selected: Some(&selected),
        age: Millis::new(idle.age * 1000),
        generations: &idle.generations,
        watched: idle.watched.as_ref(),
    };
    let mut found = survey_limits(interval, &inputs).groups;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Sources of idle times.
struct Idle {
    age: u64,
    generations: Reading<Vec<GroupGenerations>>,
    watched: Option<WatchedMemory>,
}

fn counters_only() -> Idle {
    let generations = Reading::absent("this kernel has no multi-gen LRU", Source::none());
    Idle { age: 120, generations, watched: None }
}

/// Generations of the service: pages in MiB, oldest first, and the seconds since each began.
fn generations(age: u64, all: &[(u64, u64, u64)]) -> Idle {
    let one = |&(seconds, anon, file): &(u64, u64, u64)| Generation {
        number: 0,
        age: Millis::new(seconds * 1000),
        anon: pagewise_model::Pages::new(anon * 256),
        file: pagewise_model::Pages::new(file * 256),
    };
    let node = NodeGenerations { node: 0, generations: all.iter().map(one).collect() };
    let group = GroupGenerations { id: 1, path: Name::from(PATH), nodes: vec![node] };
    let other = GroupGenerations { path: Name::from("/system.slice/db.service2"), ..group.clone() };
    let found = Reading::found(vec![group, other], Source::file("/sys/kernel/debug/lru_gen"));
    Idle { age, generations: found, watched: None }
}

fn watched(seconds: f64, idle_anon: u64, idle_file: u64, anon_peak: u64, not_read: u64) -> Idle {
    let (idle_anon, idle_file) = (mib(idle_anon), mib(idle_file));
    let processes = vec![WatchedProcess { pid: 4121, looked_at: mib(900), idle_anon, idle_file }];
    let cost = WatchCost { processes: 1, not_read, seconds, ..WatchCost::default() };
    let watched = WatchedMemory { cost, processes, anon_peak: Some(mib(anon_peak)) };
    Idle { watched: Some(watched), ..counters_only() }
}

/// The expected verdict, its size in MiB, the confidence, and words in its reasons.
struct Row {
    what: &'static str,
    interval: Interval,
    idle: Idle,
    verdict: LimitVerdict,
    size: Option<u64>,
    confidence: Option<Confidence>,
    because: &'static [&'static str],
}

fn could_be(
    what: &'static str,
    interval: Interval,
    idle: Idle,
    size: u64,
    confidence: Confidence,
) -> Row {
    let (verdict, size, confidence) = (LimitVerdict::CouldBe, Some(size), Some(confidence));
    Row { what, interval, idle, verdict, size, confidence, because: &[] }
}

fn too_low(what: &'static str, interval: Interval, size: u64, confidence: Confidence) -> Row {
    let row = could_be(what, interval, counters_only(), size, confidence);
    Row { verdict: LimitVerdict::TooLow, ..row }
}

fn not_known(what: &'static str, interval: Interval, because: &'static [&'static str]) -> Row {
    let verdict = LimitVerdict::NotKnown;
    Row { what, interval, idle: counters_only(), verdict, size: None, confidence: None, because }
}

fn fits(what: &'static str, interval: Interval, confidence: Confidence) -> Row {
    let (verdict, confidence) = (LimitVerdict::Fits, Some(confidence));
    Row { what, interval, idle: counters_only(), verdict, size: None, confidence, because: &[] }
}

fn because(row: Row, because: &'static [&'static str]) -> Row {
    Row { because, ..row }
}

/// The limit was reached during the interval, and its tasks were stalled.
fn at_limit(change: impl Fn(&mut Cgroup)) -> Interval {
    let mut interval = service(|group| {
        limited(1024)(group);
        group.peak = file(&format!("{FOLDER}/memory.peak"), mib(1024));
        group.swap_current = file(&format!("{FOLDER}/memory.swap.current"), mib(100));
    });
    let group = db(&mut interval.end);
    group.events.max = line(&format!("{FOLDER}/memory.events"), 3, 500);
    change(group);
    interval
}

fn at_end(mut interval: Interval, change: impl Fn(&mut Cgroup)) -> Interval {
    change(db(&mut interval.end));
    interval
}

fn grown() -> Interval {
    let mut interval = service(|_| ());
    for (end, held) in [(interval.start.as_deref_mut().unwrap(), 600), (&mut interval.end, 900)] {
        db(end).anon = line(&format!("{FOLDER}/memory.stat"), 1, mib(held));
    }
    interval
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use Confidence::{High, Low, Medium};
    vec![
        // 1024 - 300 inactive = 724, and 50 %
        because(could_be("counters alone", service(|_| ()), counters_only(), 1086, Low),
            &["in use: 724.0 MiB of 1.0 GiB; idle: 300.0 MiB of file cache", "no idle times are known", "margin of 50 %"]),
        // its peak is 900, so 990 are enough
        because(could_be("a peak that no limit held", service(|group| {
            group.peak = file("/p", mib(900));
            group.current = file("/c", mib(850));
        }), counters_only(), 825, Low), &["margin of 50 %"]),
        because(could_be("a peak near what is in use", service(|group| {
            group.peak = file("/p", mib(1030));
            group.stat = stat(&[("inactive_file", 10)]);
        }), counters_only(), 1133, Low), &["no more than its peak plus 10 %"]),
        // 600 + 24 + 100 are in use; 300 of page cache and 200 of anonymous memory are idle, and
        // swap has room. Refaults that are unknown or above zero keep the confidence from being
        // high
        because(could_be("generations of ten minutes", service(|_| ()),
            generations(600, &[(2000, 200, 300), (1500, 100, 50), (800, 300, 50)]), 655, Medium),
            &["in use: 524.0 MiB", "200.0 MiB of anonymous memory, for which swap has room", "not used for 10 min"]),
        because(could_be("the kernel has not looked for so long", service(|_| ()),
            generations(600, &[(700, 200, 300), (500, 100, 50)]), 1086, Low), &["no idle times are known", "its generations cover less than 10 min"]),
        because(could_be("no swap: idle anonymous memory has to stay", service(|group| {
            group.swap_max = file("/s", Limit::Bytes(mib(0)));
        }), watched(60.0, 200, 300, 600, 0), 905, Medium), &["in use: 724.0 MiB"]),
        // 1024 - 300 - 200 = 524, 25 %
        because(could_be("watched for a minute", service(|_| ()), watched(60.0, 200, 300, 600, 0), 655, Medium),
            &["not used for 60 s", "margin of 25 %"]),
        because(could_be("watched for ten minutes", service(|_| ()), watched(600.0, 200, 300, 600, 0), 577, High),
            &["not used for 10 min", "margin of 10 %"]),
        could_be("watched for too short a time", service(|_| ()), watched(5.0, 200, 300, 600, 0), 786, Low),
        // 524 + 200, 10 %
        because(could_be("anonymous memory was larger meanwhile", service(|_| ()), watched(600.0, 200, 300, 800, 0), 797, High),
            &["plus 200.0 MiB: its anonymous memory was larger before"]),
        because(could_be("a process could not be watched", service(|_| ()), watched(600.0, 200, 300, 600, 2), 655, Medium),
            &["2 processes could not be watched"]),
        because(could_be("no peak: an old kernel", service(|group| {
            group.peak = Reading::absent("no such file", Source::file("/p"));
        }), watched(600.0, 200, 300, 600, 0), 655, Medium), &["its peak is not known"]),
        because(could_be("locked memory has to stay", service(|group| {
            group.stat = stat(&[("inactive_file", 300), ("unevictable", 350)]);
        }), counters_only(), 1461, Low), &["idle: 50.0 MiB of file cache"]),
        because(could_be("protected memory has to fit", service(|group| {
            group.low = file("/l", Limit::Bytes(mib(2000)));
        }), counters_only(), 2000, Low), &["memory.low or memory.min protects"]),
        // 10,240 pages are 40 MiB: 764, plus 50 %
        because(could_be("files are read again", at_end(service(|_| ()), |group| {
            group.refault_file = line("/r", 4, 1000 + 10_240);
        }), counters_only(), 1146, Low), &["plus 40.0 MiB that it read again", "reads again what was dropped"]),
        could_be("a limit that is far too high", service(limited(8192)), counters_only(), 1086, Low),
        fits("a limit that fits", service(limited(1100)), Low),
        because(could_be("a high below max", service(|group| {
            limited(8192)(group);
            group.high = file(&format!("{FOLDER}/memory.high"), Limit::Bytes(mib(4096)));
        }), counters_only(), 1086, Low), &[]),
        // 1024 + 100 in swap, plus a tenth
        because(too_low("tasks wait at the limit", at_limit(|group| {
            group.pressure.some.avg60 = line("/p", 1, Percent::new(30.0));
        }), 1237, Medium), &["its tasks waited for memory", "plus a tenth", "not known"]),
        // the limit plus a half
        because(too_low("a process was killed at the limit", at_limit(|group| {
            group.events.oom_kill = line("/e", 5, 1);
        }), 1636, High), &["the kernel killed 1 process", "half of the limit"]),
        because(too_low("files are read again at the limit", at_limit(|group| {
            group.refault_file = line("/r", 4, 10_000);
            group.pgmajfault = line("/r", 6, 5_000);
        }), 1237, Medium), &["read back"]),
        because(too_low("what cannot be dropped fills the limit", service(|group| {
            limited(1024)(group);
            group.file = line("/f", 2, mib(20));
            group.swap_max = file("/s", Limit::Bytes(mib(0)));
        }), 1127, Medium), &["memory that the kernel cannot drop"]),
        because(too_low("killed earlier, with a peak at the limit", service(|group| {
            limited(1024)(group);
            group.peak = file("/p", mib(1024));
            group.events.oom_kill = line("/e", 5, 3);
        }), 1536, Low), &["3 processes in it were killed", "doctor --oom"]),
        not_known("killed earlier, below the limit", service(|group| {
            group.events.oom_kill = line("/e", 5, 1);
        }), &["1 process in it was killed", "at which limit is not known"]),
        not_known("usage may not be read", service(|group| {
            group.current = Reading::denied("run as root", Source::file("/c"));
        }), &["run as root"]),
        not_known("usage is not there", service(|group| {
            group.current = Reading::absent("no such file", Source::file("/c"));
        }), &["no such file"]),
        not_known("memory.stat is not there", service(|group| {
            group.file = Reading::absent("no such file", Source::file("/c"));
        }), &["memory.stat"]),
        not_known("hardly any memory", service(|group| group.current = file("/c", Bytes::new(4096))),
            &["less than 1.0 MiB"]),
        not_known("it grows", grown(), &["grew by 300.0 MiB"]),
        not_known("all of the host", service(|group| {
            group.current = file("/c", mib(15 << 10));
            group.peak = Reading::absent("no such file", Source::file("/c"));
        }), &["more than the host has"]),
    ]
}

#[test]
fn each_service_is_told_what_follows_from_its_readings() {
    let rows = rows();
    assert!(rows.len() >= 25);
    for Row { what, interval, idle, verdict, size, confidence, because } in rows {
        let group = survey(&interval, &idle);
        let LimitAdvice { reasons, commands, .. } = &group.advice;
        let told = reasons.join("; ");
        let found = (
            group.advice.verdict,
            group.advice.size.map(|it| it.get() >> 20),
            group.advice.confidence,
        );
        assert_eq!(found, (verdict, size, confidence), "{what}: {told}");
        for words in because {
            assert!(told.contains(words), "{what}: {words:?} is not in {told}");
        }
        let why_none = told.contains("no command is given");
        assert_eq!(commands.is_empty(), size.is_none() || why_none, "{what}: {commands:?}");
    }
}

#[test]
fn a_host_that_is_short_lowers_the_confidence() {
    let mut interval = service(|_| ());
    stall(&mut interval.end.psi.memory.some, 60.0, 60.0);
    stall(&mut interval.end.psi.memory.full, 40.0, 40.0);
    let group = survey(&interval, &watched(600.0, 200, 300, 600, 0));
    assert_eq!(group.advice.confidence, Some(Confidence::Low), "{:?}", group.advice);
    assert!(group.advice.reasons.iter().any(|why| why.contains("the host is short")));
}

#[test]
fn a_host_that_was_read_once_has_low_confidence() {
    let interval = Interval { start: None, ..service(|_| ()) };
    let group = survey(&interval, &watched(600.0, 200, 300, 600, 0));
    assert_eq!((group.advice.confidence, group.refaults_per_second), (Some(Confidence::Low), None));
}

#[test]
fn commands_say_how_long_they_last_and_how_to_undo_them() {
    let commands = |interval: &Interval| survey(interval, &counters_only()).advice.commands;
    assert_eq!(
        commands(&service(|_| ())),
        [
            "sudo systemctl set-property --runtime db.service MemoryHigh=1086M  # writes; contains \
             the damage and cures nothing: at this limit the kernel slows the group down; until the next boot; \
             undo with sudo systemctl set-property --runtime db.service MemoryHigh=infinity",
            "sudo systemctl set-property db.service MemoryHigh=1086M  # writes; contains the damage and cures \
             nothing: at this limit the kernel slows the group down; permanent; undo with sudo \
             systemctl set-property db.service MemoryHigh=infinity"
        ]
    );
    // a limit that is set is never lowered
    assert_eq!(commands(&service(limited(8192))), [""; 0]);
    // version 1 has no memory.high, and the absence of a limit is read from memory.stat
    let v1 = commands(&service(|group| {
        let folder = "/sys/fs/cgroup/memory/a b";
        group.current = file(&format!("{folder}/memory.usage_in_bytes"), mib(1024));
        group.high = Reading::absent("cgroup v1 has no such limit", Source::none());
        group.max = line(&format!("{folder}/memory.stat"), 30, Limit::Max);
        group.path = Name::from(PATH);
    }));
    assert_eq!(
        v1,
        [
            "echo 1086M | sudo tee '/sys/fs/cgroup/memory/a b/memory.limit_in_bytes'  # writes; contains the damage \
             and cures nothing: at this limit the kernel kills a process of this group and no other; until the \
             cgroup is created again; what makes it has to set it to make it last; undo with echo -1 | \
             sudo tee '/sys/fs/cgroup/memory/a b/memory.limit_in_bytes'"
        ]
    );
}

/// `doctor` and `limits` suggest the same size.
#[test]
fn the_size_is_that_of_the_finding() {
    for interval in [
        at_limit(|group| group.pressure.some.avg60 = line("/p", 1, Percent::new(30.0))),
        at_limit(|group| group.events.oom_kill = line("/e", 5, 1)),
    ] {
        let size = survey(&interval, &counters_only()).advice.size.unwrap().get() >> 20;
        let findings = crate::diagnose(&interval);
        let finding = findings.iter().find(|finding| finding.id == "group-limit").unwrap();
        assert!(
            finding.next[0].contains(&format!("MemoryMax={size}M")),
            "{size}: {:?}",
            finding.next
        );
    }
}

#[test]
fn all_groups_but_the_root_are_listed_without_a_selection() {
    let interval = service(|_| ());
    let idle = counters_only();
    let inputs = LimitInputs {
        selected: None,
        age: Millis::new(120_000),
        generations: &idle.generations,
        watched: None,
    };
    let survey = survey_limits(&interval, &inputs);
    let paths: Vec<&str> = survey.groups.iter().map(|group| group.group.as_str()).collect();
    assert_eq!(paths, ["/system.slice", PATH]);
    assert!(survey.processes.is_empty());
    assert!(survey.unknown[0].contains("this kernel has no multi-gen LRU"), "{:?}", survey.unknown);
}

/// The usage of a group does not show its needs while the limit of an ancestor or descendant
/// restricts it.
#[test]
fn groups_above_and_below_a_limit_that_is_too_low_are_not_judged() {
    let interval = at_limit(|group| group.pressure.some.avg60 = line("/p", 1, Percent::new(30.0)));
    let advice = |mut interval: Interval, path: &str| {
        let held = db(&mut interval.end).clone();
        let ends = [interval.start.as_deref_mut().unwrap(), &mut interval.end];
        for end in ends {
            let at =
                end.cgroups.groups.iter().position(|group| group.path.as_str() == PATH).unwrap();
            for above in ["/system.slice", "/system.slice/db.service/x"] {
                let free =
                    Cgroup { path: Name::from(above), max: file("/m", Limit::Max), ..held.clone() };
                let known =
                    end.cgroups.groups.iter_mut().find(|group| group.path.as_str() == above);
                match known {
                    Some(group) => *group = free,
                    None => end.cgroups.groups.insert(at + 1, free),
                }
            }
        }
        let (selected, idle) = (Name::from(path), counters_only());
        let inputs = LimitInputs {
            selected: Some(&selected),
            age: Millis::new(1),
            generations: &idle.generations,
            watched: None,
        };
        survey_limits(&interval, &inputs).groups.remove(0).advice
    };
    for (path, place) in [("/system.slice", "below it"), ("/system.slice/db.service/x", "above it")]
    {
        let advice = advice(interval.clone(), path);
        assert_eq!(advice.verdict, LimitVerdict::NotKnown, "{advice:?}");
        assert!(advice.reasons[0].contains(place), "{advice:?}");
    }
    assert_eq!(advice(interval, PATH).verdict, LimitVerdict::TooLow);
}

fn with_sizes(sizes: [u64; 6], limit: Option<u64>) -> Interval {
    let [current, anon, cache, inactive, locked, peak] = sizes;
    service(|group| {
        group.current = file("/c", mib(current));
        group.anon = line("/s", 1, mib(anon));
        group.file = line("/s", 2, mib(cache));
        group.stat = stat(&[("inactive_file", inactive), ("unevictable", locked)]);
        group.peak = file("/p", mib(peak));
        group.max = file("/m", limit.map_or(Limit::Max, |limit| Limit::Bytes(mib(limit))));
    })
}

proptest! {
    /// For any counters, even contradictory ones: a suggested limit has room for the memory in use
    /// and for locked memory, and locked memory counts as in use.
    #[test]
    fn a_suggested_limit_holds_what_is_in_use(
        sizes in any::<[u16; 6]>(),
        limit in proptest::option::of(1u64..70_000),
        method in 0u8..3,
        (idle_anon, idle_file, anon_peak) in (0u64..70_000, 0u64..70_000, 0u64..70_000),
        seconds in 1u64..2000,
    ) {
        let sizes = sizes.map(u64::from);
        let interval = with_sizes(sizes, limit);
        let idle = match method {
            0 => counters_only(),
            1 => generations(seconds, &[(3000, idle_anon, idle_file), (2500, 1, 1), (1, 1, 1)]),
            _ => watched(seconds as f64, idle_anon, idle_file, anon_peak, 0),
        };
        let group = survey(&interval, &idle);
        let locked = mib(sizes[4].min(sizes[0]));
        if let Some(hot) = group.hot {
            prop_assert!(hot >= locked && hot <= mib(sizes[0]));
        }
        if let Some(size) = group.advice.size {
            prop_assert!(Some(size) >= group.hot, "{:?}", group);
            prop_assert!(size >= locked);
            let fewer = group.advice.verdict == LimitVerdict::TooLow && limit.is_some_and(|it| size < mib(it));
            prop_assert!(!fewer, "too low, and a lower one is suggested: {:?}", group);
        }
        prop_assert_eq!(group.advice.confidence.is_none(), group.advice.verdict == LimitVerdict::NotKnown);
        prop_assert!(!group.advice.reasons.is_empty());
    }

    /// More idle memory never makes the suggested limit larger.
    #[test]
    fn more_idle_memory_never_needs_more(idle in 0u64..600, more in 0u64..300) {
        let interval = service(|_| ());
        let size = |idle| survey(&interval, &watched(60.0, idle, 0, 600, 0)).advice.size;
        prop_assert!(size(idle + more) <= size(idle));
    }
}

#[test]
fn the_best_method_is_taken() {
    let interval = service(|_| ());
    let method = |idle: &Idle| survey(&interval, idle).idle.unwrap().method;
    let both = Idle {
        watched: watched(60.0, 1, 1, 1, 0).watched,
        ..generations(1, &[(9, 1, 1), (8, 1, 1), (1, 1, 1)])
    };
    assert_eq!(method(&both), IdleMethod::AccessedBits);
    assert_eq!(method(&Idle { watched: None, ..both }), IdleMethod::Generations);
    assert_eq!(method(&counters_only()), IdleMethod::InactiveList);
}

/// A task that memory.high throttles sleeps for up to 2 s, so that no event may fall into the interval.
#[test]
fn a_limit_at_which_tasks_wait_does_not_fit() {
    let waiting = |share: f64, size: u64| {
        service(|group| {
            group.high = file(&format!("{FOLDER}/memory.high"), Limit::Bytes(mib(size)));
            group.current = file(&format!("{FOLDER}/memory.current"), mib(1024));
            group.pressure.some.avg60 =
                line(&format!("{FOLDER}/memory.pressure"), 1, Percent::new(share));
        })
    };
    let verdict = |interval: &Interval| {
        let unread = Reading::absent("not read", Source::none());
        let selected = Name::from(PATH);
        let inputs = LimitInputs {
            selected: Some(&selected),
            age: Millis::new(0),
            generations: &unread,
            watched: None,
        };
        survey_limits(interval, &inputs).groups.remove(0).advice.verdict
    };
    assert_eq!(verdict(&waiting(34.0, 1000)), LimitVerdict::TooLow);
    assert_ne!(verdict(&waiting(0.5, 1000)), LimitVerdict::TooLow);
    assert_ne!(verdict(&waiting(34.0, 4000)), LimitVerdict::TooLow);
}
