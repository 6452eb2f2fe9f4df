// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines kills by the kernel and by programs to one list in order of time.
//!
//! A moment after the kernel's report of a kill, systemd reports that something in the unit was
//! killed. Its message is joined with a kill in the same unit at most a minute apart. If there is
//! no such kill, the message becomes an entry of its own, because the kernel's report is missing.

use std::cmp::Ordering;

use pagewise_model::{
    KernelLog, Name, OomConstraint, OomEvent, OomKill, Source, UnitKill, UserKill, UserKiller,
    WallClock,
};

use super::limit_of_kill::limit;
use super::programs;

/// systemd's message is joined with a kill that is at most this many seconds apart.
const TOGETHER: f64 = 60.0;

/// Returns all kills in a log in order of time, each once.
pub fn time_line(log: &KernelLog) -> Vec<OomEvent> {
    let of_kernel = log.kills.iter().map(|kill| OomEvent {
        unit: find_unit_of_kill(log, kill).map(|unit| unit.unit.clone()),
        ..event_of_kill(kill)
    });
    let of_programs = log.user_kills.iter().map(|kill| OomEvent {
        unit: log
            .unit_kills
            .iter()
            .find(|unit| is_of_program(unit, kill))
            .map(|it| it.unit.clone()),
        ..event_of_program(kill)
    });
    let alone = find_units_alone(log).into_iter().map(|unit| OomEvent {
        source: unit.source.clone(),
        unix_seconds: unit.unix_seconds,
        stamp: unit.stamp.clone(),
        by: "not known",
        victim: unit.unit.clone(),
        pid: None,
        rule: "systemd reports it; no report of the kernel is beside it".to_owned(),
        unit: Some(unit.unit.clone()),
    });
    let mut events: Vec<OomEvent> = of_kernel.chain(of_programs).chain(alone).collect();
    sort(&mut events);
    events
}

/// Returns systemd's messages about units for which no kill is in the log.
pub(super) fn find_units_alone(log: &KernelLog) -> Vec<&UnitKill> {
    let has_kill = |unit: &UnitKill| {
        log.kills.iter().any(|kill| is_of_kill(unit, kill))
            || log.user_kills.iter().any(|kill| is_of_program(unit, kill))
    };
    log.unit_kills.iter().filter(|unit| !has_kill(unit)).collect()
}

/// Returns systemd's message about the unit in which this process was killed.
pub(super) fn find_unit_of_kill<'a>(log: &'a KernelLog, kill: &OomKill) -> Option<&'a UnitKill> {
    log.unit_kills.iter().find(|unit| is_of_kill(unit, kill))
}

fn is_of_kill(unit: &UnitKill, kill: &OomKill) -> bool {
    let paths = [&kill.victim_group, &kill.group];
    let is_inside = paths.into_iter().flatten().any(|path| is_in(path, &unit.unit));
    let (by_unit, of_kill) = (
        time(unit.unix_seconds, unit.stamp.as_ref()),
        time(kill.unix_seconds, kill.stamp.as_ref()),
    );
    is_inside && is_same_machine(&unit.machine, &kill.machine) && are_together(by_unit, of_kill)
}

fn is_of_program(unit: &UnitKill, kill: &UserKill) -> bool {
    let (by_unit, of_kill) = (
        time(unit.unix_seconds, unit.stamp.as_ref()),
        time(kill.unix_seconds, kill.stamp.as_ref()),
    );
    // messages of the other programs name a process but not its unit
    kill.by == UserKiller::SystemdOomd
        && is_in(&kill.victim, &unit.unit)
        && is_same_machine(&unit.machine, &kill.machine)
        && are_together(by_unit, of_kill)
}

/// Whether the cgroup with this path is the cgroup of the unit, or inside of it.
fn is_in(path: &Name, unit: &Name) -> bool {
    path.as_str().split('/').any(|part| part == unit.as_str())
}

/// Whether two messages may be from the same machine; the log of a single machine often does not
/// name it in each line.
fn is_same_machine(one: &Option<Name>, other: &Option<Name>) -> bool {
    one.as_ref().zip(other.as_ref()).is_none_or(|(one, other)| one == other)
}

/// Whether two messages about the same unit may be about the same kill. `true` if one of the times
/// is not known.
fn are_together(one: Option<WallClock>, other: Option<WallClock>) -> bool {
    let apart = one.zip(other).and_then(|(one, other)| one.seconds_apart(other));
    apart.is_none_or(|seconds| seconds <= TOGETHER)
}

fn time(unix_seconds: Option<f64>, stamp: Option<&Name>) -> Option<WallClock> {
    let of_stamp = || WallClock::parse(stamp?.as_str());
    unix_seconds.map(WallClock::Absolute).or_else(of_stamp)
}

fn event_of_kill(kill: &OomKill) -> OomEvent {
    let nobody = || Name::from(if kill.panic.is_some() { "the machine" } else { "nobody" });
    OomEvent {
        source: kill.source.clone(),
        unix_seconds: kill.unix_seconds,
        stamp: kill.stamp.clone(),
        by: "kernel",
        victim: kill.victim.as_ref().map_or_else(nobody, |victim| victim.name.clone()),
        pid: kill.victim.as_ref().map(|victim| victim.pid),
        rule: rule_of_kernel(kill),
        unit: None,
    }
}

fn rule_of_kernel(kill: &OomKill) -> String {
    let limit = limit(kill).map_or_else(String::new, |limit| format!(" ({limit})"));
    match (kill.constraint, &kill.group) {
        (Some(OomConstraint::Cgroup), Some(group)) => format!("limit of {group}{limit}"),
        (Some(OomConstraint::Cgroup), None) => format!("limit of a cgroup{limit}"),
        (Some(OomConstraint::Host), _) => "memory of the machine".to_owned(),
        (Some(OomConstraint::Cpuset), _) => "NUMA nodes of a cpuset".to_owned(),
        (Some(OomConstraint::Policy), _) => "NUMA nodes of a policy".to_owned(),
        (None, _) => "not in the log".to_owned(),
    }
}

fn event_of_program(kill: &UserKill) -> OomEvent {
    OomEvent {
        source: kill.source.clone(),
        unix_seconds: kill.unix_seconds,
        stamp: kill.stamp.clone(),
        by: programs::name(kill.by),
        victim: kill.victim.clone(),
        pid: kill.pid,
        rule: programs::limit(kill),
        unit: None,
    }
}

/// Sorts events by time if all times are of the same kind; otherwise by their position in the log,
/// because each log is in order of time.
fn sort(events: &mut [OomEvent]) {
    let times: Option<Vec<WallClock>> =
        events.iter().map(|event| time(event.unix_seconds, event.stamp.as_ref())).collect();
    let are_of_one_kind = times
        .is_some_and(|times| times.windows(2).all(|pair| pair[0].seconds_apart(pair[1]).is_some()));
    events.sort_by(|one, other| {
        let time = |event: &OomEvent| time(event.unix_seconds, event.stamp.as_ref());
        let by_time = if are_of_one_kind {
            time(one).partial_cmp(&time(other)).unwrap_or(Ordering::Equal)
        } else {
            Ordering::Equal
        };
        let place = |source: &Source| (source.path().to_owned(), source.line_number());
        by_time
            .then_with(|| place(&one.source).cmp(&place(&other.source)))
            .then_with(|| one.by.cmp(other.by))
            .then_with(|| (one.victim.as_str(), one.pid).cmp(&(other.victim.as_str(), other.pid)))
    });
}

#[cfg(test)]
mod tests {
    use pagewise_model::OomVictim;
    use proptest::prelude::*;

    use super::*;

    fn kernel(at: u32, unit: &str) -> OomKill {
        OomKill {
            source: Source::line("/dev/kmsg", at),
            unix_seconds: Some(f64::from(at)),
            constraint: Some(OomConstraint::Cgroup),
            group: Some(Name::from("/system.slice")),
            victim_group: Some(Name::from(format!("/system.slice/{unit}/main").as_str())),
            victim: Some(OomVictim { pid: at, name: Name::from("worker"), ..OomVictim::default() }),
            ..OomKill::default()
        }
    }

    fn program(at: u32, by: UserKiller, unit: &str) -> UserKill {
        UserKill {
            source: Source::line("/var/log/journal", at),
            unix_seconds: Some(f64::from(at)),
            by,
            victim: Name::from(format!("/user.slice/{unit}").as_str()),
            ..UserKill::default()
        }
    }

    fn unit(at: u32, unit: &str) -> UnitKill {
        UnitKill {
            source: Source::line("/var/log/journal", at),
            unix_seconds: Some(f64::from(at)),
            unit: Name::from(unit),
            is_result: true,
            ..UnitKill::default()
        }
    }

    fn shown(log: &KernelLog) -> Vec<(u32, &'static str, Option<String>)> {
        let event = |event: OomEvent| {
            let unit = event.unit.map(|unit| unit.to_string());
            (event.source.line_number().unwrap_or(0), event.by, unit)
        };
        time_line(log).into_iter().map(event).collect()
    }

    #[test]
    fn a_unit_is_joined_with_the_kill_in_it_within_a_minute() {
        let db = Some("db.service".to_owned());
        let log = |at| KernelLog {
            kills: vec![kernel(100, "db.service"), kernel(103, "web.service")],
            unit_kills: vec![unit(at, "db.service")],
            ..KernelLog::default()
        };
        let joined = [(100, "kernel", db.clone()), (103, "kernel", None)];
        assert_eq!(shown(&log(160)), joined);
        assert_eq!(shown(&log(40)), joined);
        let alone = [(100, "kernel", None), (103, "kernel", None), (161, "not known", db.clone())];
        assert_eq!(shown(&log(161)), alone);
        let of_oomd = KernelLog {
            user_kills: vec![
                program(9, UserKiller::SystemdOomd, "db.service"),
                program(9, UserKiller::Earlyoom, "db.service"),
            ],
            unit_kills: vec![unit(10, "db.service")],
            ..KernelLog::default()
        };
        assert_eq!(shown(&of_oomd), [(9, "earlyoom", None), (9, "systemd-oomd", db)]);
    }

    /// The log names another machine, or the unit's name is only a part of the cgroup's name.
    #[test]
    fn a_unit_of_another_machine_or_name_is_not_joined() {
        let on = |name: &str| Some(Name::from(name));
        let machines = KernelLog {
            kills: vec![OomKill { machine: on("h1"), ..kernel(100, "db.service") }],
            unit_kills: vec![UnitKill { machine: on("h2"), ..unit(101, "db.service") }],
            ..KernelLog::default()
        };
        assert_eq!(shown(&machines).len(), 2);
        let names = KernelLog {
            kills: vec![kernel(100, "my-db.service")],
            unit_kills: vec![unit(101, "db.service")],
            ..KernelLog::default()
        };
        assert_eq!(shown(&names).len(), 2);
    }

    proptest! {
        /// In whatever order the logs contain them, the list is the same and in order of time, and
        /// has each kill by the kernel and by a program exactly once.
        #[test]
        fn the_order_of_the_logs_does_not_matter(
            kills in prop::collection::btree_set(1u32..400, 0..8),
            others in prop::collection::btree_set(1_000u32..1_400, 0..8),
            units in prop::collection::btree_set(2_000u32..2_400, 0..4),
            shuffle in any::<prop::sample::Index>(),
            has_times in any::<bool>(),
        ) {
            let names = ["a.service", "b.service", "c.scope"];
            let killers = [UserKiller::SystemdOomd, UserKiller::Earlyoom, UserKiller::Kubelet];
            let pick = |at: u32| names[at as usize % 3];
            let time = |at: u32| has_times.then(|| f64::from(at % 1_000));
            let mut log = KernelLog {
                kills: kills.iter().map(|&at| OomKill { unix_seconds: time(at), ..kernel(at, pick(at)) }).collect(),
                user_kills: others.iter().map(|&at| UserKill {
                    unix_seconds: time(at),
                    ..program(at, killers[at as usize % 3], pick(at / 3))
                }).collect(),
                unit_kills: units.iter().map(|&at| UnitKill { unix_seconds: time(at), ..unit(at, pick(at)) }).collect(),
                ..KernelLog::default()
            };
            let first = time_line(&log);
            let turn = shuffle.index(8);
            log.kills.reverse();
            log.user_kills.rotate_left(turn.min(others.len()));
            log.unit_kills.reverse();
            let second = time_line(&log);
            prop_assert_eq!(&first, &second);
            let times: Vec<_> = first.iter().filter_map(|event| event.unix_seconds).collect();
            prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", times);
            let lines = |by: &dyn Fn(&OomEvent) -> bool| {
                let mut lines: Vec<u32> = first
                    .iter()
                    .filter(|event| by(event))
                    .filter_map(|event| event.source.line_number())
                    .collect();
                lines.sort_unstable();
                lines
            };
            prop_assert_eq!(lines(&|event| event.by == "kernel"), kills.into_iter().collect::<Vec<_>>());
            let of_programs = lines(&|event| event.by != "kernel" && event.by != "not known");
            prop_assert_eq!(of_programs, others.into_iter().collect::<Vec<_>>());
            let alone = lines(&|event| event.by == "not known");
            prop_assert!(alone.iter().all(|at| units.contains(at)));
        }
    }
}
