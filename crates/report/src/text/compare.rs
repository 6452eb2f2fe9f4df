// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab compare`: two trials side by side.

use pagewise_model::{Agreement, Replicated, Trial, TrialMetric};

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use crate::phrases;

pub(super) fn print(page: &mut Page, (first, second): (&Trial, &Trial), metrics: &[Replicated]) {
    for (word, trial) in [("first ", first), ("second", second)] {
        let line = Line::default()
            .span(Role::Strong, format!("{word}  "))
            .plain(format!("{} on {}: ", phrases::arms(trial), phrases::command(trial)))
            .span(Role::Strong, phrases::verdict(trial.verdict))
            .plain(format!(" ({} pairs)", trial.pairs));
        page.line(&line);
    }
    page.gap();
    let columns = vec![
        Column::name("metric"),
        Column::right("first"),
        Column::left("95 % interval").spare(2),
        Column::right("second"),
        Column::left("95 % interval").spare(1),
        Column::left(""),
    ];
    let mut table = Table::new(2, columns);
    metrics.iter().for_each(|metric| table.row(row(metric)));
    table.print(page);
    page.gap();
    let text = "They differ where more lies between the two estimates than both intervals allow.";
    page.prose(2, Role::Quiet, text);
}

fn row(metric: &Replicated) -> Vec<Cell> {
    let shown =
        |it: &TrialMetric| phrases::change_and_interval(it.b_per_a, it.interval).map(Cell::from);
    let (role, word) = match metric.agreement {
        Agreement::Agree => (Role::Good, "agree"),
        Agreement::Differ => (Role::Warning, "differ"),
        Agreement::Unknown => (Role::Quiet, "unknown"),
    };
    let Replicated { first, second, .. } = metric;
    let mut row = vec![first.name.clone().into()];
    row.extend(shown(first).into_iter().chain(shown(second)));
    row.push(Cell::new(role, word));
    row
}
