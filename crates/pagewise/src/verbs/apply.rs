// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise apply`: shows a plan, asks, and applies it to the machine.

mod document;

use anyhow::Context;
use pagewise_apply::plan::{Options, Progress, ReadyPlan, Refused, confirm_plan};
use pagewise_apply::{Rescue, state_folder};
use pagewise_model::plan::{Applied, Complaint, Plan, Step};
use pagewise_model::{Interval, Name, Refusal};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_plan::{RootCommand, root_commands};
use pagewise_report::{AppliedPlan, ApplyOutcome, json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, output, question};

use crate::cli;

pub(crate) use document::read;

pub(super) fn run(
    global: &Global,
    args: &cli::Apply,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "apply changes this machine; a recording has nothing to change".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "omit --root"));
    }
    if let Some(id) = &args.confirm {
        confirm_plan(&state_folder(), id)?;
        let id = Name::from(id.as_str());
        let shown = if global.json {
            document(ApplyOutcome::Confirmed { id: id.as_str() }, started)?
        } else {
            format!("plan {id} is kept; to undo it: pagewise undo {id}\n")
        };
        output::print_answer(global, &shown)?;
        return Ok(Outcome::Done);
    }
    let plan = match &args.plan {
        Some(path) => read(path)?,
        None => super::plan::make(global, &args.choice)?.plan,
    };
    let untrusted = match &args.plan {
        Some(_) if !args.trust_commands => untrusted_commands(&plan),
        _ => Vec::new(),
    };
    let checked =
        ReadyPlan::check(&state_folder(), &plan, args.yes_irreversible, args.trial_for.is_some());
    let (ready, left_behind) = match checked {
        Ok(ready) if untrusted.is_empty() => ready,
        Ok(_) => return Err(print_complaints(global, started, &plan, &untrusted)?),
        Err(Refused::Unready(error)) => return Err(error.into()),
        Err(Refused::Unfit(complaints)) => {
            let all = [complaints, untrusted].concat();
            return Err(print_complaints(global, started, &plan, &all)?);
        }
    };
    left_behind.iter().flat_map(text::describe_recovered).for_each(output::print_message);
    let pending = ready.pending_steps();
    let listed = plan.steps.iter().filter(|step| pending.contains(&step.id.as_str()));
    let listed: Vec<&Step> = listed.collect();
    if !listed.is_empty() && !args.yes {
        ask(&plan, &listed)?;
    }
    let applied = carry_out(global, args, &ready)?;
    let shown = if global.json {
        document(ApplyOutcome::Applied { plan: &plan.id, applied: &applied }, started)?
    } else {
        text::describe_applied(&plan, &applied, args.trial_for)
    };
    output::print_answer(global, &shown).with_context(|| {
        let id = Name::from(plan.id.as_str());
        match &applied.journal {
            Some(journal) => format!("plan {id} is applied (journal {journal}); its report"),
            None => format!("plan {id} was in place already; its report"),
        }
    })?;
    Ok(Outcome::Done)
}

fn carry_out(global: &Global, args: &cli::Apply, ready: &ReadyPlan) -> anyhow::Result<Applied> {
    // nothing was changed so far, so Ctrl-C before this line ends the program as usual
    let stop = Stop::listen()?;
    let _rescue =
        Rescue::install(&state_folder()).context("getting ready for a crash of this program")?;
    let options = Options { settle: args.settle, trial: args.trial_for, stop: stop.shared() };
    let mut report = |progress: Progress<'_>| {
        if global.quiet {
            return;
        }
        match progress {
            Progress::Step(number, of, what) => {
                output::print_message(format_args!("step {number} of {of}: {}", Name::from(what)));
            }
            Progress::Settling(time) => {
                let seconds = time.as_secs_f64();
                output::print_message(format_args!("watching programs for {seconds:.0} s"));
            }
        }
    };
    Ok(ready.carry_out(&options, &mut report).map_err(|failed| *failed)?)
}

/// Prints all complaints about a plan, each with its advice; the returned error describes the state
/// of the machine.
fn print_complaints(
    global: &Global,
    started: CostMeter,
    plan: &Plan,
    complaints: &[Complaint],
) -> anyhow::Result<anyhow::Error> {
    if global.json {
        let outcome = ApplyOutcome::Refused { plan: &plan.id, complaints };
        output::print_answer(global, &document(outcome, started)?)?;
    } else {
        for Complaint { step, what, why, next } in complaints {
            let step = step.as_deref().map(|step| format!("step {}: ", Name::from(step)));
            let (step, what) = (step.unwrap_or_default(), Name::from(what.as_str()));
            output::print_message(format_args!("{step}{what}: {}", Name::from(why.as_str())));
            next.iter().for_each(output::print_hint);
        }
    }
    let count = complaints.len();
    let reasons = if count == 1 { "reason" } else { "reasons" };
    let what = format!(
        "plan {} is refused ({count} {reasons}); nothing was changed",
        Name::from(plan.id.as_str())
    );
    Ok(Refusal::with_advice(what, "`pagewise plan` makes a new one").into())
}

/// A complaint about each line of the plan that runs a program as root and that this program would
/// not have written.
fn untrusted_commands(plan: &Plan) -> Vec<Complaint> {
    let foreign = root_commands(plan).into_iter().filter(|it| !it.is_own);
    let complaint = |it: RootCommand| Complaint {
        step: Some(it.step),
        what: format!("{} line {}", it.path, it.line),
        why: format!("{}, and Pagewise would not have written this line: {}", it.what, it.text),
        next: Some("read the plan; if you trust whoever made it, give --trust-commands".to_owned()),
    };
    foreign.map(complaint).collect()
}

/// The lines of the question that name the changes which run programs as root.
fn describe_commands(plan: &Plan, steps: &[&Step]) -> Vec<String> {
    let all = root_commands(plan).into_iter();
    let asked = all.filter(|it| steps.iter().any(|step| step.id == it.step));
    let describe = |it: RootCommand| {
        let foreign = if it.is_own { "" } else { ", not of Pagewise" };
        format!(
            "  {} line {} ({}{foreign}): {}",
            Name::from(it.path.as_str()),
            it.line,
            it.what,
            Name::from(it.text.as_str())
        )
    };
    let mut lines: Vec<String> = asked.map(describe).collect();
    if !lines.is_empty() {
        lines.insert(0, "these lines run programs as root:".to_owned());
    }
    lines
}

/// Shows the steps of the plan and asks the user for confirmation.
pub(super) fn ask(plan: &Plan, steps: &[&Step]) -> anyhow::Result<()> {
    let already = plan.steps.len() - steps.len();
    let mut lines = vec![format!("plan {}:", Name::from(plan.id.as_str()))];
    for step in steps {
        lines.extend(text::describe_plan_step(step));
    }
    if already > 0 {
        lines.push(format!("{already} more steps are in place already"));
    }
    lines.extend(describe_commands(plan, steps));
    lines.iter().for_each(output::print_message);
    let refused = match question::is_confirmed("carry it out?")? {
        Some(true) => return Ok(()),
        Some(false) => {
            Refusal::with_advice("not carried out; nothing was changed", "answer y, or give --yes")
        }
        None => Refusal::with_advice(
            "standard input is no terminal, so nobody can be asked; nothing was changed",
            "read the plan, then give --yes",
        ),
    };
    Err(refused.into())
}

fn document(outcome: ApplyOutcome<'_>, started: CostMeter) -> anyhow::Result<String> {
    let interval = Interval::single(snapshot(&HostRoot::live()?, &Scope::glance()));
    let cost = cost::measure_since(started, &interval);
    Ok(json::apply(&AppliedPlan { snapshot: &interval.end, outcome, cost }))
}
