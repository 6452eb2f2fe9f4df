// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of an experiment: the verdict, all arms and metrics, how the result was obtained, and
//! all runs.

mod arms;
mod metrics;
mod pictures;
mod profile;
mod runs;

use pagewise_model::{Bytes, Trial};

use crate::page::{escape, page};
use pagewise_report::text::machine;
use pagewise_report::{TrialReport, lineup, phrases};

/// Returns the self-contained HTML page of a trial.
pub fn trial_page(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    let body = if lineup::has_more_than_two_arms(trial) {
        format_several_arms(tried)
    } else {
        format_two_arms(tried)
    };
    page(
        &phrases::prefix_name(tried.name, &title(trial)),
        &(body + &method(tried) + &runs::table(tried)),
    )
}

fn title(trial: &Trial) -> String {
    if lineup::has_more_than_two_arms(trial) {
        format!("{} on {}", phrases::arms(trial), phrases::command(trial))
    } else {
        format!("{}: {}", phrases::arms(trial), phrases::verdict(trial.verdict))
    }
}

fn format_two_arms(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    [
        heading(tried),
        metrics::table(trial, "b", &trial.metrics),
        pictures::of_two(tried),
        pictures::courses(tried),
        profile::table(tried),
    ]
    .concat()
}

fn format_several_arms(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    [
        arms::heading(tried),
        arms::table(tried),
        pictures::of_arms(tried),
        arms::medians(trial),
        pictures::courses(tried),
        profile::table(tried),
        arms::format_each_arm(trial),
    ]
    .concat()
}

fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(text)) }
}

fn describe_stop(trial: &Trial) -> String {
    let stopped = trial.stopped.as_ref().map(|why| format!("Stopped early: {why}."));
    paragraph(&stopped.unwrap_or_default())
}

fn heading(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    let word = phrases::verdict(trial.verdict);
    format!(
        "<h1>{}: <span class=\"verdict {word}\">{word}</span></h1>\n\
         <p class=\"quiet\">on <code>{}</code></p>\n{}{}",
        escape(&phrases::prefix_name(tried.name, &phrases::arms(trial))),
        escape(&phrases::command(trial)),
        describe_stop(trial),
        paragraph(&phrases::meaning(trial))
    )
}

fn method(tried: &TrialReport<'_>) -> String {
    let trial = tried.trial;
    let limit = trial
        .memory_limit_bytes
        .map(|limit| format!("The command had at most {} of memory.", Bytes::new(limit)));
    let mut text = String::from("<h2>How it was found out</h2>\n");
    text += &paragraph(&machine(tried.snapshot).join(" · "));
    let workload = phrases::workload(&trial.program);
    if !workload.is_empty() {
        text += &paragraph(&format!("The workload: {workload}."));
    }
    text += &paragraph(&phrases::method(trial));
    text += &paragraph(&limit.unwrap_or_default());
    text += &paragraph(
        "The estimate is Hodges and Lehmann's of the paired ratio, the interval that of the \
         signed-rank test. Runs far from the others count like any.",
    );
    for note in &trial.notes {
        text += &paragraph(&phrases::sentence(note));
    }
    text
}
