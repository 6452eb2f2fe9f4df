// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints what killed runs or plans left behind, and the result of restoring it.

use pagewise_model::Name;
use pagewise_model::undo::{Outcome, Recovered};

/// Describes the result of undoing the changes of a killed run, in lines.
pub fn describe_recovered(run: &Recovered) -> Vec<String> {
    let journal = &Name::from(run.journal.as_str());
    if let Some(skipped) = &run.skipped {
        let why = &skipped.why;
        return vec![format!("{journal}: not read: {why}; nothing that it may name was put back")];
    }
    let who =
        run.pid.map_or_else(|| "an earlier run".to_owned(), |pid| format!("the run of pid {pid}"));
    let when = if run.earlier_boot { ", before this boot" } else { "" };
    let mut lines = Vec::new();
    if !run.returns.is_empty() {
        let id = &run.id;
        lines.push(match &run.plan {
            Some(plan) => format!("plan {} (journal {id}):", Name::from(plan.as_str())),
            None => format!("{who}{when} was ended before it could put back (journal {id}):"),
        });
        lines.extend(
            run.returns.iter().map(|it| format!("  {}", describe_returned(&it.what, &it.outcome))),
        );
    }
    if let Some(at) = run.damaged_line {
        lines.push(format!(
            "{journal}: line {at} is damaged: what it said is not known; what is certain is what \
             other lines say, {}",
            if run.returns.is_empty() { "and that is nothing" } else { "as above" }
        ));
    }
    if let Some(why) = &run.unnoted {
        let done = "what is said above was done";
        lines.push(format!(
            "{journal}: {done}, and could not be noted there: {why}; the next undo looks again"
        ));
    }
    lines
}

/// Describes what is not restored when a journal is removed, a line for each change.
pub fn describe_unsettled(run: &Recovered) -> Vec<String> {
    if let Some(skipped) = &run.skipped {
        return vec![format!("all that it may name: it was not read, since {}", skipped.why)];
    }
    let returns = run.returns.iter().filter(|it| !it.outcome.is_settled());
    let mut lines: Vec<String> =
        returns.map(|it| describe_returned(&it.what, &it.outcome)).collect();
    if let Some(at) = run.damaged_line {
        lines.push(format!("whatever line {at} named, which is damaged"));
    }
    lines
}

/// Describes the result of returning one loan, in a line.
pub fn describe_returned(what: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Returned => format!("{what}: put back"),
        Outcome::Gone => format!("{what}: nothing to put back"),
        Outcome::Kept { why } => format!("{what}: kept, because {why}"),
        Outcome::Conflict { found, .. } => {
            format!("{what}: somebody has set {found} since; that stays")
        }
        Outcome::Left { why, next: None } => format!("{what}: still there: {why}"),
        Outcome::Left { why, next: Some(next) } => format!("{what}: still there: {why}; {next}"),
    }
}
