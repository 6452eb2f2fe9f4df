// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of the page of a trial with several arms (variants): the result of each arm, the medians
//! of all arms side by side, and all metrics of each arm.

use std::fmt::Write as _;

use pagewise_model::Trial;

use super::{describe_stop, metrics, pictures};
use crate::page::escape;
use pagewise_report::lineup::{self, ArmPair, Medians, Row};
use pagewise_report::{TrialReport, phrases};

pub(super) fn heading(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    let command = escape(&phrases::command(trial));
    let arms = phrases::prefix_name(tried.name, &format!("{} arms", trial.arms.len()));
    format!(
        "<h1>{}</h1>\n<p class=\"quiet\">on <code>{command}</code></p>\n{}",
        escape(&arms),
        describe_stop(trial)
    )
}

/// Formats a table with a row for each arm: its settings, its result, and how its runs ended.
pub(super) fn table(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    let first = escape(trial.arms.first().map_or("a", |arm| &arm.name));
    let rows: String =
        lineup::rows(trial, tried.runs).iter().map(|row| self::row(trial, row)).collect();
    format!(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"Arms\"><table><caption>What was found of each arm</caption>\n<tr><th scope=\"col\">arm</th><td></td><td></td>\
         <th scope=\"col\" class=\"number\">{}</th><th scope=\"col\" class=\"number\">against {first}</th>\
         <th scope=\"col\" class=\"number\">95 % interval</th></tr>\n{rows}</table></div>\n",
        escape(&trial.primary)
    )
}

fn row(trial: &Trial, row: &Row<'_>) -> String {
    let words = escape(&phrases::arm(&trial.program, row.arm));
    let ended = if row.ended.is_empty() {
        String::new()
    } else {
        format!("<br><span class=\"worse\">{}</span>", escape(&row.ended))
    };
    let class = row.verdict.map_or("quiet", phrases::verdict);
    let mut cells = format!(
        "<tr><td><strong>{}</strong></td><td>{words}{ended}</td>\
         <td class=\"verdict {class}\">{}</td>",
        escape(&row.arm.name),
        escape(&row.word)
    );
    let median = if row.median.is_empty() { phrases::NONE } else { &row.median };
    for number in [median, &row.change, &row.interval] {
        let _ = write!(cells, "<td class=\"number\">{number}</td>");
    }
    cells + "</tr>\n"
}

/// Formats a table with the medians of each arm.
pub(super) fn medians(trial: &Trial) -> String {
    let (nothing, told): (Vec<Medians<'_>>, Vec<_>) =
        lineup::medians(trial).into_iter().partition(lineup::is_zero_in_every_arm);
    if told.is_empty() {
        return String::new();
    }
    let rows = told.iter().map(|of| {
        let cells = trial
            .arms
            .iter()
            .map(|arm| of.describe_arm(arm).unwrap_or_else(|| phrases::NONE.into()));
        (of.metric.name.clone(), cells.collect())
    });
    let names: Vec<&str> = trial.arms.iter().map(|arm| arm.name.as_str()).collect();
    let mut text = String::from("<h2>Medians</h2>\n");
    text += &side_by_side_table("metric", &names, &rows.collect::<Vec<_>>());
    let names: Vec<&str> = nothing.iter().map(|of| of.metric.name.as_str()).collect();
    if !names.is_empty() {
        let names = escape(&names.join(", "));
        let _ = writeln!(text, "<p class=\"quiet\">0 in all: {names}.</p>");
    }
    text
}

/// Formats a table with a column for each name.
pub(super) fn side_by_side_table(
    title: &str,
    names: &[&str],
    rows: &[(String, Vec<String>)],
) -> String {
    let mut text = format!(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"{title}\"><table><caption>A column for each arm</caption>\n<tr><th scope=\"col\">{title}</th>"
    );
    for name in names {
        let _ = write!(text, "<th scope=\"col\" class=\"number\">{}</th>", escape(name));
    }
    text += "</tr>\n";
    for (label, cells) in rows {
        let _ = write!(text, "<tr><td>{}</td>", escape(label));
        for cell in cells {
            let _ = write!(text, "<td class=\"number\">{}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}

/// Formats a table with all metrics of each arm; it is collapsed until the reader opens it.
pub(super) fn format_each_arm(trial: &Trial) -> String {
    lineup::compare_with_first(trial).iter().map(|other| format_arm_in_full(trial, other)).collect()
}

fn format_arm_in_full(trial: &Trial, other: &ArmPair<'_>) -> String {
    let first = trial.arms.first().map_or("a", |arm| &arm.name);
    let title = escape(&format!("{} against {first}", other.arm));
    format!(
        "<details><summary>{title}: every metric</summary>\n{}{}</details>\n",
        metrics::table(trial, other.arm, other.metrics),
        pictures::intervals(trial, other.arm)
    )
}
