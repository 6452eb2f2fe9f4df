// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What changes would have done about a kill, against a simulation that runs with the change.
//!
//! The simulated cgroup has a program that grows and others that do not. The log has what the
//! kernel would print: one report for each kill. The oracle then runs the same simulation with the
//! changed limit and looks if, and when, something is killed.

use pagewise_decide::oom::{add_what_if, explain_text};
use pagewise_model::{
    Bytes, KernelLog, Limit, Name, OomConstraint, OomGroup, OomKill, OomTask, Source, WhatIf,
    WhatIfEffect, WhatIfKind,
};
use proptest::prelude::*;

use pagewise_testkit::made_host::kills::{by_host, by_limit, usage, victim};
use pagewise_testkit::made_host::mib;

/// How the program of a simulation grows.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// What it held at the start, in MiB.
    start: u64,
    /// MiB per second.
    rate: u64,
    /// What it takes at most, all of which it maps at the start; `None` for a leak, which maps as it
    /// grows.
    takes: Option<u64>,
    /// What the others hold; they do not grow.
    others: u64,
    /// A process that the kernel kills first, so that there are two reports.
    has_first: bool,
}

/// More than any simulation needs.
const HORIZON: u64 = 100_000;
/// What the process that dies first holds, in MiB: at least five seconds of growth.
const FIRST: u64 = 64;

impl Program {
    fn held(&self, second: u64) -> u64 {
        let grown = self.start + self.rate * second;
        self.takes.map_or(grown, |takes| grown.min(takes))
    }

    /// The seconds at which something is killed at this limit; the last is the program itself.
    fn kills(&self, limit: u64) -> Vec<u64> {
        let mut first = if self.has_first { FIRST } else { 0 };
        let mut kills = Vec::new();
        for second in 0..HORIZON {
            if self.held(second) + self.others + first > limit {
                kills.push(second);
                if first == 0 {
                    return kills;
                }
                first = 0;
                if self.held(second) + self.others > limit {
                    kills.push(second);
                    return kills;
                }
            }
            let is_done = self.takes.is_some_and(|takes| self.held(second) >= takes);
            if is_done {
                return kills;
            }
        }
        kills
    }

    fn report(&self, second: u64, limit: u64, victim_pid: u32) -> OomKill {
        // a cgroup never holds more than its limit: the last step was only begun
        let first = if victim_pid == 72 { FIRST } else { 0 };
        let held = self.held(second).min(limit - self.others - first);
        let task = |pid, name, rss, total_vm| OomTask {
            pid,
            name: Name::from(name),
            rss: mib(rss),
            total_vm: Some(mib(total_vm)),
            ..OomTask::default()
        };
        let mapped = self.takes.unwrap_or(held) + 3;
        let mut tasks =
            vec![task(70, "grows", held, mapped), task(71, "rests", self.others, self.others + 2)];
        if victim_pid == 72 {
            tasks.push(task(72, "first", FIRST, FIRST + 2));
        }
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let at = second as f64;
        OomKill {
            source: Source::line("/dev/kmsg", u32::try_from(second).unwrap()),
            boot_seconds: 1000.0 + at,
            constraint: Some(OomConstraint::Cgroup),
            group: Some(Name::from("/app")),
            victim: Some(victim(
                victim_pid,
                if victim_pid == 70 { "grows" } else { "first" },
                mib(held),
            )),
            group_memory: Some(OomGroup {
                memory: usage(mib(limit), Limit::Bytes(mib(limit)), 9),
                anon: Some(mib(limit)),
                ..OomGroup::default()
            }),
            tasks,
            ..OomKill::default()
        }
    }
}

fn suppose(kills: Vec<OomKill>) -> Vec<WhatIf> {
    let log = KernelLog { kills, ..KernelLog::default() };
    let mut explained = explain_text(&log);
    add_what_if(&log, &mut explained);
    explained.remove(0).what_if
}

fn of_kind(all: &[WhatIf], kind: WhatIfKind) -> &WhatIf {
    all.iter().find(|one| one.kind == kind).expect("a change of this kind")
}

/// The log of one simulation, its limit, and the second of the last kill.
fn log_of(program: &Program, limit: u64) -> Option<(Vec<OomKill>, u64)> {
    let kills = program.kills(limit);
    let last = *kills.last()?;
    // a second report at the same time shows no growth, and the program must be what dies last
    if kills.len() != usize::from(program.has_first) + 1 || program.has_first && kills[0] == last {
        return None;
    }
    let mut reports: Vec<OomKill> = Vec::new();
    if program.has_first {
        reports.push(program.report(kills[0], limit, 72));
    }
    reports.push(program.report(last, limit, 70));
    Some((reports, last))
}

fn program() -> impl Strategy<Value = (Program, u64)> {
    let takes = prop_oneof![Just(None), (200u64..2000).prop_map(Some)];
    (1u64..40, 1u64..13, takes, 0u64..100, any::<bool>(), 220u64..600).prop_map(
        |(start, rate, takes, others, has_first, limit)| {
            (Program { start, rate, takes, others, has_first }, limit)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// "Avoided" and "delayed" are only said if the simulation with that limit agrees.
    #[test]
    fn what_is_said_of_a_higher_limit_comes_true((program, limit) in program()) {
        let Some((reports, last)) = log_of(&program, limit) else { return Ok(()) };
        let seen = reports.len();
        let all = suppose(reports);
        let raised = of_kind(&all, WhatIfKind::Limit);
        let size = raised.size.unwrap();
        prop_assert!(size > mib(limit));
        let kills = program.kills(size.get() >> 20);
        let died = kills.get(usize::from(program.has_first));
        match raised.effect {
            WhatIfEffect::Avoided => prop_assert_eq!(died, None, "{:?}", raised),
            WhatIfEffect::Delayed => {
                let at = died.copied();
                prop_assert!(at.is_some(), "never killed: {:?}", raised);
                #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
                let later = (at.unwrap() - last) as f64;
                // the reports are of whole seconds, so the growth between them is off by a step of each
                #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
                let steps = (last - program.kills(limit)[0]) as f64;
                let said = raised.seconds_later.unwrap();
                prop_assert!((later - said).abs() <= 2.0 + later * 1.5 / steps, "{later} {raised:?}");
            }
            WhatIfEffect::NotKnown => prop_assert!(
                seen == 1, "two reports show the growth: {:?}", raised
            ),
            WhatIfEffect::None => prop_assert!(false, "{raised:?}"),
        }
    }

    /// Without the program that grew, nothing dies, because the others do not grow.
    #[test]
    fn without_what_grows_nothing_dies((program, limit) in program()) {
        let Some((reports, _)) = log_of(&program, limit) else { return Ok(()) };
        let seen = reports.len();
        let all = suppose(reports);
        let without = of_kind(&all, WhatIfKind::WithoutProcess);
        let expected = if seen == 2 { WhatIfEffect::Avoided } else { WhatIfEffect::NotKnown };
        prop_assert_eq!(without.effect, expected, "{:?}", without);
        prop_assert!(without.change.contains("grows"), "{}", without.change);
    }

    /// The reports of another machine, of another boot, or without times, say nothing of growth.
    #[test]
    fn growth_is_only_seen_within_one_boot((program, limit) in program(), how in 0u8..3) {
        let program = Program { has_first: true, takes: None, ..program };
        let Some((mut reports, _)) = log_of(&program, limit) else { return Ok(()) };
        let first = &mut reports[0];
        match how {
            0 => first.machine = Some(Name::from("other")),
            1 => first.earlier_boot = Some(Name::from("0123")),
            _ => first.boot_seconds = 0.0,
        }
        let all = suppose(reports);
        let delayed = all.iter().find(|one| one.effect == WhatIfEffect::Delayed);
        prop_assert_eq!(delayed, None);
    }
}

#[test]
fn a_program_that_is_started_again_dies_later_at_a_higher_limit() {
    let mut before = by_limit();
    before.victim = Some(victim(500, "nginx", mib(41)));
    before.boot_seconds = 100.0;
    before.tasks.clear();
    let mut kill = by_limit();
    kill.boot_seconds = 182.0;
    let all = suppose(vec![before, kill]);
    // 42 MiB in 82 s are 0.51 MiB/s; 32 MiB more are 62 s
    let raised = of_kind(&all, WhatIfKind::Limit);
    assert_eq!(raised.effect, WhatIfEffect::Delayed);
    assert!(
        raised.because.starts_with("by about 62 seconds: room for 32.0 MiB more"),
        "{raised:?}"
    );
    assert!(raised.because.ends_with("since the kill of the nginx before it, 82 seconds earlier"));
}

#[test]
fn one_report_of_a_leak_shows_only_the_room() {
    let all = suppose(vec![by_limit()]);
    let raised = of_kind(&all, WhatIfKind::Limit);
    assert_eq!((raised.effect, raised.size), (WhatIfEffect::NotKnown, Some(mib(96))));
    assert!(raised.because.contains("room for 32.0 MiB more"), "{raised:?}");
    let swap = of_kind(&all, WhatIfKind::GroupSwap);
    assert!(swap.because.contains("only if the machine had swap free"), "{swap:?}");
}

#[test]
fn a_machine_without_swap_is_offered_sizes_and_a_ratio() {
    let mut kill = by_host();
    kill.tasks[0].total_vm = Some(Bytes::new(19 << 30));
    kill.tasks[1].total_vm = Some(Bytes::new(3 << 29));
    let all = suppose(vec![kill]);
    let swap = of_kind(&all, WhatIfKind::Swap);
    assert_eq!((swap.effect, swap.size), (WhatIfEffect::Avoided, Some(mib(9216))));
    assert!(swap.because.contains("7.5 GiB were mapped and not used yet"), "{swap:?}");
    let zram = of_kind(&all, WhatIfKind::Zram);
    assert_eq!(zram.effect, WhatIfEffect::NotKnown);
    assert!(zram.because.contains("2.0 : 1"), "{zram:?}");
    assert_eq!(of_kind(&all, WhatIfKind::Memory).effect, WhatIfEffect::Avoided);
}
