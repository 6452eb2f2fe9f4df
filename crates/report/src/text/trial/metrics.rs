// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A row for each metric: A, B, and the judgement.

use pagewise_model::{Clock, TrialMetric};

use super::role;
use crate::phrases;
use crate::text::kit::{Page, Role};
use crate::text::table::{Cell, Column, Table};

pub(super) fn print(page: &mut Page, clock: Clock, metrics: &[TrialMetric]) {
    let shown = metrics
        .iter()
        .enumerate()
        .filter(|(at, metric)| *at == 0 || !phrases::is_zero_in_both_arms(metric));
    let columns = vec![
        Column::name("metric"),
        Column::right("a").spare(2),
        Column::right("b").spare(1),
        Column::right("b against a"),
        Column::left("95 % interval"),
        Column::left(""),
    ];
    let mut table = Table::new(2, columns);
    shown.for_each(|(at, metric)| table.row(row(clock, metric, at == 0)));
    table.print(page);
    if let Some(none) = phrases::list_zero_metrics(metrics) {
        page.prose(2, Role::Quiet, &none);
    }
}

pub(super) fn row(clock: Clock, metric: &TrialMetric, decides: bool) -> Vec<Cell> {
    let shown = |value: Option<f64>| value.map(|it| phrases::value(metric, it)).unwrap_or_default();
    let quiet = metric.lack.is_some() || !phrases::is_judged(clock, metric);
    let follows = if quiet { Role::Quiet } else { role(metric.verdict) };
    let name = if decides { Role::Strong } else { Role::Plain };
    let [change, interval] = phrases::estimate(clock, metric);
    vec![
        Cell::new(name, metric.name.clone()),
        shown(metric.a).into(),
        shown(metric.b).into(),
        change.into(),
        interval.into(),
        Cell::new(follows, phrases::judgement(clock, metric, decides)),
    ]
}
