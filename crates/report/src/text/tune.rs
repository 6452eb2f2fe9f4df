// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune`: whether the plan is kept, why not, and the measurements of its gains.

use pagewise_model::plan::Declined;

use super::gain;
use super::header::machine;
use super::kit::{Line, Page, Role};
use super::words::plural;
use crate::{TuneTrial, TunedPlan};

pub(super) fn print(page: &mut Page, tuned: &TunedPlan<'_>) {
    let start = Line::default().span(Role::Strong, "pagewise tune");
    page.hang_items(start, 2, &machine(tuned.snapshot));
    page.gap();
    match tuned.trial {
        Some(trial) => print_end(page, tuned, &trial),
        None if tuned.plan.steps.is_empty() => nothing(page, &tuned.plan.declined),
        None => {
            page.prose(2, Role::Good, "Nothing to do: every step of the plan is in place already.");
        }
    }
    page.gap();
    page.fact("Before", &tuned.before.line);
    if let Some(trial) = tuned.trial {
        page.fact("After", &trial.after.line);
    }
}

fn nothing(page: &mut Page, declined: &[Declined]) {
    page.prose(2, Role::Good, "Nothing to change.");
    if !declined.is_empty() {
        page.heading("Considered and left out", "");
        for Declined { what, why, .. } in declined {
            page.hang(Line::indent(2).plain(format!("{what}: ")), 4, Role::Plain, why);
        }
    }
}

fn print_end(page: &mut Page, tuned: &TunedPlan<'_>, trial: &TuneTrial<'_>) {
    let steps = plural(tuned.plan.steps.len() as u64, "step");
    let (id, journal) = (&tuned.plan.id, trial.journal);
    if trial.against.is_empty() {
        let text = format!("Kept: plan {id} ({steps}). To undo it: sudo pagewise undo {journal}");
        page.prose(2, Role::Good, &text);
    } else {
        page.prose(2, Role::Warning, &format!("Undone: plan {id} ({steps})."));
        for why in trial.against {
            page.hang(Line::indent(2).plain("because "), 4, Role::Plain, why);
        }
    }
    for plan in trial.verified.iter().filter(|plan| !plan.gains.is_empty()) {
        page.gap();
        gain::print(page, &plan.gains);
    }
    if trial.ledger.added > 0 {
        let added = plural(trial.ledger.added as u64, "measurement");
        page.prose(2, Role::Quiet, &format!("{added} added to the ledger (pagewise ledger)."));
    }
}
