// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp collapse`: huge pages made from outside.

use pagewise_apply::act::{self, CollapseWish, Whom};
use pagewise_model::{ByAccess, Collapse, Snapshot};
use pagewise_observe::Scope;
use pagewise_report::{Collapsed, json, text};

use super::watch::{self, Evidence};
use super::{Outcome, block, heat, refuse_recording, whom};
use crate::cli::{CollapseArgs, Global};
use crate::cost::{self, Started};
use crate::interrupt::Stop;
use crate::progress::{Measuring, Waiting};
use crate::redaction::Redaction;
use crate::{input, output, screen};

pub(super) fn run(
    global: &Global,
    wanted: &CollapseArgs,
    started: Started,
) -> anyhow::Result<Outcome> {
    refuse_recording(global, "thp collapse")?;
    let host = input::open(global)?.without_start();
    let scope = Scope { settings: false, ..Scope::everything(std::time::Duration::ZERO) };
    let interval = host.interval(&scope, || anyhow::Ok(()))?;
    let found = whom::of(&wanted.whose, &interval.end)?.unwrap_or_default();
    let mut whom = Whom {
        processes: found.processes,
        cgroup: found.cgroup,
        cgroups: found.cgroups,
        heat: None,
    };
    let stop = Stop::listen()?;
    let unknown = wanted.by_access.and_then(|time| {
        let _shown = Waiting::start(global, time);
        let heat = heat::look(&host.end, &interval.end.damon, &whom, time, stop.flag());
        heat.map(|heat| whom.heat = Some(heat)).err().map(|why| format!("{why:#}"))
    });
    let shown = Measuring::start(global, "collapsing");
    let wish = wish(wanted, &interval.end);
    let evidence = evidence(wanted, &whom, wish.block)?;
    if evidence.is_some() {
        watch::before(wanted.every, stop.flag());
    }
    let mut tell = |done: u64, all: u64, so_far: &Collapse| {
        shown.of(narrow(done), narrow(all));
        evidence.iter().for_each(|evidence| evidence.tell(so_far.collapsed));
    };
    let mut collapse = act::collapse(&host.end, &whom, &wish, stop.flag(), &mut tell)?;
    if unknown.is_some() {
        collapse.by_access = Some(ByAccess { unknown, ..ByAccess::default() });
    }
    drop(shown);
    let done = Collapsed {
        snapshot: &interval.end,
        collapse: &collapse,
        cost: cost::so_far(started, &interval),
    };
    let redaction = Redaction::new(wanted.keep_names);
    evidence.map_or(Ok(()), |evidence| evidence.fill(done, &redaction))?;
    show(global, &done)?;
    Ok(Outcome::Done)
}

fn evidence(wanted: &CollapseArgs, whom: &Whom, block: u64) -> anyhow::Result<Option<Evidence>> {
    let Some(folder) = &wanted.evidence else { return Ok(None) };
    let pids = whom.processes.iter().map(|(pid, _)| *pid).collect();
    Evidence::begin(folder, wanted.counter.as_deref(), pids, block).map(Some)
}

fn narrow(blocks: u64) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

fn wish(wanted: &CollapseArgs, snapshot: &Snapshot) -> CollapseWish {
    CollapseWish {
        max_growth: wanted.max_growth,
        deadline: wanted.deadline,
        pace: wanted.pace / 100.0,
        swapped: wanted.swapped,
        dry_run: wanted.dry_run,
        watch: wanted.watch.then_some(wanted.every),
        block: block(snapshot),
    }
}

fn show(global: &Global, done: &Collapsed<'_>) -> anyhow::Result<()> {
    let shown = match global.json {
        true => json::collapse(done),
        false => text::collapse(done, screen::look(global)),
    };
    output::answer(global, &shown)?;
    if global.verbose {
        output::message(cost::line(&done.cost));
    }
    Ok(())
}
