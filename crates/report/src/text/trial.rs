// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise trial`: the verdict, then what every metric says, then how it was found out.

use pagewise_model::{Trial, TrialComparison, TrialMetric, Verdict};

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use crate::{Tried, told};

pub(super) fn print(page: &mut Page, tried: &Tried<'_>) {
    let trial = tried.trial;
    heading(page, trial);
    metrics(page, &trial.metrics);
    for other in &trial.others {
        another(page, trial, other);
    }
    remarks(page, trial);
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

fn heading(page: &mut Page, trial: &Trial) {
    let line = Line::default()
        .span(Role::Strong, told::arms(trial))
        .plain(format!(" on {}: ", told::command(trial)))
        .span(role(trial.verdict), told::verdict(trial.verdict).to_uppercase());
    if line.width() <= page.width() {
        page.line(&line);
    } else {
        page.hang(Line::default(), 2, Role::Strong, &format!("{} on", told::arms(trial)));
        page.hang(Line::indented(2), 4, Role::Plain, &told::command(trial));
        let verdict = told::verdict(trial.verdict).to_uppercase();
        page.line(&Line::indented(2).span(role(trial.verdict), verdict));
    }
    if let Some(stopped) = &trial.stopped {
        page.prose(2, Role::Warning, &format!("stopped early: {stopped}"));
    }
    let meaning = told::meaning(trial);
    if !meaning.is_empty() {
        page.prose(2, Role::Plain, &meaning);
    }
    page.gap();
}

fn metrics(page: &mut Page, metrics: &[TrialMetric]) {
    let columns = vec![
        Column::name("metric"),
        Column::right("a").spare(2),
        Column::right("b").spare(1),
        Column::right("b against a"),
        Column::left("95 % interval"),
        Column::left(""),
    ];
    let mut table = Table::new(2, columns);
    let shown =
        metrics.iter().enumerate().filter(|(at, metric)| *at == 0 || !told::is_none(metric));
    shown.for_each(|(at, metric)| table.row(row(metric, at == 0)));
    table.print(page);
    if let Some(none) = told::none(metrics) {
        page.prose(2, Role::Quiet, &none);
    }
}

fn row(metric: &TrialMetric, decides: bool) -> Vec<Cell> {
    let shown = |value: Option<f64>| value.map(|it| told::value(metric, it)).unwrap_or_default();
    let verdict = match (&metric.lack, decides) {
        (Some(lack), _) => Cell::new(Role::Quiet, lack.clone()),
        (None, true) => {
            Cell::new(role(metric.verdict), format!("{}, decides", told::verdict(metric.verdict)))
        }
        (None, false) => Cell::new(role(metric.verdict), told::verdict(metric.verdict)),
    };
    let name = if decides { Role::Strong } else { Role::Plain };
    vec![
        Cell::new(name, metric.name.clone()),
        shown(metric.a).into(),
        shown(metric.b).into(),
        metric.b_per_a.map(told::change).unwrap_or_default().into(),
        metric.interval.map(told::interval).unwrap_or_default().into(),
        verdict,
    ]
}

fn another(page: &mut Page, trial: &Trial, other: &TrialComparison) {
    let settings = trial.arms.iter().find(|arm| arm.name == other.arm);
    let settings = settings.map_or_else(String::new, |arm| {
        let each = arm.settings.iter().map(|set| format!("{}={}", set.knob, set.value));
        each.collect::<Vec<_>>().join(" ")
    });
    let title = format!("{} against a: {}", other.arm, told::verdict(other.verdict).to_uppercase());
    page.heading(&title, &settings);
    metrics(page, &other.metrics);
}

fn remarks(page: &mut Page, trial: &Trial) {
    page.gap();
    page.prose(2, Role::Quiet, &told::method(trial));
    if let Some(detectable) = trial.metrics.first().and_then(|it| it.detectable_effect) {
        let text = format!(
            "So many pairs of runs that vary like these show effects from about {} on.",
            told::effect(detectable)
        );
        page.prose(2, Role::Quiet, &text);
    }
    for metric in trial.metrics.iter().filter(|metric| !metric.outliers.is_empty()).take(1) {
        let runs: Vec<String> = metric.outliers.iter().map(ToString::to_string).collect();
        let (noun, verb) =
            if runs.len() == 1 { ("run", "It counts") } else { ("runs", "They count") };
        let runs = runs.join(", ");
        let text = format!("Far from the others in {}: {noun} {runs}. {verb}.", metric.name);
        page.prose(2, Role::Quiet, &text);
    }
    trial.notes.iter().for_each(|note| page.prose(2, Role::Quiet, &told::sentence(note)));
}
