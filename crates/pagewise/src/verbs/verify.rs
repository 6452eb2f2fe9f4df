// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise verify`: applied plans, compared with the machine.

use std::path::Path;

use pagewise_apply::plan::{DifferenceKind, StepVerified, Verified, Verify, verify_plans};
use pagewise_apply::state_folder;
use pagewise_model::{Name, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use serde_json::json;

use super::Outcome;
use super::apply;
use crate::cli::{self, Global};
use crate::output;

pub(super) fn run(global: &Global, args: &cli::Verify) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "verify compares this machine; a recording has no applied plans".to_owned();
        anyhow::bail!(Refusal::advised(what, "omit --root"));
    }
    let host = HostRoot::live()?;
    let configuration = snapshot(&host, &Scope { settings: true, ..Scope::glance() }).configuration;
    let state = state_folder();
    let file = args.plan.as_deref().filter(|plan| is_file(plan)).map(Path::new);
    let plan = file.map(apply::read).transpose()?;
    let which = match (&plan, &args.plan) {
        (Some(plan), _) => Verify::Document(plan),
        (None, Some(id)) => Verify::One(id),
        (None, None) => Verify::All,
    };
    let verified = verify_plans(&state, which, &configuration)?;
    let shown = if global.json { document(&verified) } else { text(&verified) };
    output::answer(global, &shown)?;
    let has_drifted = verified.iter().any(Verified::has_drifted);
    Ok(if has_drifted { Outcome::Findings } else { Outcome::Done })
}

/// Journals have numbers, and plans have sixteen digits; a file is named by a path.
fn is_file(name: &str) -> bool {
    name.contains(['/', '.']) || Path::new(name).is_file()
}

fn document(verified: &[Verified]) -> String {
    let document = json!({
        "schema": "pagewise/verify/1",
        "pagewise": env!("CARGO_PKG_VERSION"),
        "drifted": verified.iter().any(Verified::has_drifted),
        "plans": verified,
    });
    format!("{document:#}\n")
}

fn text(verified: &[Verified]) -> String {
    if verified.is_empty() {
        return "no plan is applied\n".to_owned();
    }
    let mut lines = Vec::new();
    for plan in verified {
        let id = Name::from(plan.plan.as_str());
        let journal = match &plan.journal {
            Some(journal) => format!("journal {journal}"),
            None => "not applied by pagewise".to_owned(),
        };
        let differing = plan.steps.iter().filter(|step| !step.differences.is_empty()).count();
        let compared = plan.steps.iter().filter(|step| step.skipped.is_none()).count();
        let verdict = if differing == 0 {
            format!("{compared} steps as planned")
        } else {
            format!("{differing} of {compared} steps differ")
        };
        lines.push(format!("plan {id} ({journal}): {verdict}"));
        lines.extend(plan.steps.iter().flat_map(of_step));
    }
    if verified.iter().any(Verified::has_drifted) {
        lines.push(
            "to go back to a plan, undo it and apply it again; `pagewise plan` makes a new one"
                .to_owned(),
        );
    }
    lines.join("\n") + "\n"
}

fn of_step(step: &StepVerified) -> Vec<String> {
    let name = |text: &str| Name::from(text).to_string();
    if let Some(why) = &step.skipped {
        return vec![format!("  {}: not compared: {}", name(&step.what), name(why))];
    }
    let lines = step.differences.iter().map(|difference| {
        let found = name(&difference.found);
        let found = match difference.kind {
            DifferenceKind::Running => format!("is {found} now"),
            DifferenceKind::AtBoot => format!("will be {found} at the next boot"),
            DifferenceKind::File | DifferenceKind::Swap => {
                format!("found {found}, planned {}", name(&difference.planned))
            }
        };
        let by = difference.by.as_deref().map(|by| format!(", as {} says", name(by)));
        format!("  {}: {found}{}", name(&step.what), by.unwrap_or_default())
    });
    lines.collect()
}
