// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of `--evidence`: the answer, every round, the table and the chart. It holds no page
//! contents.

use std::path::{Path, PathBuf};

use pagewise_bench::block::{Cell, Entrant};
use pagewise_html::chart;
use pagewise_report::{Benched, csv, json};
use pagewise_terminal::output;
use serde_json::Value;

use super::BenchResults;
use pagewise_lab::redaction::Redaction;

pub(super) struct Folder(PathBuf, Redaction);

impl Folder {
    /// Creates the folder of evidence before anything is measured, so that an unusable path is
    /// reported at once.
    pub(super) fn new(path: &Path, redaction: Redaction) -> anyhow::Result<Self> {
        output::create_empty_folder(path)?;
        Ok(Self(path.to_owned(), redaction))
    }

    pub(super) fn fill(
        &self,
        benched: &Benched<'_>,
        measured: &BenchResults,
    ) -> anyhow::Result<()> {
        let benchmark = benched.benchmark;
        let command = self.1.command_line();
        let snapshot = &self.1.snapshot(benched.snapshot);
        let benched = &Benched { snapshot, ..*benched };
        let put =
            |name: &str, text: &str| output::create_file_below(&self.0, name, text.as_bytes());
        put("answer.json", &json::bench(benched))?;
        put("rounds.jsonl", &rounds(measured))?;
        put("table.csv", &csv::bench(benchmark))?;
        put("command.txt", &(command.join(" ") + "\n"))?;
        let title = format!("{}: read time and ratio", benchmark.input.name);
        chart::draw_pareto(&title, &benchmark.pareto)
            .map_or(Ok(()), |picture| put("pareto.svg", &picture))
    }
}

/// Text with one line for each round of each measured cell.
fn rounds(measured: &BenchResults) -> String {
    let lines = measured.block.cells.iter().flat_map(|cell| {
        let who = label(&measured.block.entrants[cell.contestant]);
        cell.rounds.iter().map(move |round| line(&who, cell, round).to_string() + "\n")
    });
    lines.collect()
}

fn label(entrant: &Entrant) -> String {
    match entrant {
        Entrant::Algorithm { candidate, .. } => candidate.to_string(),
        Entrant::Reference { name, .. } => (*name).to_owned(),
    }
}

fn line(who: &str, cell: &Cell, round: &pagewise_bench::block::Round) -> Value {
    serde_json::json!({
        "who": who,
        "block_bytes": cell.shape.block_bytes,
        "jobs": cell.shape.jobs,
        "direction": cell.shape.direction,
        "round": round.number,
        "requests": round.requests,
        "iops": round.iops,
        "mean_ns": round.mean_ns,
        "p50_ns": round.p50_ns,
        "p99_ns": round.p99_ns,
        "p999_ns": round.p999_ns,
        "cpu_ns_per_io": round.cpu_ns_per_io,
        "kernel_ns_per_io": round.kernel_ns_per_io,
    })
}
