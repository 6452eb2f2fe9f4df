// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise verify`: compares applied plans with the machine, and measures the gains that they
//! predicted.

use std::path::Path;

use pagewise_apply::plan::{DoubtfulJournal, VerifyTarget, doubtful_journals, verify_plans};
use pagewise_apply::state_folder;
use pagewise_model::plan::{StepVerified, Verified};
use pagewise_model::{Interval, Name, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::{LedgerUpdate, UnbelievedJournal, VerifiedPlans, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use super::apply;
use super::ledger::{measure_gains, update_ledger};
use crate::cli;

pub(super) fn run(
    global: &Global,
    args: &cli::Verify,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "verify compares this machine; a recording has no applied plans".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    let host = HostRoot::live()?;
    let scope = Scope { settings: true, ..Scope::glance() };
    let interval = Interval::single(snapshot(&host, &scope));
    let state = state_folder();
    let file = args.plan.as_deref().filter(|plan| is_file(plan)).map(Path::new);
    let plan = file.map(apply::read).transpose()?;
    let which = match (&plan, &args.plan) {
        (Some(plan), _) => VerifyTarget::Document(plan),
        (None, Some(id)) => VerifyTarget::One(id),
        (None, None) => VerifyTarget::All,
    };
    let mut plans = verify_plans(&state, which, &interval.end.configuration)?;
    let measured = measure_gains(&mut plans, &interval.end)?;
    let entries = if args.no_ledger { &[] } else { measured.as_slice() };
    let (ledger, failed) = update_ledger(entries);
    let cost = cost::measure_since(started, &interval);
    let doubtful = match which {
        VerifyTarget::All => doubtful_journals(&state)?,
        VerifyTarget::One(_) | VerifyTarget::Document(_) => Vec::new(),
    };
    let unbelieved: Vec<UnbelievedJournal> = doubtful
        .iter()
        .map(|it| UnbelievedJournal {
            journal: it.path.clone(),
            id: it.id.clone(),
            why: it.why.clone(),
        })
        .collect();
    let verified = VerifiedPlans {
        snapshot: &interval.end,
        plans: &plans,
        unbelieved: &unbelieved,
        ledger: &ledger,
        cost,
    };
    let shown = if global.json {
        json::verify(&verified)
    } else {
        text::describe_verified(&verified, screen::text_style(global))
    };
    // if journals are doubtful, the text must not claim that no plan is applied
    if global.json || doubtful.is_empty() || !plans.is_empty() {
        output::print_answer(global, &shown)?;
    }
    if !doubtful.is_empty() {
        return Err(refuse_doubtful(&doubtful).into());
    }
    if let Some(refused) = refuse_unknown(&plans) {
        return Err(refused.into());
    }
    let has_drifted = plans.iter().any(Verified::has_drifted);
    match failed.map(|error| error.context("the measurements were not added to the ledger")) {
        None if has_drifted => Ok(Outcome::Findings),
        None => Ok(Outcome::Done),
        Some(error) if has_drifted => {
            output::print_message(format_args!("{error:#}"));
            Ok(Outcome::Findings)
        }
        Some(error) => Err(error),
    }
}

/// An error that names the steps of which it is unknown whether they are in force; `None` if there
/// are none.
fn refuse_unknown(plans: &[Verified]) -> Option<Refusal> {
    let unknown = plans.iter().flat_map(|plan| plan.unknown_steps().map(move |step| (plan, step)));
    let name = |(plan, step): (&Verified, &StepVerified)| {
        let why = step.skipped.as_deref().unwrap_or_default();
        let [plan, id, why] = [&*plan.plan, &*step.id, why].map(Name::from);
        format!("plan {plan} step {id}: {why}")
    };
    let listed: Vec<String> = unknown.map(name).collect();
    let what = format!("whether these steps are in force is not known: {}", listed.join("; "));
    let next = "run it as root, on a machine that has these settings";
    (!listed.is_empty()).then(|| Refusal::with_advice(what, next))
}

/// An error that names the journals that do not show which plans are applied.
pub(super) fn refuse_doubtful(doubtful: &[DoubtfulJournal]) -> Refusal {
    let name =
        |it: &DoubtfulJournal| format!("{}: {}", Name::from(&*it.path), Name::from(&*it.why));
    let listed: Vec<String> = doubtful.iter().map(name).collect();
    let ids: Vec<&str> = doubtful.iter().map(|it| &*it.id).collect();
    let what = format!(
        "whether every plan of these journals is applied is not known: {}",
        listed.join("; ")
    );
    let next = format!(
        "`pagewise undo ID` (ID {}) undoes what a journal says for certain; `pagewise undo --forget ID` \
         removes a journal and leaves the machine as it is",
        ids.join(", ")
    );
    Refusal::with_advice(what, next)
}

/// Compares the plan of a journal with the machine; adds the measured gains to the ledger.
pub(super) fn verify_applied(journal: &str) -> anyhow::Result<(Vec<Verified>, LedgerUpdate)> {
    let scope = Scope { settings: true, ..Scope::glance() };
    let host = snapshot(&HostRoot::live()?, &scope);
    let which = VerifyTarget::One(journal);
    let mut plans = verify_plans(&state_folder(), which, &host.configuration)?;
    let measured = measure_gains(&mut plans, &host)?;
    let (ledger, failed) = update_ledger(&measured);
    if let Some(error) = failed {
        output::print_message(format_args!(
            "the measurements were not added to the ledger: {error:#}"
        ));
    }
    Ok((plans, ledger))
}

/// Whether a name is the path of a plan. Journal IDs are numbers, and plan IDs have sixteen digits;
/// anything with a slash or a dot, or an existing file, is a path.
fn is_file(name: &str) -> bool {
    name.contains(['/', '.']) || Path::new(name).is_file()
}
