// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The brake of the whole host: when memory is short, the loops pause, and a plan that was applied shortly
//! before is named, or undone if the configuration says so.

use std::time::Duration;

use pagewise_agent::{Guard, GuardReading, GuardSettings};
use pagewise_apply::plan::{UndoTarget, plans_in_force, undo_plans};
use pagewise_apply::state_folder;
use pagewise_model::plan::Change;
use pagewise_model::undo::{InForce, Recovered};
use pagewise_observe::{HostGauges, HostRoot};
use pagewise_report::text;

use super::device::describe_time;
use super::ksm;

/// What was read of the host.
pub(super) fn read(host: &HostRoot) -> GuardReading {
    let gauges = HostGauges(host);
    GuardReading {
        stalled: gauges.memory_stall().map(|stall| Duration::from_micros(stall.get())),
        oom_kills: gauges.oom_kills(),
    }
}

/// Takes a reading. Returns the lines for the log.
pub(super) fn handle(
    guard: &mut Guard,
    host: &HostRoot,
    now: Duration,
    unix_now: u64,
    is_dry: bool,
) -> Vec<String> {
    let Some(trouble) = guard.decide(now, read(host)) else { return Vec::new() };
    let until = guard.paused_until(now).unwrap_or(now);
    let mut lines = vec![format!("{trouble}; all loops pause for {}", describe_time(until - now))];
    lines.extend(suspect_plan(guard.settings(), unix_now, is_dry));
    lines
}

/// Names the plan that was applied last, if that was shortly before, and undoes it if that is asked for and cannot
/// make the trouble worse.
fn suspect_plan(settings: &GuardSettings, unix_now: u64, is_dry: bool) -> Vec<String> {
    let plans = match plans_in_force(&state_folder()) {
        Ok(plans) => plans,
        Err(error) => {
            let why = anyhow::Error::new(error);
            return vec![format!(
                "whether a plan was applied shortly before is not known: {why:#}"
            )];
        }
    };
    let age = |plan: &InForce| Duration::from_secs(unix_now.saturating_sub(plan.unix_seconds));
    let is_suspected = |plan: &&InForce| age(plan) <= settings.watch && !ksm::is_own(plan);
    let Some(plan) = plans.iter().rev().find(is_suspected) else { return Vec::new() };
    let id = &plan.journal;
    let what = format!("plan {} was applied {} ago", plan.plan.id, describe_time(age(plan)));
    if !settings.undoes {
        return vec![format!("{what}; `pagewise undo {id}` undoes it, if it is the cause")];
    }
    if !changes_settings_only(plan) {
        let why = "it has changed swap, and undoing that needs memory";
        return vec![format!("{what}; it is not undone, because {why}")];
    }
    if is_dry {
        return vec![format!("{what}; it would be undone")];
    }
    match undo_plans(&state_folder(), UndoTarget::One(id)) {
        Ok(runs) => {
            let is_kept = |run: &Recovered| run.returns.iter().any(|it| !it.outcome.is_settled());
            let extent = if runs.iter().any(is_kept) { "undone in part" } else { "undone" };
            let mut lines = vec![format!("{what}; it was {extent}, because `undo` is true")];
            lines.extend(runs.iter().flat_map(text::describe_recovered));
            lines
        }
        Err(error) => {
            let why = anyhow::Error::new(error);
            vec![format!("{what}; it is not undone: {why:#}")]
        }
    }
}

fn changes_settings_only(plan: &InForce) -> bool {
    plan.plan.steps.iter().all(|step| match step.change {
        Change::SetKnob { .. }
        | Change::WriteFile { .. }
        | Change::MakeLink { .. }
        | Change::ReloadUnits { .. } => true,
        Change::AddZramSwap { .. }
        | Change::AddSwapFile { .. }
        | Change::SetSwapPriority { .. }
        | Change::DrainSwap { .. } => false,
    })
}
