// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise verify --history`: how often predicted gains came true. Also the entries that `verify`
//! adds to that history.

use jiff::Timestamp;
use pagewise_apply::plan::plans_in_force;
use pagewise_apply::{LedgerFile, add_to_ledger, read_ledger, state_folder};
use pagewise_model::plan::{GainMeasured, GainOutcome, Ledger, LedgerEntry, Step, Verified};
use pagewise_model::undo::InForce;
use pagewise_model::{Interval, Name, Reading, Refusal, Snapshot};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_plan::{StepState, measure_gain};
use pagewise_report::{LedgerReport, LedgerUpdate, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

pub(super) fn run(global: &Global, started: CostMeter) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what =
            "verify --history reads what was measured on this machine; a recording has no ledger";
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    let LedgerFile { entries, damaged_lines, is_torn } = read_ledger(&state_folder())?;
    let ledger = &Ledger::new(entries, damaged_lines, is_torn);
    let interval = Interval::single(snapshot(&HostRoot::live()?, &Scope::glance()));
    let cost = cost::measure_since(started, &interval);
    let report = LedgerReport { snapshot: &interval.end, ledger, cost };
    let shown = if global.json {
        json::ledger(&report)
    } else {
        text::ledger(&report, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}

/// Measures the gains that applied plans predicted, and returns the entries for the ledger.
pub(super) fn measure_gains(
    verified: &mut [Verified],
    host: &Snapshot,
) -> anyhow::Result<Vec<LedgerEntry>> {
    if verified.iter().all(|it| it.journal.is_none()) {
        return Ok(Vec::new());
    }
    let in_force = plans_in_force(&state_folder())?;
    let mut entries = Vec::new();
    for it in verified {
        let of_journal = |plan: &&InForce| it.journal.as_ref() == Some(&plan.journal);
        let Some(plan) = in_force.iter().find(of_journal).filter(|plan| plan.applied) else {
            continue;
        };
        it.gains = plan.plan.steps.iter().filter_map(|step| measure(step, it, host)).collect();
        entries.extend(it.gains.iter().filter_map(|gain| entry(gain, plan, host)));
    }
    Ok(entries)
}

fn measure(step: &Step, verified: &Verified, host: &Snapshot) -> Option<GainMeasured> {
    let compared = verified.steps.iter().find(|it| it.id == step.id)?;
    match compared.obstacle() {
        Some(why) => measure_gain(step, StepState::NotInForce { why: &why }, host),
        None => {
            let area = compared.area.as_deref();
            measure_gain(step, StepState::InForce { area }, host)
        }
    }
}

fn entry(gain: &GainMeasured, plan: &InForce, host: &Snapshot) -> Option<LedgerEntry> {
    let GainOutcome::Measured { measured, hit, evidence } = &gain.outcome else { return None };
    let text = |reading: &Reading<Name>| reading.value().map(|name| name.as_str().to_owned());
    Some(LedgerEntry {
        time: time_of(host).map(|time| time.to_string()),
        boot_id: text(&host.taken.boot_id),
        kernel: text(&host.taken.kernel),
        plan: plan.plan.id.clone(),
        journal: plan.journal.clone(),
        applied_unix_seconds: plan.unix_seconds,
        step: gain.step.clone(),
        metric: gain.metric.clone(),
        predicted: gain.predicted,
        interval: gain.interval,
        before: gain.before,
        measured: *measured,
        hit: *hit,
        source: gain.source.clone(),
        evidence: evidence.clone(),
    })
}

/// The time of the snapshot, rounded down to a second.
fn time_of(host: &Snapshot) -> Option<Timestamp> {
    let seconds = jiff::SignedDuration::try_from_secs_f64(host.taken.unix_seconds).ok()?;
    Timestamp::from_second(seconds.as_secs()).ok()
}

/// Adds the entries to the ledger. If that fails, the returned update also says so.
pub(super) fn update_ledger(entries: &[LedgerEntry]) -> (LedgerUpdate, Option<anyhow::Error>) {
    if entries.is_empty() {
        return (LedgerUpdate::default(), None);
    }
    match add_to_ledger(&state_folder(), entries) {
        Ok(()) => (LedgerUpdate { added: entries.len(), not_added: None }, None),
        Err(error) => {
            let error = anyhow::Error::new(error);
            (LedgerUpdate { added: 0, not_added: Some(format!("{error:#}")) }, Some(error))
        }
    }
}
