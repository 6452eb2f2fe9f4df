// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents of `apply`, `verify`, `ledger`, `tune` and `undo`.

use pagewise_model::HostVerdict;
use pagewise_model::plan::{Applied, Complaint, Plan, Verified};
use pagewise_model::undo::{InForce, Recovered};
use schemars::JsonSchema;
use serde::Serialize;

use super::head::{Head, Noun, print_document};
use crate::{
    AppliedPlan, ApplyOutcome, LedgerReport, LedgerUpdate, TuneTrial, TunedPlan, UndoReport,
    VerifiedPlans,
};

/// The result of `apply`: exactly one of applied, refused and confirmed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Apply<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// The id of the plan; absent with confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a str>,
    /// The plan was applied, or every step was in force already.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'a Applied>,
    /// All reasons why nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a [Complaint]>,
    /// With --confirm: the plan that is kept, as the user named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<&'a str>,
}

/// Plans compared with the machine, and measurements of the gains that they predicted.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Verify<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Whether the machine differs from a plan.
    drifted: bool,
    plans: &'a [Verified],
    /// Journals of plans that are damaged or that others can have written, so that it is not known
    /// whether their plans are applied. The exit status is 1 if there is any.
    unbelieved: &'a [crate::UnbelievedJournal],
    ledger: &'a LedgerUpdate,
}

/// Every measurement of a predicted gain, and the hit rate of the predictions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ledger<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    ledger: &'a pagewise_model::plan::Ledger,
}

/// What `tune` changed, and whether it is kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Tune<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// How short of memory the host was before the first change.
    verdict: &'a HostVerdict,
    plan: &'a Plan,
    /// Whether the plan is in force; `null` if there was nothing to change.
    kept: Option<bool>,
    /// The result of the trial of the plan; `null` if there was nothing to change.
    trial: Option<TuneTrial<'a>>,
}

/// What was restored, and the plans that stay in force.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Undo<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Journals of killed runs and of plans, with the result for each change that they contain.
    runs: &'a [Recovered],
    /// The plans that are in force now, oldest first.
    plans: &'a [InForce],
}

/// What `undo --json` prints, with a trailing newline.
pub fn undo(undone: &UndoReport<'_>) -> String {
    let UndoReport { snapshot, runs, plans, cost } = *undone;
    print_document(&Undo { head: Head::new(Noun::Undo, snapshot, cost), runs, plans })
}

/// What `tune --json` prints, with a trailing newline.
pub fn tuned_plan_json(tuned: &TunedPlan<'_>) -> String {
    let TunedPlan { snapshot, plan, before: verdict, trial, cost } = *tuned;
    let kept = trial.map(|trial| trial.against.is_empty());
    print_document(&Tune {
        head: Head::new(Noun::Tune, snapshot, cost),
        verdict,
        plan,
        kept,
        trial,
    })
}

/// What `apply --json` prints, with a trailing newline.
pub fn apply(done: &AppliedPlan<'_>) -> String {
    let head = Head::new(Noun::Apply, done.snapshot, done.cost);
    let none = Apply { head, plan: None, applied: None, refused: None, confirmed: None };
    print_document(&match done.outcome {
        ApplyOutcome::Applied { plan, applied } => {
            Apply { plan: Some(plan), applied: Some(applied), ..none }
        }
        ApplyOutcome::Refused { plan, complaints } => {
            Apply { plan: Some(plan), refused: Some(complaints), ..none }
        }
        ApplyOutcome::Confirmed { id } => Apply { confirmed: Some(id), ..none },
    })
}

/// What `verify --json` prints, with a trailing newline.
pub fn verify(verified: &VerifiedPlans<'_>) -> String {
    let VerifiedPlans { snapshot, plans, unbelieved, ledger, cost } = *verified;
    let drifted = plans.iter().any(Verified::has_drifted);
    print_document(&Verify {
        head: Head::new(Noun::Verify, snapshot, cost),
        drifted,
        plans,
        unbelieved,
        ledger,
    })
}

/// What `ledger --json` prints, with a trailing newline.
pub fn ledger(report: &LedgerReport<'_>) -> String {
    let head = Head::new(Noun::Ledger, report.snapshot, report.cost);
    print_document(&Ledger { head, ledger: report.ledger })
}
