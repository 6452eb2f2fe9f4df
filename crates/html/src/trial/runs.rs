// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats a table with a row for each run; it is collapsed until the reader opens it.

use std::fmt::Write as _;

use pagewise_model::{TrialMetric, TrialRun};

use crate::page::escape;
use pagewise_report::{TrialReport, lineup, phrases};

pub(super) fn table(tried: &TrialReport<'_>) -> String {
    let found = lineup::compare_with_first(tried.trial);
    let mut metrics: Vec<&TrialMetric> = Vec::new();
    for metric in found.iter().flat_map(|other| other.metrics) {
        if !metrics.iter().any(|known| known.name == metric.name) {
            metrics.push(metric);
        }
    }
    let mut text = String::from(
        "<details><summary>Every run</summary>\n<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"Every run\"><table><caption>Every run</caption>\n<tr><th scope=\"col\">run</th>\
         <th scope=\"col\">pair</th><th scope=\"col\">arm</th>",
    );
    for metric in &metrics {
        let _ = write!(text, "<th scope=\"col\" class=\"number\">{}</th>", escape(&metric.name));
    }
    text += "<td></td></tr>\n";
    tried.runs.iter().for_each(|run| text += &row(run, &metrics));
    text + "</table></div></details>\n"
}

fn row(run: &TrialRun, metrics: &[&TrialMetric]) -> String {
    let pair = run.pair.map_or_else(|| "warm-up".to_owned(), |pair| pair.to_string());
    let mut row =
        format!("<tr><td>{}</td><td>{pair}</td><td>{}</td>", run.number, escape(&run.arm));
    for metric in metrics {
        let value = run.values.get(&metric.name).map(|it| phrases::value(metric, *it));
        let _ = write!(row, "<td class=\"number\">{}</td>", value.unwrap_or_default());
    }
    row + &format!("<td>{}</td></tr>\n", escape(&phrases::describe_end(run)))
}
