// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune`: whether the plan is kept, why not, and the measurements of its gains.

use pagewise_model::plan::Declined;
use pagewise_model::{Difference, MeasuredPeriods, PeriodsVerdict, group_digits};

use super::gain;
use super::header::machine;
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::words::plural;
use crate::{TuneTrial, TunedPlan};

pub(super) fn print(page: &mut Page, tuned: &TunedPlan<'_>) {
    let start = Line::default().span(Role::Strong, "pagewise tune");
    page.hang_items(start, 2, &machine(tuned.snapshot));
    page.gap();
    match tuned.trial {
        Some(trial) => print_end(page, tuned, &trial),
        None if tuned.plan.steps.is_empty() => print_nothing(page, &tuned.plan.declined),
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

fn print_nothing(page: &mut Page, declined: &[Declined]) {
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
        let because = Line::indent(2).plain("because ");
        let why = match trial.judgement.difference {
            Difference::NotShown => {
                format!("--keep was given; no difference is shown. {}", trial.judgement.why)
            }
            _ => trial.judgement.why.clone(),
        };
        page.hang(because, 4, Role::Plain, &why);
    } else {
        page.prose(2, Role::Warning, &format!("Undone: plan {id} ({steps})."));
        for why in trial.against {
            page.hang(Line::indent(2).plain("because "), 4, Role::Plain, why);
        }
        if trial.judgement.difference == Difference::NotShown {
            let next = "To watch for longer: --watch 5m. To judge by the work that is done: --measure \
                        or --counter. To keep a plan without a difference: --keep.";
            page.prose(2, Role::Quiet, next);
        }
    }
    print_measures(page, trial.judgement);
    for plan in trial.verified.iter().filter(|plan| !plan.gains.is_empty()) {
        page.gap();
        gain::print(page, &plan.gains);
    }
    if trial.ledger.added > 0 {
        let added = plural(trial.ledger.added as u64, "measurement");
        page.prose(
            2,
            Role::Quiet,
            &format!("{added} added to the ledger (pagewise verify --history)."),
        );
    }
}

/// Prints the measures before and after the changes.
fn print_measures(page: &mut Page, judgement: &PeriodsVerdict) {
    let columns = vec![
        Column::left("  measure"),
        Column::right("before"),
        Column::right("after"),
        Column::left("unit"),
        Column::right("change"),
        Column::left("99 % interval").spare(1),
        Column::left("result"),
    ];
    let mut table = Table::new(2, columns);
    for measure in &judgement.measures {
        let percent = |ratio: f64| format_percent((ratio - 1.0) * 100.0);
        let interval = measure.interval.map(|ends| ends.map(percent).join(" to "));
        table.row(vec![
            format!("  {}", measure.name).into(),
            number(measure.before),
            number(measure.after),
            measure.unit.clone().into(),
            measure.after_per_before.map_or(NONE.into(), |ratio| percent(ratio).into()),
            interval.map_or(NONE.into(), Cell::from),
            result(measure),
        ]);
    }
    page.gap();
    if !table.is_empty() {
        table.print(page);
    }
    for unknown in &judgement.unknown {
        page.prose(4, Role::Quiet, unknown);
    }
    let slices = judgement.measures.first().map_or(0, |measure| measure.slices);
    let text = format!(
        "Medians of {} of each {:.0} s before and after the changes; the first {:.0} s after them were not judged.",
        plural(u64::from(slices), "slice"),
        judgement.watch_seconds,
        judgement.settle_seconds
    );
    page.prose(2, Role::Quiet, &text);
}

fn result(measure: &MeasuredPeriods) -> Cell {
    if !measure.decides {
        return "".into();
    }
    match measure.difference {
        Difference::Better => Cell::new(Role::Good, "better"),
        Difference::Worse => Cell::new(Role::Warning, "worse"),
        Difference::NotShown => "not shown".into(),
    }
}

/// A percentage with its sign; above 1000 % as a multiple.
fn format_percent(percent: f64) -> String {
    if percent >= 1000.0 {
        return format!("×{:.0}", percent / 100.0 + 1.0);
    }
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{:.0} %", percent.abs())
}

fn number(value: Option<f64>) -> Cell {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    match value {
        None => NONE.into(),
        Some(value) if value >= 100.0 => group_digits(value.round() as u64).into(),
        Some(value) => format!("{value:.1}").into(),
    }
}
