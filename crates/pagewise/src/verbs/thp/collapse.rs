// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp collapse`: collapses memory of running processes into huge pages
//! (`process_madvise`).

use std::time::Duration;

use crate::host_loans::HostLoans;
use pagewise_hugepages::{AccessProfile, CollapseTargets, CollapseWish};
use pagewise_model::{ByAccess, Bytes, Collapse, Refusal, Snapshot};
use pagewise_observe::{HostRoot, Recording, Scope};
use pagewise_report::{Collapsed, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::{Measuring, Spinner};
use pagewise_terminal::{Global, Outcome, output, screen};

use super::opted_in::OptedIn;
use super::watch::{self, Evidence};
use super::{huge_page_size, refuse_recording, targets};
use crate::cli::CollapseArgs;
use crate::input;
use pagewise_lab::redaction::Redaction;

pub(super) fn run(
    global: &Global,
    args: &CollapseArgs,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    refuse_recording(global, "thp collapse")?;
    let host = input::open(global)?.without_start();
    if args.opted_in {
        return collapse_opted_in(global, args, &host, started);
    }
    let interval = host.interval(&scope(), || anyhow::Ok(()))?;
    let found = targets::resolve(&args.whose, &interval.end)?.unwrap_or_default();
    let mut targets = CollapseTargets {
        processes: found.processes,
        cgroup: found.cgroup,
        cgroups: found.cgroups,
        heat: None,
    };
    let stop = Stop::listen()?;
    let unknown = args.by_access.and_then(|time| {
        let _shown = Spinner::start(global, time);
        let profile = measure_accesses(&host.end, &interval.end, &targets, time, &stop);
        profile.map(|profile| targets.heat = Some(profile)).err().map(|why| format!("{why:#}"))
    });
    let shown = Measuring::start(global, "collapsing");
    let wish = wish(args, huge_page_size(&interval.end));
    let evidence = begin_evidence(args, &targets, wish.block)?;
    if evidence.is_some() {
        watch::wait_before_collapse(args.every, stop.flag());
    }
    let mut tell = |done: u64, all: u64, so_far: &Collapse| {
        shown.show_count(to_u32(done), to_u32(all));
        evidence.iter().for_each(|evidence| evidence.set_collapsed(so_far.collapsed));
    };
    let mut collapse =
        pagewise_hugepages::collapse(&host.end, &targets, &wish, stop.flag(), &mut tell)?;
    if unknown.is_some() {
        collapse.by_access = Some(ByAccess { unknown, ..ByAccess::default() });
    }
    drop(shown);
    let done = Collapsed {
        snapshot: &interval.end,
        collapse: &collapse,
        cost: cost::measure_since(started, &interval),
    };
    let redaction = Redaction::new(args.keep_names);
    evidence.map_or(Ok(()), |evidence| evidence.fill(done, &redaction))?;
    show(global, &done)?;
    Ok(Outcome::Done)
}

/// What to read for a collapse: processes and their cgroups, with the limits of these.
pub(super) fn scope() -> Scope {
    Scope { settings: false, ..Scope::everything(Duration::ZERO) }
}

fn collapse_opted_in(
    global: &Global,
    args: &CollapseArgs,
    host: &Recording,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if !rustix::process::geteuid().is_root() {
        let what = "--opted-in: expected root, because only root may read with which environment the programs of \
                    others were started";
        anyhow::bail!(Refusal::with_advice(what, "sudo pagewise thp collapse --opted-in"));
    }
    let stop = Stop::listen()?;
    let block = huge_page_size(&host.interval(&Scope::glance(), || anyhow::Ok(()))?.end);
    let (done, interval) = OptedIn::run(global, host, &wish(args, block), &stop)?;
    let collapse = &done.into_collapse();
    let cost = cost::measure_since(started, &interval);
    show(global, &Collapsed { snapshot: &interval.end, collapse, cost })?;
    Ok(Outcome::Done)
}

/// Which memory the processes access, measured with DAMON, or why that is unknown.
fn measure_accesses(
    host: &HostRoot,
    snapshot: &Snapshot,
    targets: &CollapseTargets,
    time: Duration,
    stop: &Stop,
) -> anyhow::Result<AccessProfile> {
    let mut loans = HostLoans::open(true)?;
    let session = &mut loans.session;
    let profile = pagewise_hugepages::measure_accesses(
        session,
        host,
        &snapshot.damon,
        targets,
        time,
        stop.flag(),
    );
    loans.end_with_messages();
    Ok(profile?)
}

fn begin_evidence(
    args: &CollapseArgs,
    targets: &CollapseTargets,
    block: u64,
) -> anyhow::Result<Option<Evidence>> {
    let Some(folder) = &args.evidence else { return Ok(None) };
    let pids = targets.processes.iter().map(|(pid, _)| *pid).collect();
    Evidence::begin(folder, args.counter.as_deref(), pids, block).map(Some)
}

pub(super) fn to_u32(blocks: u64) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

fn wish(args: &CollapseArgs, block: u64) -> CollapseWish {
    CollapseWish {
        max_growth: args.max_growth,
        spent: Bytes::new(0),
        deadline: args.deadline,
        pace: args.pace / 100.0,
        swapped: args.swapped,
        dry_run: args.dry_run,
        watch: args.watch.then_some(args.every),
        block,
    }
}

fn show(global: &Global, done: &Collapsed<'_>) -> anyhow::Result<()> {
    let shown = if global.json {
        json::collapse(done)
    } else {
        text::collapse(done, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&done.cost));
    }
    Ok(())
}
