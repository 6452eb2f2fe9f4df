// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab replay`: the raw runs of a trial, judged again.

use std::path::Path;

use pagewise_lab::experiment::{Recorded, judge};
use pagewise_model::{Cost, Snapshot};
use pagewise_report::{Tried, text};
use serde_json::json;

use super::Outcome;
use crate::cli::Global;
use crate::{output, screen};

pub(super) fn run(global: &Global, folder: &Path) -> anyhow::Result<Outcome> {
    let recorded = Recorded::read(folder)?;
    let trial = judge(&recorded.experiment, &recorded.runs);
    let differences = recorded.differences(&trial);
    let text = if global.json {
        let document = json!({
            "schema": "pagewise/replay/1",
            "pagewise": env!("CARGO_PKG_VERSION"),
            "had_summary": recorded.summary.is_some(),
            "differs_in": differences,
            "trial": trial,
        });
        format!("{document:#}\n")
    } else {
        let tried = Tried {
            snapshot: &Snapshot::default(),
            trial: &trial,
            runs: &recorded.runs,
            evidence: Some(folder),
            cost: Cost::default(),
        };
        text::trial(&tried, screen::look(global))
    };
    output::print(text.as_bytes())?;
    match (&recorded.summary, differences.is_empty()) {
        (None, _) => super::tell(global, "the folder has no summary: the trial was ended early"),
        (Some(_), true) => super::tell(global, "the same as the folder's summary"),
        (Some(_), false) => {
            anyhow::bail!("the folder's summary says otherwise in {}", differences.join(", "));
        }
    }
    Ok(Outcome::Done)
}
