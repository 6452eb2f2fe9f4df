// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab compare`: whether a second trial confirms the first. In experiments with several
//! cells, cells of the same name are compared.

use std::path::{Path, PathBuf};

use pagewise_lab::experiment::Recorded;
use pagewise_lab::library::cells_in;
use pagewise_model::Trial;
use pagewise_report::text;
use pagewise_stats::{judge, replicate_all};
use pagewise_terminal::{Global, Outcome, output, screen};
use serde_json::{Value, json};

/// A cell of the first folder, and the one of the same name in the second.
struct CellPair {
    cell: String,
    first: PathBuf,
    second: PathBuf,
}

pub(super) fn run(global: &Global, first: &Path, second: &Path) -> anyhow::Result<Outcome> {
    let mut documents = Vec::new();
    for two in cell_pairs(global, first, second)? {
        documents.extend(compare_cells(global, &two)?);
    }
    if let Some(last) = documents.pop() {
        let whole = if documents.is_empty() {
            last
        } else {
            documents.push(last);
            json!({ "schema": "pagewise/compare-cells/1", "cells": documents })
        };
        output::print_document(&format!("{whole:#}\n"))?;
    }
    Ok(Outcome::Done)
}

fn cell_pairs(global: &Global, first: &Path, second: &Path) -> anyhow::Result<Vec<CellPair>> {
    let (ones, mut others) = (cells_in(first)?, cells_in(second)?);
    if let ([(cell, one)], [(_, other)]) = (&*ones, &*others) {
        return Ok(vec![CellPair {
            cell: cell.clone(),
            first: one.clone(),
            second: other.clone(),
        }]);
    }
    let mut twos = Vec::new();
    for (cell, first) in ones {
        match others.iter().position(|(name, _)| *name == cell) {
            Some(at) => twos.push(CellPair { cell, first, second: others.swap_remove(at).1 }),
            None => super::print_message(global, &format!("{cell}: only in the first")),
        }
    }
    for (cell, _) in others {
        super::print_message(global, &format!("{cell}: only in the second"));
    }
    anyhow::ensure!(!twos.is_empty(), "the two have no cell in common");
    Ok(twos)
}

/// Prints the comparison, or returns the document for --json.
fn compare_cells(global: &Global, two: &CellPair) -> anyhow::Result<Option<Value>> {
    let trial = |folder: &Path| -> anyhow::Result<Trial> {
        let recorded = Recorded::read(folder)?;
        Ok(judge(&recorded.experiment, &recorded.runs))
    };
    let (one, other) = (trial(&two.first)?, trial(&two.second)?);
    let metrics = replicate_all(&one, &other);
    let same_question =
        one.arms == other.arms && one.program == other.program && one.primary == other.primary;
    if !same_question {
        super::print_message(
            global,
            "the two differ in command, arms or what decides: compare with care",
        );
    }
    if global.json {
        let mut document = json!({
            "schema": "pagewise/compare/1",
            "pagewise": env!("CARGO_PKG_VERSION"),
            "first": { "folder": two.first.to_string_lossy(), "verdict": one.verdict },
            "second": { "folder": two.second.to_string_lossy(), "verdict": other.verdict },
            "same_question": same_question,
            "metrics": metrics,
        });
        if !two.cell.is_empty() {
            document["cell"] = two.cell.clone().into();
        }
        return Ok(Some(document));
    }
    let heading = if two.cell.is_empty() { String::new() } else { format!("{}\n", two.cell) };
    let text = heading + &text::compare((&one, &other), &metrics, screen::text_style(global));
    output::print_answer(global, &text)?;
    Ok(None)
}
