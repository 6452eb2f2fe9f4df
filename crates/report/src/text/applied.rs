// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the questions and results of `apply`, and the results of `verify`.

use std::time::Duration;

use pagewise_model::Name;
use pagewise_model::plan::{Applied, Change, DifferenceKind, Plan, Step, StepVerified, Verified};

use super::TextStyle;
use super::words::{plural, priority};
use crate::VerifiedPlans;

/// Describes what a step of a plan will do, and why.
pub fn describe_plan_step(step: &Step) -> Vec<String> {
    let mut lines = match &step.change {
        Change::SetKnob { target, from, to } => vec![format!("  {target}: {from} -> {to}")],
        Change::WriteFile { target, from, to } => {
            let verb = if from.is_some() { "replace" } else { "write" };
            let mut lines = vec![format!("  {verb} {target}:")];
            lines.extend(to.lines().map(|line| format!("    | {line}")));
            lines
        }
        Change::MakeLink { target, to, .. } => vec![format!("  link {target} -> {to}")],
        Change::ReloadUnits { .. } => vec!["  systemctl daemon-reload".to_owned()],
        Change::AddZramSwap { target, to } => {
            let device = target.as_deref().unwrap_or("a new zram device");
            let limit = to.mem_limit_bytes.map(|limit| format!(", at most {limit} of RAM"));
            vec![format!(
                "  swap on {device}: {} with {}, priority {}{}",
                to.disksize_bytes,
                to.compressor,
                to.priority,
                limit.unwrap_or_default()
            )]
        }
        Change::AddSwapFile { target, to } => {
            let priority = priority(to.priority);
            vec![format!("  swap on the new file {target}: {}, {priority}", to.size_bytes)]
        }
        Change::SetSwapPriority { target, from, to } => {
            vec![format!("  priority of swap on {target}: {from} → {to}")]
        }
        Change::DrainSwap { target, from } => {
            vec![format!(
                "  swapoff {target} ({} in use when planned)",
                from.used_bytes.part_of(from.size_bytes)
            )]
        }
    };
    if !step.reason.is_empty() {
        lines.push(format!("      why   {}", step.reason));
    }
    lines.push(format!("      risk  {}", step.risk));
    // a plan may come from anywhere, and a terminal would interpret escape sequences in it
    lines.iter().map(|line| Name::from(line.as_str()).to_string()).collect()
}

/// The result of `apply`; `trial` is the time after which the plan is undone unless it is
/// confirmed.
pub fn describe_applied(plan: &Plan, applied: &Applied, trial: Option<Duration>) -> String {
    let id = Name::from(plan.id.as_str());
    let Some(journal) = &applied.journal else {
        return format!("plan {id}: nothing to do, every step is in place\n");
    };
    let mut lines = Vec::new();
    for step in &applied.steps {
        let state = if step.changed { "done" } else { "was already in place" };
        lines.push(format!("{}: {state}", Name::from(step.what.as_str())));
    }
    if let Some(watched) = &applied.watched {
        let stalled = watched.full_us.map(|full| {
            let ms = full / 1000;
            format!("; all tasks waited for memory for {ms} ms of {} s", watched.settle_seconds)
        });
        lines.push(format!(
            "no process was killed for lack of memory{}",
            stalled.unwrap_or_default()
        ));
    }
    lines.push(format!("plan {id} is applied (journal {journal})"));
    if let Some(time) = trial {
        let seconds = time.as_secs();
        lines.push(format!(
            "it will be undone {seconds} s after its start, or at the next boot, unless you confirm it: \
             pagewise apply --confirm {journal}"
        ));
    }
    lines
        .push(format!("compare later: pagewise verify {journal}    undo: pagewise undo {journal}"));
    lines.join("\n") + "\n"
}

/// The applied plans compared with the machine, and the measurements of their gains.
pub fn describe_verified(verified: &VerifiedPlans<'_>, look: TextStyle) -> String {
    if verified.plans.is_empty() {
        return "no plan is applied\n".to_owned();
    }
    let mut shown = String::new();
    for plan in verified.plans {
        for line in
            [headline(plan)].into_iter().chain(plan.steps.iter().flat_map(describe_step_result))
        {
            shown.push_str(&line);
            shown.push('\n');
        }
        shown.push_str(&super::gains(&plan.gains, look));
    }
    if verified.ledger.added > 0 {
        let added = verified.ledger.added;
        let measurements = if added == 1 { "measurement was" } else { "measurements were" };
        shown.push_str(&format!(
            "{added} {measurements} added to the ledger (pagewise verify --history)\n"
        ));
    }
    if verified.plans.iter().any(Verified::has_drifted) {
        shown.push_str(
            "to go back to a plan, undo it and apply it again; `pagewise plan` makes a new one\n",
        );
    }
    shown
}

/// The heading of an applied plan: its id, its journal, and how many of its steps differ from the
/// machine.
fn headline(plan: &Verified) -> String {
    let id = Name::from(plan.plan.as_str());
    let journal = match &plan.journal {
        Some(journal) => format!("journal {journal}"),
        None => "not applied by pagewise".to_owned(),
    };
    let differing = plan.steps.iter().filter(|step| !step.differences.is_empty()).count();
    let compared = plan.steps.iter().filter(|step| step.skipped.is_none()).count();
    let verdict = if compared == 0 && !plan.steps.is_empty() {
        format!("not compared: {}", plural(plan.steps.len() as u64, "step"))
    } else if differing == 0 {
        format!("{} as planned", plural(compared as u64, "step"))
    } else {
        format!("{differing} of {} differ from the plan", plural(compared as u64, "step"))
    };
    format!("plan {id} ({journal}): {verdict}")
}

fn describe_step_result(step: &StepVerified) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A step is not compared if its path is behind a symbolic link, which is not followed.
    #[test]
    fn a_plan_of_which_no_step_was_compared_is_not_as_planned() {
        let step = |skipped: Option<&str>| StepVerified {
            is_superseded: false,
            id: "file".to_owned(),
            what: "file /etc/sysctl.d/90-pagewise.conf".to_owned(),
            differences: Vec::new(),
            skipped: skipped.map(str::to_owned),
            area: None,
        };
        let plan = |steps| Verified {
            plan: "0123456789abcdef".to_owned(),
            journal: Some("3".to_owned()),
            steps,
            gains: Vec::new(),
        };
        let link = step(Some("/etc/sysctl.d leads through a symbolic link"));
        let told = headline(&plan(vec![link.clone()]));
        assert!(told.ends_with("(journal 3): not compared: 1 step"), "{told}");
        let told = headline(&plan(vec![link, step(None)]));
        assert!(told.ends_with(": 1 step as planned"), "{told}");
    }
}
