// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of a trial, each with a sentence that explains it.

use pagewise_model::Trial;

use crate::page::escape;
use pagewise_report::{TrialReport, phrases};

use crate::chart;

const STEPS: &str = "A slope or a step is the machine's: pairs do not feel it.";

fn figure(svg: Option<String>, caption: &str) -> String {
    let wrapped =
        |svg| format!("<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>\n", escape(caption));
    svg.map(wrapped).unwrap_or_default()
}

/// Returns the charts of a trial with two arms: all runs, all pairs, all metrics.
pub(super) fn of_two(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    let arm = trial.arms.get(1).map_or("b", |arm| &arm.name);
    [runs(tried), pairs(tried), intervals(trial, arm)].concat()
}

/// Returns the charts of a trial with several arms: all arms, all runs, and the pairs of each arm.
pub(super) fn of_arms(tried: &TrialReport<'_>) -> String {
    let least = phrases::effect(tried.trial.min_effect);
    let caption = format!("Grey: up to {least}, which does not matter.");
    [figure(chart::draw_arms(tried.trial), &caption), runs(tried), pairs(tried)].concat()
}

fn runs(tried: &TrialReport<'_>) -> String {
    let caption = format!("Unfilled points were discarded or failed. {STEPS}");
    figure(chart::draw_runs(tried.trial, tried.runs), &caption)
}

fn pairs(tried: &TrialReport<'_>) -> String {
    let least = phrases::effect(tried.trial.min_effect);
    let caption = format!("Dashed: the interval. Grey: up to {least}, which does not matter.");
    let all = chart::draw_pairs(tried.trial, tried.runs);
    figure((!all.is_empty()).then(|| all.join("\n")), &caption)
}

/// Returns the chart of all metrics of one arm.
pub(super) fn intervals(trial: &Trial, arm: &str) -> String {
    let caption = format!(
        "In colour: what decides. Grey: up to {}. What lies beyond −100 or 200 % is drawn there.",
        phrases::effect(trial.min_effect)
    );
    figure(chart::draw_intervals(trial, arm), &caption)
}

/// Returns the charts of a built-in workload over time.
pub(super) fn courses(tried: &TrialReport<'_>) -> String {
    [
        figure(
            chart::draw_settling(tried.trial, tried.runs),
            "Each arm's middle run, its others faint; a ring where the steady state begins.",
        ),
        figure(
            chart::draw_latencies(tried.trial, tried.runs),
            "All measured runs of an arm together. The right end is what the slowest see.",
        ),
    ]
    .concat()
}
