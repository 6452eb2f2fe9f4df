// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats a table with a row for each metric: the first arm's value, another arm's value, and the
//! verdict.

use std::fmt::Write as _;

use pagewise_model::{Trial, TrialMetric};

use crate::page::escape;
use pagewise_report::phrases;

pub(super) fn table(trial: &Trial, arm: &str, metrics: &[TrialMetric]) -> String {
    let listed = metrics
        .iter()
        .enumerate()
        .filter(|(at, metric)| *at == 0 || !phrases::is_zero_in_both_arms(metric));
    let rows: String = listed.map(|(at, metric)| row(trial, metric, at == 0)).collect();
    let none = phrases::list_zero_metrics(metrics)
        .map(|none| format!("<p class=\"quiet\">{}</p>\n", escape(&none)));
    let first = trial.arms.first().map_or("a", |arm| &arm.name);
    let (first, arm) = (escape(first), escape(arm));
    format!(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"{arm} against {first}\"><table><caption>Metrics of {first} and of {arm}</caption>\n<tr><th scope=\"col\">metric</th><th scope=\"col\" class=\"number\">{first}</th>\
         <th scope=\"col\" class=\"number\">{arm}</th><th scope=\"col\" class=\"number\">{arm} against {first}</th>\
         <th scope=\"col\" class=\"number\">95 % interval</th><td></td></tr>\n{rows}</table></div>\n{}",
        none.unwrap_or_default()
    )
}

fn row(trial: &Trial, metric: &TrialMetric, decides: bool) -> String {
    let shown = |value: Option<f64>| value.map(|it| phrases::value(metric, it)).unwrap_or_default();
    let [change, interval] = phrases::estimate(trial.clock, metric);
    let mut row = format!("<tr><td>{}</td>", escape(&metric.name));
    for number in [shown(metric.a), shown(metric.b), change, interval] {
        let _ = write!(row, "<td class=\"number\">{number}</td>");
    }
    let judged = phrases::is_judged(trial.clock, metric) && metric.lack.is_none();
    let word = if judged { phrases::verdict(metric.verdict) } else { "quiet" };
    let message = escape(&phrases::judgement(trial.clock, metric, decides));
    row + &format!("<td class=\"{word}\">{message}</td></tr>\n")
}
