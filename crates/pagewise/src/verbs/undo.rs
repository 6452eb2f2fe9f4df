// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise undo`: what killed runs left behind, put back; and journals that cannot be settled,
//! removed.

use pagewise_apply::{Conflicts, Outcome as Ended, Recovered, forget, recover, state_folder};
use pagewise_model::{Name, Refusal};
use serde_json::json;

use super::Outcome;
use crate::cli::{self, Global};
use crate::host_loans::{lines, what_stays};
use crate::output;

pub(super) fn run(global: &Global, args: &cli::Undo) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "undo changes this machine; a recording has nothing to put back".to_owned();
        anyhow::bail!(Refusal::advised(what, "leave --root away"));
    }
    if let Some(id) = &args.forget {
        let run = forget(&state_folder(), id)?;
        let text = if global.json { document(&[run]) } else { forgotten(&run) };
        output::answer(global, &text)?;
        return Ok(Outcome::Done);
    }
    let runs = recover(&state_folder(), Conflicts::Close)?;
    let text = if global.json { document(&runs) } else { text(&runs) };
    output::answer(global, &text)?;
    if let Some(what) = left(&runs) {
        let next = "see above; `pagewise undo` tries again, and `pagewise undo --forget ID` removes \
                    a journal and leaves the machine as it is";
        anyhow::bail!(Refusal::advised(what, next));
    }
    Ok(Outcome::Done)
}

/// What was put back first, and what no journal names any more.
fn forgotten(run: &Recovered) -> String {
    let mut all = if run.skipped.is_some() { Vec::new() } else { lines(run) };
    all.push(format!("{}: removed", Name::from(run.journal.as_str())));
    let stays = what_stays(run);
    if stays.is_empty() {
        all.push("nothing of it stays on the machine".to_owned());
    } else {
        all.push("what stays on the machine, and pagewise will not put back:".to_owned());
        all.extend(stays.iter().map(|line| format!("  {line}")));
    }
    all.join("\n") + "\n"
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

/// What keeps journals, in a line. A folder or pipe by the name of one is told and is no failure.
fn left(runs: &[Recovered]) -> Option<String> {
    let returns = runs.iter().flat_map(|run| &run.returns);
    let left = returns.filter(|it| matches!(it.outcome, Ended::Left { .. })).count();
    let ids = |which: fn(&Recovered) -> bool| {
        let ids: Vec<&str> = runs.iter().filter(|run| which(run)).map(|run| &*run.id).collect();
        (!ids.is_empty()).then(|| ids.join(", "))
    };
    let damaged = ids(|run| run.damaged_line.is_some());
    let skipped = ids(|run| run.skipped.as_ref().is_some_and(|it| it.is_file));
    let listed = [
        (left > 0).then(|| format!("{left} of what was lent could not be put back")),
        damaged.map(|ids| format!("damaged journals stay (ID {ids})")),
        skipped
            .map(|ids| format!("journals that others can have written were not read (ID {ids})")),
    ];
    let lines: Vec<String> = listed.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
