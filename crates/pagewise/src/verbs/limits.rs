// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise limits`: which memory limit each cgroup needs.

pub(super) mod watch;

use std::time::Duration;

use pagewise_decide::{LimitInputs, survey_limits};
use pagewise_facts::groups;
use pagewise_model::{
    GroupGenerations, Interval, LimitSurvey, Millis, Name, Reading, Refusal, Snapshot, Source,
    WatchedMemory,
};
use pagewise_observe::{HostRoot, Recording, Scope, generations, snapshot};
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::progress::Spinner;
use pagewise_terminal::{Global, Outcome, interrupt, output, screen};

use crate::{cli, input};

pub(super) fn run(
    global: &Global,
    args: &cli::Limits,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if args.watch.is_some() && global.root.is_some() {
        let what = "--for: a recording has no processes that could be watched";
        return Err(Refusal::with_advice(what, "leave --for out, or leave --root out").into());
    }
    let host = input::open(global)?;
    let selected = select_group(&host, args)?;
    let read = generations_of(&host);
    let (interval, watched) = interval(&host, global, args, selected.as_ref())?;
    let survey = survey(&interval, args, selected.as_ref(), &read, watched.as_ref());
    let shown = if global.json {
        json::limits(&survey, &interval.end, cost::measure_since(started, &interval))
    } else {
        text::limits(&survey, selected.is_some(), screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

/// What to read for `limits`: cgroups, processes without proportional sizes (PSS), and the counters
/// that show whether the host is short of memory.
fn scope() -> Scope {
    Scope { kernel_log: false, ..Scope::everything(Duration::ZERO) }
}

fn survey(
    interval: &Interval,
    args: &cli::Limits,
    selected: Option<&Name>,
    generations: &Reading<Vec<GroupGenerations>>,
    watched: Option<&WatchedMemory>,
) -> LimitSurvey {
    let age = Millis::new(u64::try_from(args.age.as_millis()).unwrap_or(u64::MAX));
    survey_limits(interval, &LimitInputs { selected, age, generations, watched })
}

/// The multi-gen LRU generations of all cgroups, on a live host only: recordings do not contain
/// that file, because it holds the names of all cgroups.
fn generations_of(host: &Recording) -> Reading<Vec<GroupGenerations>> {
    if host.end.is_live() {
        return generations(&host.end);
    }
    Reading::absent("a recording does not contain them", Source::none())
}

/// Reads both ends of the interval; with `--for` the interval is the time for which the cgroup is
/// watched.
fn interval(
    host: &Recording,
    global: &Global,
    args: &cli::Limits,
    selected: Option<&Name>,
) -> anyhow::Result<(Interval, Option<WatchedMemory>)> {
    let Some((time, group)) = args.watch.zip(selected) else {
        return Ok((input::read_interval_of(host, global, &scope())?, None));
    };
    let host = match &host.start {
        Some(_) => host,
        None => &Recording::live()?,
    };
    let mut watched = None;
    let interval = host.interval(&scope(), || {
        let _shown = Spinner::start(global, time);
        watched = Some(watch::watch(group, time, &interrupt::wait)?);
        anyhow::Ok(())
    })?;
    Ok((interval, watched))
}

/// The path of the requested cgroup, as the host spells it.
fn select_group(host: &Recording, args: &cli::Limits) -> anyhow::Result<Option<Name>> {
    if args.cgroup.is_none() && args.unit.is_none() && args.pid.is_none() {
        return Ok(None);
    }
    let seen = read_groups(&host.end);
    let found = match (&args.cgroup, &args.unit, args.pid) {
        (Some(path), ..) => find_by_path(&seen, path)?,
        (_, Some(unit), _) => find_by_unit(&seen, unit)?,
        (.., pid) => find_by_process(&seen, pid.unwrap_or_default())?,
    };
    if found.as_str() == "/" {
        let what = "the root of all cgroups has no limit but the memory of the machine";
        return Err(Refusal::with_advice(what, "`pagewise limits` lists the others").into());
    }
    Ok(Some(found))
}

/// Reads the cgroups, and the processes in them.
pub(super) fn read_groups(host: &HostRoot) -> Snapshot {
    snapshot(host, &Scope { settings: false, ..scope() })
}

/// Finds a cgroup by the path that the user typed.
pub(super) fn find_by_path(seen: &Snapshot, path: &str) -> anyhow::Result<Name> {
    let found = groups::find(seen, path).map(|group| group.path.clone());
    found
        .ok_or_else(|| missing_error(format!("no memory cgroup {} on this host", Name::from(path))))
}

/// Finds the only cgroup of a systemd unit.
pub(super) fn find_by_unit(seen: &Snapshot, unit: &str) -> anyhow::Result<Name> {
    match groups::find_by_unit(seen, unit).as_slice() {
        [] => Err(missing_error(format!(
            "no memory cgroup of a unit {} on this host",
            Name::from(unit)
        ))),
        [only] => Ok(only.path.clone()),
        several => {
            let paths: Vec<&str> = several.iter().map(|group| group.path.as_str()).collect();
            let what = format!("{} cgroups are of a unit {}", several.len(), Name::from(unit));
            let next = format!("choose one with --cgroup: {}", paths.join(", "));
            Err(Refusal::with_advice(what, next).into())
        }
    }
}

fn find_by_process(seen: &Snapshot, pid: u32) -> anyhow::Result<Name> {
    let Some(process) = seen.processes.list.iter().find(|process| process.pid == pid) else {
        return Err(missing_error(format!("no process {pid} with memory of its own")));
    };
    let group = process.cgroup.value().cloned();
    group.ok_or_else(|| missing_error(format!("the memory cgroup of process {pid} is not known")))
}

fn missing_error(what: String) -> anyhow::Error {
    Refusal::with_advice(what, "`pagewise limits` lists the memory cgroups of this host").into()
}

#[cfg(test)]
#[path = "limits/tests.rs"]
mod tests;
