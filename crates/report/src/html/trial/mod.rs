// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment on a page: the verdict, every metric, every run, and how it was found out.

use std::fmt::Write as _;

use pagewise_model::{Trial, TrialMetric, TrialRun};

use super::{escaped, page};
use crate::text::header::machine;
use crate::{Tried, chart, told};

/// What a reader may keep.
pub fn trial(tried: &Tried<'_>) -> String {
    let trial = tried.trial;
    let title = format!("{}: {}", told::arms(trial), told::verdict(trial.verdict));
    let body = [
        heading(trial),
        metrics(&trial.metrics),
        pictures(trial, tried.runs),
        method(tried),
        runs(trial, tried.runs),
    ];
    page(&title, &body.concat())
}

fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<p>{}</p>\n", escaped(text)) }
}

fn heading(trial: &Trial) -> String {
    let word = told::verdict(trial.verdict);
    let stopped = trial.stopped.as_ref().map(|why| format!("Stopped early: {why}."));
    format!(
        "<h1>{}: <span class=\"verdict {word}\">{word}</span></h1>\n\
         <p class=\"quiet\">on <code>{}</code></p>\n{}{}",
        escaped(&told::arms(trial)),
        escaped(&told::command(trial)),
        paragraph(&stopped.unwrap_or_default()),
        paragraph(&told::meaning(trial))
    )
}

fn metrics(metrics: &[TrialMetric]) -> String {
    let mut rows = String::new();
    let told = metrics.iter().enumerate().filter(|(at, metric)| *at == 0 || !told::is_none(metric));
    for (at, metric) in told {
        let shown = |value: Option<f64>| value.map(|it| told::value(metric, it));
        let word = told::verdict(metric.verdict);
        let said = match (&metric.lack, at) {
            (Some(lack), _) => lack.clone(),
            (None, 0) => format!("{word}, decides"),
            (None, _) => word.to_owned(),
        };
        let numbers = [
            shown(metric.a),
            shown(metric.b),
            metric.b_per_a.map(told::change),
            metric.interval.map(told::interval),
        ];
        let _ = write!(rows, "<tr><td>{}</td>", escaped(&metric.name));
        for number in numbers {
            let _ = write!(rows, "<td class=\"number\">{}</td>", number.unwrap_or_default());
        }
        let _ = writeln!(rows, "<td class=\"{word}\">{}</td></tr>", escaped(&said));
    }
    let none =
        told::none(metrics).map(|none| format!("<p class=\"quiet\">{}</p>\n", escaped(&none)));
    format!(
        "<div class=\"wide\"><table>\n<tr><th>metric</th><th class=\"number\">a</th>\
         <th class=\"number\">b</th><th class=\"number\">b against a</th>\
         <th class=\"number\">95 % interval</th><th></th></tr>\n{rows}</table></div>\n{}",
        none.unwrap_or_default()
    )
}

fn pictures(trial: &Trial, runs: &[TrialRun]) -> String {
    let figure = |svg: Option<String>, caption: &str| {
        let svg = svg?;
        Some(format!("<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>\n", escaped(caption)))
    };
    let least = told::effect(trial.min_effect);
    let all = [
        figure(
            chart::runs(trial, runs),
            "Blue is a, orange is b, hollow was discarded or failed. A slope or a step is the \
             machine's: pairs do not feel it.",
        ),
        figure(
            chart::pairs(trial, runs),
            &format!("Dashed: the interval. Grey: up to {least}, which does not matter."),
        ),
        figure(
            chart::intervals(trial),
            &format!(
                "Orange decides. Grey: up to {least}. What lies beyond −100 or 200 % is drawn there."
            ),
        ),
    ];
    all.into_iter().flatten().collect()
}

fn method(tried: &Tried<'_>) -> String {
    let trial = tried.trial;
    let limit = trial.memory_limit_bytes.map(|limit| {
        format!("The command had at most {} of memory.", pagewise_model::Bytes::new(limit))
    });
    let mut text = String::from("<h2>How it was found out</h2>\n");
    text += &paragraph(&machine(tried.snapshot).join(" · "));
    text += &paragraph(&told::method(trial));
    text += &paragraph(&limit.unwrap_or_default());
    text += &paragraph(
        "The estimate is Hodges and Lehmann's of the paired ratio, the interval that of the \
         signed-rank test. Runs far from the others count like any.",
    );
    for note in &trial.notes {
        text += &paragraph(&told::sentence(note));
    }
    text
}

/// Every run as a row; closed until somebody wants it.
fn runs(trial: &Trial, runs: &[TrialRun]) -> String {
    let mut text = String::from(
        "<details><summary>Every run</summary>\n<div class=\"wide\"><table>\n<tr><th>run</th>\
         <th>pair</th><th>arm</th>",
    );
    for metric in &trial.metrics {
        let _ = write!(text, "<th class=\"number\">{}</th>", escaped(&metric.name));
    }
    text += "<th></th></tr>\n";
    for run in runs {
        let pair = run.pair.map_or_else(|| "warm-up".to_owned(), |pair| pair.to_string());
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{pair}</td><td>{}</td>",
            run.number,
            escaped(&run.arm)
        );
        for metric in &trial.metrics {
            let value = run.values.get(&metric.name).map(|it| told::value(metric, *it));
            let _ = write!(text, "<td class=\"number\">{}</td>", value.unwrap_or_default());
        }
        let _ = writeln!(text, "<td>{}</td></tr>", escaped(&told::end(run.end)));
    }
    text + "</table></div></details>\n"
}
