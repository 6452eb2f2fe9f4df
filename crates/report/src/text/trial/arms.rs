// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trial with several arms: their settings, the result of each, and the medians of all side by
//! side.

use pagewise_model::{Trial, TrialMetric, Verdict};

use super::{metrics, print_stopped, role};
use crate::lineup::{self, ArmPair, Medians, Row};
use crate::text::kit::{Line, Page, Role};
use crate::text::table::{Cell, Column, NONE, Table};
use crate::text::words::join_words;
use crate::{TrialReport, phrases};

/// Prints the number of arms, and their settings.
pub(super) fn print_heading(page: &mut Page, tried: &TrialReport<'_>) {
    let trial = tried.trial;
    let arms = phrases::prefix_name(tried.name, &format!("{} arms on", trial.arms.len()));
    let start = Line::default().span(Role::Strong, arms);
    page.hang(start.plain(" "), 2, Role::Plain, &phrases::command(trial));
    print_stopped(page, trial);
    let mut table = Table::new(2, vec![Column::left(""), Column::words("")]);
    for arm in &trial.arms {
        table.row(vec![
            Cell::new(Role::Strong, arm.name.clone()),
            phrases::arm(&trial.program, arm).into(),
        ]);
    }
    table.print(page);
    page.gap();
}

/// Prints a row for each arm, then the medians.
pub(super) fn print(page: &mut Page, tried: &TrialReport<'_>) {
    let trial = tried.trial;
    let first = trial.arms.first().map_or("a", |arm| &arm.name);
    let columns = vec![
        Column::name("arm"),
        Column::left(""),
        Column::right(&trial.primary).spare(1),
        Column::right(format!("against {first}")),
        Column::left("95 % interval").spare(2),
        Column::words(""),
    ];
    let mut table = Table::new(2, columns);
    let rows = lineup::rows(trial, tried.runs);
    rows.into_iter().for_each(|row| table.row(arm(row)));
    table.print(page);
    page.gap();
    print_medians(page, trial);
}

fn arm(row: Row<'_>) -> Vec<Cell> {
    let found = row.verdict.map_or(Role::Quiet, role);
    vec![
        Cell::new(Role::Strong, row.arm.name.clone()),
        Cell::new(found, row.word),
        if row.median.is_empty() { NONE.into() } else { row.median.into() },
        row.change.into(),
        row.interval.into(),
        Cell::new(Role::Warning, row.ended),
    ]
}

/// Prints the medians of each arm, one column for each arm; several tables if the columns do not
/// fit into one.
fn print_medians(page: &mut Page, trial: &Trial) {
    let (nothing, told): (Vec<Medians<'_>>, Vec<_>) =
        lineup::medians(trial).into_iter().partition(lineup::is_zero_in_every_arm);
    let names: Vec<&str> = trial.arms.iter().map(|arm| arm.name.as_str()).collect();
    let rows = told.iter().map(|of| {
        let cells =
            trial.arms.iter().map(|arm| of.describe_arm(arm).unwrap_or_else(|| NONE.to_owned()));
        (of.metric.name.clone(), cells.collect())
    });
    print_beside(page, "median", &names, &rows.collect::<Vec<_>>());
    if !nothing.is_empty() {
        let names: Vec<&str> = nothing.iter().map(|of| of.metric.name.as_str()).collect();
        page.prose(2, Role::Quiet, &format!("0 in all: {}.", names.join(", ")));
    }
}

/// Prints a table with a column for each name, or several if they do not fit into one.
pub(super) fn print_beside(
    page: &mut Page,
    title: &str,
    names: &[&str],
    rows: &[(String, Vec<String>)],
) {
    const LABEL: usize = 26;
    let cells = rows.iter().flat_map(|(_, cells)| cells.iter().map(|cell| cell.chars().count()));
    let widest = cells.chain(names.iter().map(|name| name.chars().count())).max().unwrap_or(1);
    let fit = (page.width().saturating_sub(LABEL) / (widest + 2)).max(1);
    for from in (0..names.len()).step_by(fit) {
        let shown = from..(from + fit).min(names.len());
        let columns = names[shown.clone()].iter().map(|name| Column::right(*name));
        let columns = [Column::name(title)].into_iter().chain(columns).collect();
        let mut table = Table::new(2, columns);
        for (label, cells) in rows {
            let cells = cells[shown.clone()].iter().map(|cell| Cell::from(cell.as_str()));
            table.row([Cell::from(label.as_str())].into_iter().chain(cells).collect());
        }
        table.print(page);
        page.gap();
    }
}

/// Prints the differences of an arm to the first arm; metrics without a difference in one line. The
/// medians of the arm are in the table above.
pub(super) fn print_differences(page: &mut Page, trial: &Trial, other: &ArmPair<'_>) {
    if trial.dropped.iter().any(|dropped| dropped.arm == other.arm) {
        return;
    }
    let describe = |metric: &&TrialMetric| {
        let judged = phrases::is_judged(trial.clock, metric) && metric.lack.is_none();
        judged && metric.interval.is_some() && !phrases::is_zero_in_both_arms(metric)
    };
    let (differ, rest): (Vec<&TrialMetric>, Vec<_>) = (other.metrics.iter().filter(describe))
        .partition(|metric| matches!(metric.verdict, Verdict::Better | Verdict::Worse));
    if differ.is_empty() && rest.is_empty() {
        return;
    }
    let first = trial.arms.first().map_or("a", |arm| &arm.name);
    page.heading(&format!("{} against {first}", other.arm), "");
    if !differ.is_empty() {
        let columns = ["metric", "change", "95 % interval", ""].map(Column::left);
        let mut table = Table::new(2, columns.into());
        differ.iter().for_each(|metric| table.row(difference(trial, metric)));
        table.print(page);
    }
    for (verdict, words) in [(Verdict::Equivalent, "Equivalent"), (Verdict::Undecided, "Undecided")]
    {
        let of = rest.iter().filter(|metric| metric.verdict == verdict);
        let names: Vec<String> = of.map(|metric| metric.name.clone()).collect();
        if !names.is_empty() {
            page.prose(2, Role::Quiet, &format!("{words}: {}.", join_words(&names)));
        }
    }
}

/// The row of a comparison without the medians of both arms.
fn difference(trial: &Trial, metric: &TrialMetric) -> Vec<Cell> {
    let mut cells = metrics::row(trial.clock, metric, metric.name == trial.primary);
    cells.drain(1..3);
    cells
}
