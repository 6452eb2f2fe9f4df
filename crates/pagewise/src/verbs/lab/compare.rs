// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab compare`: did a second trial find what the first did?

use std::path::Path;

use pagewise_lab::experiment::{Recorded, judge, replicated};
use pagewise_report::text;
use serde_json::json;

use super::Outcome;
use crate::cli::Global;
use crate::{output, screen};

pub(super) fn run(global: &Global, first: &Path, second: &Path) -> anyhow::Result<Outcome> {
    let trial = |folder: &Path| {
        let recorded = Recorded::read(folder)?;
        anyhow::Ok(judge(&recorded.experiment, &recorded.runs))
    };
    let (one, other) = (trial(first)?, trial(second)?);
    let metrics = replicated(&one, &other);
    let same_question =
        one.arms == other.arms && one.command == other.command && one.primary == other.primary;
    let text = if global.json {
        let document = json!({
            "schema": "pagewise/compare/1",
            "pagewise": env!("CARGO_PKG_VERSION"),
            "first": { "folder": first.to_string_lossy(), "verdict": one.verdict },
            "second": { "folder": second.to_string_lossy(), "verdict": other.verdict },
            "same_question": same_question,
            "metrics": metrics,
        });
        format!("{document:#}\n")
    } else {
        text::compare((&one, &other), &metrics, screen::look(global))
    };
    output::print(text.as_bytes())?;
    if !same_question {
        super::tell(global, "the two differ in command, arms or what decides: compare with care");
    }
    Ok(Outcome::Done)
}
