// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab replay`: judges the recorded runs of a trial or an experiment again.

use std::path::Path;

use pagewise_lab::experiment::Recorded;
use pagewise_lab::library::cells_in;
use pagewise_model::{Bytes, Cost, Refusal, Snapshot, Trial};
use pagewise_report::{TrialReport, text};
use pagewise_stats::judge;
use pagewise_terminal::{Global, Outcome, output, screen};
use serde_json::{Value, json};

/// Replays the runs in a folder of evidence. With `html`, the result is written to this new file
/// instead of printed as text.
pub(super) fn run(global: &Global, folder: &Path, html: Option<&Path>) -> anyhow::Result<Outcome> {
    let mut documents = Vec::new();
    let mut differing = Vec::new();
    let unknown = Snapshot::default();
    let cells = cells_in(folder)?;
    if html.is_some() && cells.len() > 1 {
        let what = format!("{} has the runs of {} machines", folder.display(), cells.len());
        anyhow::bail!(Refusal::with_advice(
            what,
            "name the folder of one of them: a page shows one"
        ));
    }
    for (name, path) in cells {
        let recorded = Recorded::read(&path)?;
        let trial = judge(&recorded.experiment, &recorded.runs);
        let differences = recorded.differences(&trial);
        let tried = report(&path, &recorded, &trial, &unknown);
        if let Some(html) = html {
            write_page(global, html, &tried)?;
        }
        if global.json {
            documents.push(document(&recorded, &trial, &differences, &name));
        } else if html.is_none() {
            show(global, &name, &tried)?;
        }
        print_differences(global, &name, &recorded, &differences);
        differing.extend(differences.iter().map(|key| with_cell_name(&name, key)));
    }
    if global.json {
        output::print_document(&format!("{:#}\n", join_documents(documents)))?;
    }
    if differing.is_empty() {
        Ok(Outcome::Done)
    } else {
        anyhow::bail!("the folder's summary says otherwise in {}", differing.join(", "))
    }
}

fn document(recorded: &Recorded, trial: &Trial, differences: &[String], cell: &str) -> Value {
    let mut document = json!({
        "schema": "pagewise/replay/1",
        "pagewise": env!("CARGO_PKG_VERSION"),
        "had_summary": recorded.summary.is_some(),
        "differs_in": differences,
        "trial": trial,
    });
    if !cell.is_empty() {
        document["cell"] = cell.into();
    }
    document
}

/// The document of a trial; those of several cells are combined in a list.
fn join_documents(mut documents: Vec<Value>) -> Value {
    match documents.pop() {
        Some(one) if documents.is_empty() => one,
        last => {
            documents.extend(last);
            json!({ "schema": "pagewise/replay-cells/1", "cells": documents })
        }
    }
}

/// The report of a replayed trial; it has no machine, because the folder does not record one.
fn report<'a>(
    folder: &'a Path,
    recorded: &'a Recorded,
    trial: &'a Trial,
    unknown: &'a Snapshot,
) -> TrialReport<'a> {
    TrialReport {
        name: recorded.name.as_deref(),
        snapshot: unknown,
        trial,
        runs: &recorded.runs,
        evidence: Some(folder),
        cost: Cost::default(),
    }
}

fn show(global: &Global, name: &str, tried: &TrialReport<'_>) -> anyhow::Result<()> {
    let heading = if name.is_empty() { String::new() } else { format!("{name}\n") };
    let text = heading + &text::trial(tried, screen::text_style(global));
    output::print_answer(global, &text).map(drop)
}

fn write_page(global: &Global, path: &Path, tried: &TrialReport<'_>) -> anyhow::Result<()> {
    let page = pagewise_html::trial_page(tried);
    output::create_file(path, page.as_bytes())?;
    let size = Bytes::new(page.len() as u64);
    super::print_message(global, &format!("{}: a page of {size}", path.display()));
    Ok(())
}

fn print_differences(global: &Global, name: &str, recorded: &Recorded, differences: &[String]) {
    let line = match (&recorded.summary, differences.is_empty()) {
        (None, _) => "the folder has no summary: the trial was ended early",
        (Some(_), true) => "the same as the folder's summary",
        (Some(_), false) => return,
    };
    super::print_message(global, &with_cell_name(name, line));
}

fn with_cell_name(cell: &str, what: &str) -> String {
    if cell.is_empty() { what.to_owned() } else { format!("{cell}: {what}") }
}
