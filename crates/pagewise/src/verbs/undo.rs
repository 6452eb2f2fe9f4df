// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise undo`: restores what killed runs and interrupted plans left changed, undoes plans, and
//! removes journals that cannot be completed.

use jiff::Timestamp;
use pagewise_apply::plan::{UndoTarget, plans_in_force, undo_plans};
use pagewise_apply::{Conflicts, forget, recover, state_folder};
use pagewise_model::undo::{InForce, Outcome as Ended, Recovered, Return};
use pagewise_model::{Interval, Name, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_report::text::{describe_recovered, describe_unsettled};
use pagewise_report::{UndoReport, json};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output};

use crate::cli;

pub(super) fn run(
    global: &Global,
    args: &cli::Undo,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "undo changes this machine; a recording has nothing to put back".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    if let Some(id) = &args.forget {
        let run = forget(&state_folder(), id)?;
        let text = if global.json {
            document(started, &[run], &plans_in_force(&state_folder())?)?
        } else {
            describe_forgotten(&run)
        };
        output::print_answer(global, &text)?;
        return Ok(Outcome::Done);
    }
    let state = state_folder();
    let mut runs = Vec::new();
    if args.plan.is_none() && !args.unconfirmed {
        runs = recover(&state, Conflicts::Close)?;
    }
    runs.extend(undo_plans(&state, undo_target(args))?);
    let plans = plans_in_force(&state)?;
    let text = if global.json {
        document(started, &runs, &plans)?
    } else if args.before_removal {
        describe_before_removal(&runs, &plans)
    } else {
        text(&runs) + &list_plans(&plans)
    };
    output::print_answer(global, &text)?;
    if args.before_removal {
        return refuse_removal(&runs, &plans);
    }
    if let Some(what) = describe_left(&runs) {
        if args.unconfirmed && !is_worth_a_retry(&runs) {
            output::print_message(what);
            return Ok(Outcome::Findings);
        }
        let next = "see above; `pagewise undo` tries again, and `pagewise undo --forget ID` puts \
                    a journal aside and leaves the machine as it is";
        anyhow::bail!(Refusal::with_advice(what, next));
    }
    Ok(Outcome::Done)
}

/// What was undone, and which plans stay in force after the program is removed; empty if there is
/// neither.
fn describe_before_removal(runs: &[Recovered], plans: &[InForce]) -> String {
    let mut lines: Vec<String> = runs.iter().flat_map(describe_recovered).collect();
    for plan in plans {
        let (id, journal) = (Name::from(plan.plan.id.as_str()), &plan.journal);
        let since = format_utc_to_minute(plan.unix_seconds);
        lines.push(format!("plan {id} of {since} (journal {journal}) stays in force:"));
        lines.extend(plan.left.iter().map(|what| format!("  {what}")));
    }
    if !plans.is_empty() {
        lines.push(
            "To undo what stays in force, now or after pagewise is installed again, run:\n  pagewise undo --all"
                .to_owned(),
        );
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Fails if a plan on trial could not be undone: after the removal, nothing would undo it when its
/// time is over.
fn refuse_removal(runs: &[Recovered], plans: &[InForce]) -> anyhow::Result<Outcome> {
    let has_left = |plan: &&InForce| {
        let run = runs.iter().find(|run| run.id == plan.journal);
        run.is_some_and(|run| run.returns.iter().any(|it| matches!(it.outcome, Ended::Left { .. })))
    };
    let mut on_trial = plans.iter().filter(|plan| plan.trial_until.is_some());
    let Some(plan) = on_trial.find(has_left) else { return Ok(Outcome::Done) };
    let (id, journal) = (Name::from(plan.plan.id.as_str()), &plan.journal);
    let what = format!("plan {id} (journal {journal}) is on trial and could not be undone");
    let next = format!(
        "see above; keep it with `pagewise apply --confirm {journal}`, or put its journal aside with \
         `pagewise undo --forget {journal}`; then remove pagewise again"
    );
    Err(Refusal::with_advice(what, next).into())
}

/// Whether the timer of a trial should try the undo again: it should not if a conflict or a damaged
/// journal needs a person.
fn is_worth_a_retry(runs: &[Recovered]) -> bool {
    let intact = runs.iter().filter(|run| run.damaged_line.is_none());
    let mut returns = intact.flat_map(|run| &run.returns);
    returns.any(|it| matches!(it.outcome, Ended::Left { .. }))
}

fn undo_target(args: &cli::Undo) -> UndoTarget<'_> {
    match &args.plan {
        id if args.unconfirmed => UndoTarget::Unconfirmed(id.as_deref()),
        _ if args.before_removal => UndoTarget::BeforeRemoval,
        Some(id) => UndoTarget::One(id),
        None if args.all => UndoTarget::All,
        None => UndoTarget::Interrupted,
    }
}

/// Lists the plans that stay in force, and the command to undo each.
fn list_plans(plans: &[InForce]) -> String {
    let line = |plan: &InForce| {
        let (id, journal) = (Name::from(plan.plan.id.as_str()), &plan.journal);
        let (changes, since) = (plan.changes, format_utc_to_minute(plan.unix_seconds));
        let trial = plan.trial_until.map(|until| {
            format!(
                ", on trial until {}; to keep it: pagewise apply --confirm {journal}",
                format_utc_to_minute(until)
            )
        });
        let trial = trial.unwrap_or_default();
        format!(
            "plan {id} of {since} has {changes} changes in force{trial}; to undo it: pagewise undo {journal}\n"
        )
    };
    plans.iter().map(line).collect()
}

/// Formats a time in UTC, to the minute.
pub(super) fn format_utc_to_minute(unix_seconds: u64) -> String {
    let moment = Timestamp::from_second(i64::try_from(unix_seconds).unwrap_or_default());
    moment.unwrap_or_default().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Describes what was restored before a journal was removed, and the changes that stay on the
/// machine.
fn describe_forgotten(run: &Recovered) -> String {
    let mut all = if run.skipped.is_some() { Vec::new() } else { describe_recovered(run) };
    let journal = Name::from(run.journal.as_str());
    all.push(match &run.set_aside {
        Some(to) => {
            let to = Name::from(to.as_str());
            format!("{journal}: no longer in force; kept, with old contents of files, as {to}")
        }
        None => format!("{journal}: removed"),
    });
    let stays = describe_unsettled(run);
    if stays.is_empty() {
        all.push("nothing of it stays on the machine".to_owned());
    } else {
        all.push("what stays on the machine, and pagewise will not put back:".to_owned());
        all.extend(stays.iter().map(|line| format!("  {line}")));
    }
    all.join("\n") + "\n"
}

/// The JSON document of `undo`: what was restored, and the plans that are in force.
fn document(started: CostMeter, runs: &[Recovered], plans: &[InForce]) -> anyhow::Result<String> {
    let interval = Interval::single(snapshot(&HostRoot::live()?, &Scope::glance()));
    let cost = cost::measure_since(started, &interval);
    Ok(json::undo(&UndoReport { snapshot: &interval.end, runs, plans, cost }))
}

fn text(runs: &[Recovered]) -> String {
    let lines: Vec<String> = runs.iter().flat_map(describe_recovered).collect();
    if lines.is_empty() {
        return "nothing to put back\n".to_owned();
    }
    lines.join("\n") + "\n"
}

/// A line that explains why journals remain. A folder or pipe with the name of a journal is listed
/// elsewhere, and is not a failure.
fn describe_left(runs: &[Recovered]) -> Option<String> {
    let returns = runs.iter().flat_map(|run| &run.returns);
    let left = returns.filter(|it| matches!(it.outcome, Ended::Left { .. })).count();
    let ids = |which: fn(&Recovered) -> bool| {
        let ids: Vec<&str> = runs.iter().filter(|run| which(run)).map(|run| &*run.id).collect();
        (!ids.is_empty()).then(|| ids.join(", "))
    };
    let is_conflict = |it: &Return| matches!(it.outcome, Ended::Conflict { .. });
    let of_plans = runs.iter().filter(|run| run.plan.is_some());
    let conflicts = of_plans.flat_map(|run| &run.returns).filter(|it| is_conflict(it)).count();
    let damaged = ids(|run| run.damaged_line.is_some());
    let skipped = ids(|run| run.skipped.as_ref().is_some_and(|it| it.is_file));
    let listed = [
        (left > 0).then(|| format!("{left} of what was lent could not be put back")),
        (conflicts > 0)
            .then(|| format!("{conflicts} changes of plans were changed by somebody else since")),
        damaged.map(|ids| format!("damaged journals stay (ID {ids})")),
        skipped
            .map(|ids| format!("journals that others can have written were not read (ID {ids})")),
    ];
    let lines: Vec<String> = listed.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
