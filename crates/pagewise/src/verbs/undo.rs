// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise undo`: what killed runs left behind, put back.

use pagewise_apply::{Conflicts, Outcome as Ended, Recovered, recover, state_folder};
use serde_json::json;

use super::Outcome;
use crate::cli::Global;
use crate::output;
use crate::treatment::lines;
use crate::trouble::Advised;

pub(super) fn run(global: &Global) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "undo changes this machine; a recording has nothing to put back".to_owned();
        anyhow::bail!(Advised { what, next: "leave --root away" });
    }
    let runs = recover(&state_folder(), Conflicts::Close)?;
    let text = if global.json { document(&runs) } else { text(&runs) };
    output::answer(global, &text)?;
    if let Some(what) = left(&runs) {
        anyhow::bail!(Advised { what, next: "see above; then run `pagewise undo` again" });
    }
    Ok(Outcome::Done)
}

fn document(runs: &[Recovered]) -> String {
    let document = json!({
        "schema": "pagewise/undo/1",
        "pagewise": env!("CARGO_PKG_VERSION"),
        "runs": runs,
    });
    format!("{document:#}\n")
}

fn text(runs: &[Recovered]) -> String {
    let lines: Vec<String> = runs.iter().flat_map(lines).collect();
    if lines.is_empty() {
        return "nothing to put back\n".to_owned();
    }
    lines.join("\n") + "\n"
}

/// What keeps the journal, in a line.
fn left(runs: &[Recovered]) -> Option<String> {
    let returns = runs.iter().flat_map(|run| &run.returns);
    let left = returns.filter(|it| matches!(it.outcome, Ended::Left { .. })).count();
    let damaged = runs.iter().filter(|run| run.damaged_line.is_some()).count();
    match (left, damaged) {
        (0, 0) => None,
        (0, _) => Some(format!("{damaged} damaged journals are left")),
        _ => Some(format!("{left} of what was lent could not be put back")),
    }
}
