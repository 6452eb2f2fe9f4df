// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise age`: ages the pages of a memory cgroup, as long as its refaults fall.

use pagewise_apply::aging::{self, AgingBudget, AgingFailure};
use pagewise_apply::state_folder;
use pagewise_model::{Aging, AgingEnd, AgingReport, Interval, Name, Refusal, Snapshot};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Idling;
use pagewise_terminal::{Global, Outcome, exit, output, screen};

use super::limits;
use crate::cli;

pub(super) fn run(global: &Global, args: &cli::Age, started: CostMeter) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "age asks this machine's kernel; a recording has nothing to age".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    let host = HostRoot::live()?;
    if args.history {
        let (history, damaged_lines) = aging::read_agings(&state_folder())?;
        let report = AgingReport { aging: None, history, damaged_lines };
        let seen = Interval::single(snapshot(&host, &Scope::glance()));
        return show(global, &report, &seen, started).map(|()| Outcome::Done);
    }
    let seen = limits::read_groups(&host);
    let group = select(&seen, args)?;
    if seen.mglru.is_on() == Some(false) {
        let what = format!("{group}: multi-gen LRU is off, so that aging has no effect");
        anyhow::bail!(Refusal::with_advice(what, "`pagewise explain mglru` says what it is for"));
    }
    let aging = age(global, &group, args)?;
    let ended = aging.ended;
    let report = AgingReport { aging: Some(aging), ..AgingReport::default() };
    show(global, &report, &Interval::single(seen), started)?;
    Ok(match ended {
        AgingEnd::Stopped => Outcome::Status(exit::STOPPED),
        AgingEnd::DidNotFall => Outcome::Findings,
        AgingEnd::FewRefaults | AgingEnd::Fell | AgingEnd::Budget => Outcome::Done,
    })
}

fn select(seen: &Snapshot, args: &cli::Age) -> anyhow::Result<Name> {
    let found = match (&args.cgroup, &args.unit) {
        (Some(path), _) => limits::find_by_path(seen, path)?,
        (None, unit) => limits::find_by_unit(seen, unit.as_deref().unwrap_or_default())?,
    };
    if found.as_str() == "/" {
        let what = "the root of all cgroups is the whole host, which the kernel ages itself";
        return Err(Refusal::with_advice(what, "`pagewise limits` lists the others").into());
    }
    Ok(found)
}

fn age(global: &Global, group: &Name, args: &cli::Age) -> anyhow::Result<Aging> {
    let stop = Stop::listen()?;
    let shown = Idling::start(global);
    let budget = AgingBudget { times: args.times, every: args.every };
    let seconds = args.every.as_secs_f64();
    let mut tell = |done: u32| match done {
        0 => shown.show_reason(&format!("counting refaults of {group} for {seconds} s")),
        _ => shown.show_reason(&format!("aged {done} of at most {} times", args.times)),
    };
    let aged = aging::age(&state_folder(), group.as_str(), budget, stop.flag(), &mut tell);
    // each kind of failure has its own advice
    aged.map_err(|failure| match failure {
        AgingFailure::Aging(error) => error.into(),
        AgingFailure::Record(error) => error.into(),
    })
}

fn show(
    global: &Global,
    report: &AgingReport,
    seen: &Interval,
    started: CostMeter,
) -> anyhow::Result<()> {
    let cost = cost::measure_since(started, seen);
    let shown = if global.json {
        json::age(report, &seen.end, cost)
    } else {
        text::age(report, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(())
}
