// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a Markdown table from the output of `pagewise lab replay --json`.
//!
//! One machine and two arms make a table with a row for each metric; one machine and more arms, a
//! row for each arm; several machines, a row for each metric and a column for each machine.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::numbers;

/// The output of a replay: the results of one machine, or of several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Replayed {
    Several { cells: Vec<Cell> },
    One(Cell),
}

/// The results of one machine in a replayed experiment.
#[derive(Debug, Deserialize)]
pub(super) struct Cell {
    /// The name of the machine's cell; `None` if there is only one.
    cell: Option<String>,
    trial: Trial,
}

#[derive(Debug, Deserialize)]
struct Trial {
    primary: String,
    metrics: Vec<Metric>,
    arms: Vec<Arm>,
    #[serde(default)]
    others: Vec<Comparison>,
    #[serde(default)]
    dropped: Vec<Dropped>,
    pairs: u32,
}

#[derive(Debug, Deserialize)]
struct Arm {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Comparison {
    arm: String,
    metrics: Vec<Metric>,
}

#[derive(Debug, Deserialize)]
struct Dropped {
    arm: String,
    why: String,
}

#[derive(Debug, Deserialize)]
struct Metric {
    name: String,
    unit: String,
    a: Option<f64>,
    b: Option<f64>,
    b_per_a: Option<f64>,
    interval: Option<[f64; 2]>,
    verdict: String,
}

const UNKNOWN: &str = "–";

/// Parses the JSON output of a replay.
pub(super) fn parse(json: &str) -> Result<Vec<Cell>> {
    let cells = match serde_json::from_str(json).context("lab replay printed something else")? {
        Replayed::Several { cells } => cells,
        Replayed::One(cell) => vec![cell],
    };
    ensure!(!cells.is_empty(), "lab replay printed no cell");
    Ok(cells)
}

/// Makes the table of these metrics. If no metric is named, the table has all metrics that were
/// compared.
pub(super) fn render(cells: &[Cell], metrics: &[&str]) -> Result<String> {
    match cells {
        [one] if one.trial.others.is_empty() => rows_of_metrics(&one.trial, metrics),
        [one] => rows_of_arms(&one.trial, metrics),
        several => columns_of_cells(several, metrics),
    }
}

impl Metric {
    /// Formats the change of the metric and its interval.
    fn change(&self) -> String {
        self.b_per_a.map_or_else(
            || UNKNOWN.to_owned(),
            |ratio| numbers::format_change(ratio, self.interval),
        )
    }

    fn format_value(&self, value: Option<f64>) -> String {
        value.map_or_else(|| UNKNOWN.to_owned(), |value| numbers::format_value(&self.unit, value))
    }

    /// The verdict about the metric, in bold if it is the deciding metric.
    fn verdict(&self, primary: &str) -> String {
        if self.name == primary { format!("**{}**", self.verdict) } else { self.verdict.clone() }
    }
}

impl Trial {
    fn names<'a>(&'a self, chosen: &[&'a str]) -> Vec<&'a str> {
        if chosen.is_empty() {
            return self.metrics.iter().map(|metric| metric.name.as_str()).collect();
        }
        chosen.to_vec()
    }

    /// The label of a metric's row in the table.
    fn label(&self, name: &str) -> String {
        format!("{name}{}", if name == self.primary { " (decides)" } else { "" })
    }

    fn arm(&self, at: usize) -> Result<&str> {
        let arm = self.arms.get(at).context("lab replay printed fewer than two arms")?;
        Ok(&arm.name)
    }

    fn why_dropped(&self, arm: &str) -> Option<&str> {
        self.dropped.iter().find(|dropped| dropped.arm == arm).map(|dropped| dropped.why.as_str())
    }

    /// The metrics in the comparison of the first arm with another arm.
    fn metrics_of(&self, arm: &str) -> Option<&[Metric]> {
        if self.arms.get(1).is_some_and(|second| second.name == arm) {
            return Some(&self.metrics);
        }
        let comparison = self.others.iter().find(|comparison| comparison.arm == arm);
        comparison.map(|comparison| comparison.metrics.as_slice())
    }
}

fn find<'a>(metrics: &'a [Metric], name: &str) -> Result<&'a Metric> {
    let known = || metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(", ");
    let metric = metrics.iter().find(|metric| metric.name == name);
    metric.with_context(|| format!("the runs have no metric {name:?}; there are {}", known()))
}

fn rows_of_metrics(trial: &Trial, chosen: &[&str]) -> Result<String> {
    let (first, second) = (trial.arm(0)?, trial.arm(1)?);
    let against = format!("{second} against {first}");
    let pairs = format!("{} pairs", trial.pairs);
    let mut table = Markdown::new(vec![pairs, first.into(), second.into(), against, String::new()]);
    for name in trial.names(chosen) {
        let metric = find(&trial.metrics, name)?;
        let (a, b) = (metric.format_value(metric.a), metric.format_value(metric.b));
        let verdict = metric.verdict(&trial.primary);
        table.row(vec![trial.label(name), a, b, metric.change(), verdict]);
    }
    Ok(table.text)
}

fn rows_of_arms(trial: &Trial, chosen: &[&str]) -> Result<String> {
    let first = trial.arm(0)?;
    let mut others = trial.names(chosen);
    others.retain(|name| *name != trial.primary);
    let mut heading =
        vec!["arm".into(), trial.primary.clone(), format!("against {first}"), String::new()];
    heading.extend(others.iter().map(|&name| name.to_owned()));
    let mut table = Markdown::new(heading);
    for Arm { name: arm } in &trial.arms {
        if let Some(why) = trial.why_dropped(arm) {
            let unknown = || UNKNOWN.to_owned();
            table.row(vec![arm.clone(), unknown(), unknown(), format!("given up: {why}")]);
            continue;
        }
        let is_first = arm == first;
        // Every comparison contains the medians of the first arm, so any of them can be used.
        let metrics = if is_first { Some(trial.metrics.as_slice()) } else { trial.metrics_of(arm) };
        let metrics = metrics.with_context(|| format!("no comparison of arm {arm}"))?;
        let median =
            |metric: &Metric| metric.format_value(if is_first { metric.a } else { metric.b });
        let primary = find(metrics, &trial.primary)?;
        let (change, verdict) =
            if is_first { Default::default() } else { (primary.change(), primary.verdict.clone()) };
        let mut row = vec![arm.clone(), median(primary), change, verdict];
        for name in &others {
            row.push(median(find(metrics, name)?));
        }
        table.row(row);
    }
    Ok(table.text)
}

fn columns_of_cells(cells: &[Cell], chosen: &[&str]) -> Result<String> {
    let Some(Cell { trial: first, .. }) = cells.first() else { bail!("no cell") };
    ensure!(
        cells.iter().all(|cell| cell.trial.others.is_empty()),
        "several machines and more than two arms: name a machine, as FOLDER/CELL"
    );
    let mut heading = vec![format!("{} → {}, {} pairs", first.arm(0)?, first.arm(1)?, first.pairs)];
    heading.extend(cells.iter().map(|cell| cell.cell.clone().unwrap_or_default()));
    let mut table = Markdown::new(heading);
    for name in first.names(chosen) {
        let mut row = vec![first.label(name)];
        for cell in cells {
            let metric = find(&cell.trial.metrics, name)?;
            let (a, b) = (metric.format_value(metric.a), metric.format_value(metric.b));
            let verdict = metric.verdict(&first.primary);
            row.push(format!("{a} → {b}, {}, {verdict}", metric.change()));
        }
        table.row(row);
    }
    Ok(table.text)
}

/// A Markdown table that is being written.
struct Markdown {
    columns: usize,
    text: String,
}

impl Markdown {
    fn new(heading: Vec<String>) -> Self {
        let columns = heading.len();
        let mut table = Self { columns, text: String::new() };
        table.row(heading);
        table.text += &format!("|{}\n", "---|".repeat(columns));
        table
    }

    /// Adds a row to the table, padded with empty cells.
    fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.columns, String::new());
        let cell = |cell: &String| {
            if cell.is_empty() {
                " |".to_owned()
            } else {
                format!(" {} |", cell.replace('|', "\\|"))
            }
        };
        self.text += &format!("|{}\n", cells.iter().map(cell).collect::<String>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn metric(name: &str, unit: &str, (a, b): (f64, f64), ratio: f64) -> Value {
        json!({"name": name, "unit": unit, "a": a, "b": b, "b_per_a": ratio,
               "interval": [ratio * 0.9, ratio * 1.1], "verdict": "worse"})
    }

    fn cell() -> Value {
        json!({"trial": {"primary": "cpu", "pairs": 7, "arms": [{"name": "off"}, {"name": "on"}],
            "metrics": [metric("cpu", "seconds", (1.0, 2.0), 2.0), metric("refaults", "pages", (10.0, 50.0), 5.0)]}})
    }

    fn render_document(document: &Value, metrics: &[&str]) -> String {
        render(&parse(&document.to_string()).unwrap(), metrics).unwrap()
    }

    #[test]
    fn two_arms_have_a_row_for_each_metric() {
        let expected = "| 7 pairs | off | on | on against off | |\n|---|---|---|---|---|\n\
                        | cpu (decides) | 1.00 s | 2.00 s | +100 % (+80.0 to +120 %) | **worse** |\n\
                        | refaults | 10 | 50 | 5 × (4.50 to 5.50 ×) | worse |\n";
        assert_eq!(render_document(&cell(), &[]), expected);
        assert_eq!(render_document(&cell(), &["cpu"]).lines().count(), 3);
    }

    #[test]
    fn more_arms_have_a_row_each_and_say_why_they_were_given_up() {
        let mut document = cell();
        document["trial"]["arms"] =
            json!([{"name": "off"}, {"name": "on"}, {"name": "full"}, {"name": "bad"}]);
        document["trial"]["others"] = json!([{"arm": "full",
            "metrics": [metric("cpu", "seconds", (1.0, 3.0), 3.0), metric("refaults", "pages", (10.0, 7.0), 0.7)]}]);
        document["trial"]["dropped"] = json!([{"arm": "bad", "why": "killed | twice"}]);
        let expected = "| arm | cpu | against off | | refaults |\n|---|---|---|---|---|\n\
                        | off | 1.00 s | | | 10 |\n\
                        | on | 2.00 s | +100 % (+80.0 to +120 %) | worse | 50 |\n\
                        | full | 3.00 s | 3 × (2.70 to 3.30 ×) | worse | 7 |\n\
                        | bad | – | – | given up: killed \\| twice | |\n";
        assert_eq!(render_document(&document, &[]), expected);
    }

    #[test]
    fn several_machines_have_a_column_each() {
        let (mut first, mut second) = (cell(), cell());
        first["cell"] = json!("bookworm-512M");
        second["cell"] = json!("sid-512M");
        second["trial"]["metrics"][0]["b_per_a"] = Value::Null;
        let document = json!({"cells": [first, second]});
        let expected = "| off → on, 7 pairs | bookworm-512M | sid-512M |\n|---|---|---|\n\
                        | cpu (decides) | 1.00 s → 2.00 s, +100 % (+80.0 to +120 %), **worse** \
                        | 1.00 s → 2.00 s, –, **worse** |\n";
        assert_eq!(render_document(&document, &["cpu"]), expected);
    }

    #[test]
    fn an_unknown_metric_names_those_there_are() {
        let cells = parse(&cell().to_string()).unwrap();
        let error = render(&cells, &["cpus"]).unwrap_err().to_string();
        assert!(error.contains("\"cpus\"; there are cpu, refaults"), "{error}");
        assert!(parse("{}").is_err() && parse("{\"cells\": []}").is_err());
    }
}
