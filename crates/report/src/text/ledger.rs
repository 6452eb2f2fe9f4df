// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise verify --history`: how often predictions came true, and every measurement.

use pagewise_model::Ends;
use pagewise_model::plan::{GainMetric, HitRate, LedgerEntry, MetricHitRate};

use super::gain;
use super::header::machine;
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::words::plural;
use crate::LedgerReport;

pub(super) fn print(page: &mut Page, report: &LedgerReport<'_>) {
    let ledger = report.ledger;
    let start = Line::default().span(Role::Strong, "pagewise verify --history");
    page.hang_items(start, 2, &machine(report.snapshot));
    print_damage(page, report);
    if ledger.entries.is_empty() {
        let text = "No predicted gain was measured on this machine yet. To fill the ledger, apply a plan that \
                    states a gain (sudo pagewise apply plan.json), then run sudo pagewise verify.";
        return page.prose(2, Role::Plain, text);
    }
    page.gap();
    page.fact("Estimates", &describe_hit_rate(&ledger.estimates));
    page.fact("Exact", &describe_hit_rate(&ledger.exact));
    if ledger.set_by_step.predictions > 0 {
        let HitRate { hits, predictions, .. } = ledger.set_by_step;
        let text = format!(
            "Not counted: {hits} of {} of earlier versions are of what the step itself sets, which `pagewise verify` \
             compares.",
            if predictions == 1 { "1 entry".to_owned() } else { format!("{predictions} entries") }
        );
        page.prose(2, Role::Quiet, &text);
    }
    let text = "An estimate came true if the measured value lies in its 95 % interval; an exact prediction, \
                if the values are equal. If a prediction was measured several times, only the latest \
                measurement counts.";
    page.prose(2, Role::Quiet, text);
    page.heading("By metric", "");
    let counted = |it: &&MetricHitRate| !GainMetric::is_name_of_set_value(&it.metric);
    let columns = vec![
        Column::left("gain"),
        Column::right("predictions"),
        Column::right("came true"),
        Column::right("95 % interval"),
    ];
    let mut table = Table::new(2, columns);
    for metric in ledger.metrics.iter().filter(counted) {
        let HitRate { predictions, hits, interval, .. } = metric.rate;
        let interval = interval.map_or_else(|| NONE.to_owned(), shown_interval);
        let label = gain::label(&metric.metric).to_owned();
        let numbers = [predictions.to_string(), hits.to_string(), interval];
        table.row([label].into_iter().chain(numbers).map(Cell::from).collect());
    }
    table.print(page);
    for metric in
        ledger.metrics.iter().filter(counted).filter_map(|it| GainMetric::find(&it.metric))
    {
        page.hang(Line::indent(2).plain(format!("{}: ", metric.label)), 4, Role::Quiet, metric.doc);
    }
    page.heading("Measurements", "the oldest first");
    let columns = vec![
        Column::left("time"),
        Column::left("result"),
        Column::left("gain"),
        Column::left("predicted"),
        Column::left("measured"),
        Column::name("step").spare(1),
        Column::left("plan").spare(2),
    ];
    let mut table = Table::new(2, columns);
    ledger.entries.iter().for_each(|entry| row(&mut table, entry));
    table.print(page);
}

fn print_damage(page: &mut Page, report: &LedgerReport<'_>) {
    let ledger = report.ledger;
    if !ledger.damaged_lines.is_empty() {
        let numbers: Vec<String> = ledger.damaged_lines.iter().map(ToString::to_string).collect();
        let text = format!(
            "These lines of the ledger were changed or damaged and do not count: {}.",
            numbers.join(", ")
        );
        page.prose(2, Role::Warning, &text);
    }
    if ledger.is_torn {
        let text = "The last line is incomplete, because a run was killed while it wrote the line. The next \
                    run that adds a measurement removes the incomplete line.";
        page.prose(2, Role::Warning, text);
    }
}

/// Describes a hit rate: `11 of 12 predictions came true: 92 % (95 % interval 65 to 99 %)`.
fn describe_hit_rate(rate: &HitRate) -> String {
    let Some((share, interval)) = rate.share.zip(rate.interval) else {
        return "no prediction was measured".to_owned();
    };
    let predictions = plural(rate.predictions, "prediction");
    let (percent, interval) = (share * 100.0, shown_interval(interval));
    format!("{} of {predictions} came true: {percent:.0} % (95 % interval {interval})", rate.hits)
}

fn shown_interval(ends: Ends<f64>) -> String {
    let [low, high] = ends.map(|share| share * 100.0);
    format!("{low:.0} to {high:.0} %")
}

fn row(table: &mut Table, entry: &LedgerEntry) {
    let LedgerEntry { metric, predicted, interval, before, measured, hit, .. } = entry;
    // the time without fractions of a second
    let time = entry.time.as_deref().map_or(NONE, |time| time.get(..19).unwrap_or(time));
    table.row(vec![
        time.replace('T', " ").into(),
        if GainMetric::is_name_of_set_value(metric) {
            Cell::new(Role::Quiet, if *hit { "as set" } else { "not as set" })
        } else {
            gain::verdict(*hit)
        },
        gain::label(metric).into(),
        gain::describe_prediction(metric, *predicted, *interval, *before).into(),
        gain::describe_measurement(metric, *measured, *predicted, *hit).into(),
        entry.step.clone().into(),
        format!("{} (journal {})", entry.plan, entry.journal).into(),
    ]);
}
