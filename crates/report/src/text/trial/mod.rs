// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise trial`: the verdict, then every metric, then how the result was obtained.

mod arms;
mod metrics;
mod profile;
mod remarks;

use pagewise_model::{Trial, Verdict};

use super::kit::{Line, Page, Role};
use crate::{TrialReport, lineup, phrases};

pub(super) fn print(page: &mut Page, tried: &TrialReport<'_>) {
    let trial = tried.trial;
    if lineup::has_more_than_two_arms(trial) {
        arms::print_heading(page, tried);
        arms::print(page, tried);
        for other in lineup::compare_with_first(trial) {
            arms::print_differences(page, trial, &other);
        }
    } else {
        print_heading(page, tried);
        metrics::print(page, trial.clock, &trial.metrics);
    }
    profile::print(page, tried);
    remarks::print(page, trial);
    if let Some(folder) = tried.evidence {
        page.gap();
        page.fact("Evidence", &format!("{}: report.html, every run", folder.display()));
    }
}

fn role(verdict: Verdict) -> Role {
    match verdict {
        Verdict::Better => Role::Good,
        Verdict::Worse => Role::Critical,
        Verdict::Equivalent => Role::Strong,
        Verdict::Undecided => Role::Info,
    }
}

fn print_heading(page: &mut Page, tried: &TrialReport<'_>) {
    let trial = tried.trial;
    let arms = phrases::prefix_name(tried.name, &phrases::arms(trial));
    let line = Line::default()
        .span(Role::Strong, arms.clone())
        .plain(format!(" on {}: ", phrases::command(trial)))
        .span(role(trial.verdict), phrases::verdict(trial.verdict).to_uppercase());
    if line.width() <= page.width() {
        page.line(&line);
    } else {
        page.hang(Line::default(), 2, Role::Strong, &format!("{arms} on"));
        page.hang(Line::indent(2), 4, Role::Plain, &phrases::command(trial));
        let verdict = phrases::verdict(trial.verdict).to_uppercase();
        page.line(&Line::indent(2).span(role(trial.verdict), verdict));
    }
    print_stopped(page, trial);
    let meaning = phrases::meaning(trial);
    if !meaning.is_empty() {
        page.prose(2, Role::Plain, &meaning);
    }
    page.gap();
}

fn print_stopped(page: &mut Page, trial: &Trial) {
    if let Some(stopped) = &trial.stopped {
        page.prose(2, Role::Warning, &format!("stopped early: {stopped}"));
    }
}
