// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise verify`: applied plans, compared with the machine, and what became of the gains that they predicted.

use std::path::Path;

use pagewise_apply::plan::{Verify, verify_plans};
use pagewise_apply::state_folder;
use pagewise_model::plan::{DifferenceKind, StepVerified, Verified};
use pagewise_model::{Interval, Name, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::text::gains;
use pagewise_report::{LedgerUpdate, VerifiedPlans, json};

use super::Outcome;
use super::apply;
use super::ledger::{measure_gains, update_ledger};
use crate::cli::{self, Global};
use crate::cost::{self, CostMeter};
use crate::{output, screen};

pub(super) fn run(
    global: &Global,
    args: &cli::Verify,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "verify compares this machine; a recording has no applied plans".to_owned();
        anyhow::bail!(Refusal::advised(what, "omit --root"));
    }
    let host = HostRoot::live()?;
    let scope = Scope { settings: true, ..Scope::glance() };
    let interval = Interval::single(snapshot(&host, &scope));
    let state = state_folder();
    let file = args.plan.as_deref().filter(|plan| is_file(plan)).map(Path::new);
    let plan = file.map(apply::read).transpose()?;
    let which = match (&plan, &args.plan) {
        (Some(plan), _) => Verify::Document(plan),
        (None, Some(id)) => Verify::One(id),
        (None, None) => Verify::All,
    };
    let mut plans = verify_plans(&state, which, &interval.end.configuration)?;
    let measured = measure_gains(&mut plans, &interval.end)?;
    let entries = if args.no_ledger { &[] } else { measured.as_slice() };
    let (ledger, failed) = update_ledger(entries);
    let cost = cost::so_far(started, &interval);
    let verified = VerifiedPlans { snapshot: &interval.end, plans: &plans, ledger: &ledger, cost };
    let shown = if global.json { json::verify(&verified) } else { text(global, &verified) };
    output::answer(global, &shown)?;
    let has_drifted = plans.iter().any(Verified::has_drifted);
    match failed.map(|error| error.context("the measurements were not added to the ledger")) {
        None if has_drifted => Ok(Outcome::Findings),
        None => Ok(Outcome::Done),
        Some(error) if has_drifted => {
            output::message(format_args!("{error:#}"));
            Ok(Outcome::Findings)
        }
        Some(error) => Err(error),
    }
}

/// The plan of a journal, compared with the machine; what was measured of its gains is in the ledger.
pub(super) fn applied(journal: &str) -> anyhow::Result<(Vec<Verified>, LedgerUpdate)> {
    let scope = Scope { settings: true, ..Scope::glance() };
    let host = snapshot(&HostRoot::live()?, &scope);
    let which = Verify::One(journal);
    let mut plans = verify_plans(&state_folder(), which, &host.configuration)?;
    let measured = measure_gains(&mut plans, &host)?;
    let (ledger, failed) = update_ledger(&measured);
    if let Some(error) = failed {
        output::message(format_args!("the measurements were not added to the ledger: {error:#}"));
    }
    Ok((plans, ledger))
}

/// Journals have numbers, and plans have sixteen digits; a file is named by a path.
fn is_file(name: &str) -> bool {
    name.contains(['/', '.']) || Path::new(name).is_file()
}

fn text(global: &Global, verified: &VerifiedPlans<'_>) -> String {
    if verified.plans.is_empty() {
        return "no plan is applied\n".to_owned();
    }
    let mut shown = String::new();
    for plan in verified.plans {
        for line in [headline(plan)].into_iter().chain(plan.steps.iter().flat_map(of_step)) {
            shown.push_str(&line);
            shown.push('\n');
        }
        shown.push_str(&gains(&plan.gains, screen::text_style(global)));
    }
    if verified.ledger.added > 0 {
        let added = verified.ledger.added;
        let measurements = if added == 1 { "measurement was" } else { "measurements were" };
        shown.push_str(&format!("{added} {measurements} added to the ledger (pagewise ledger)\n"));
    }
    if verified.plans.iter().any(Verified::has_drifted) {
        shown.push_str(
            "to go back to a plan, undo it and apply it again; `pagewise plan` makes a new one\n",
        );
    }
    shown
}

/// The plan, and how many of its steps differ.
fn headline(plan: &Verified) -> String {
    let id = Name::from(plan.plan.as_str());
    let journal = match &plan.journal {
        Some(journal) => format!("journal {journal}"),
        None => "not applied by pagewise".to_owned(),
    };
    let differing = plan.steps.iter().filter(|step| !step.differences.is_empty()).count();
    let compared = plan.steps.iter().filter(|step| step.skipped.is_none()).count();
    let verdict = if differing == 0 {
        format!("{compared} steps as planned")
    } else {
        format!("{differing} of {compared} steps differ")
    };
    format!("plan {id} ({journal}): {verdict}")
}

fn of_step(step: &StepVerified) -> Vec<String> {
    let name = |text: &str| Name::from(text).to_string();
    if let Some(why) = &step.skipped {
        return vec![format!("  {}: not compared: {}", name(&step.what), name(why))];
    }
    let lines = step.differences.iter().map(|difference| {
        let found = name(&difference.found);
        let found = match difference.kind {
            DifferenceKind::Running => format!("is {found} now"),
            DifferenceKind::AtBoot => format!("will be {found} at the next boot"),
            DifferenceKind::File | DifferenceKind::Swap => {
                format!("found {found}, planned {}", name(&difference.planned))
            }
        };
        let by = difference.by.as_deref().map(|by| format!(", as {} says", name(by)));
        format!("  {}: {found}{}", name(&step.what), by.unwrap_or_default())
    });
    lines.collect()
}
