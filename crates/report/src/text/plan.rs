// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise plan`: each step with its reason, then the changes that were declined.

use pagewise_model::plan::{Change, Declined, Goal, NotAddressed, Step, StepUndo, ZramSwap};

use super::findings;
use super::gain;
use super::header::machine;
use super::kit::{Line, Page, Role};
use super::words::{plural, priority};
use crate::PlannedChanges;

/// Indent of the text of a plan's step, in columns.
const BODY: usize = 6;
/// The risk of a step that is not printed: one that begins like this.
const NONE: &str = "none known";
/// Width of a label in columns.
const LABEL: usize = 6;

pub(super) fn print(page: &mut Page, planned: &PlannedChanges<'_>) {
    let plan = planned.plan;
    let start = Line::default().span(Role::Strong, "pagewise plan");
    page.hang_items(start, 2, &machine(planned.snapshot));
    let steps = plural(plan.steps.len() as u64, "step");
    let items = [format!("goal {}", describe_goal(plan.goal)), steps, format!("plan {}", plan.id)];
    page.items(2, &items);
    for (number, step) in (1..).zip(&plan.steps) {
        page.gap();
        print_step(page, number, step);
    }
    if plan.steps.is_empty() {
        page.gap();
        page.prose(2, Role::Strong, "No step: this plan changes nothing.");
    }
    print_declined(page, &plan.declined, planned.why_not);
    print_not_addressed(page, planned.not_addressed);
    if !plan.steps.is_empty() {
        page.gap();
        let text = "Nothing was changed. To see the files: pagewise plan --diff. To carry the plan out: the \
                    same command with -o plan.json, then sudo pagewise apply plan.json.";
        page.prose(2, Role::Quiet, text);
    }
}

const fn describe_goal(goal: Goal) -> &'static str {
    match goal {
        Goal::Throughput => "throughput",
        Goal::Latency => "latency",
        Goal::Ratio => "ratio",
        Goal::Balanced => "balanced",
    }
}

fn print_step(page: &mut Page, number: u32, step: &Step) {
    let start = Line::indent(2).plain(format!("{number:<3} ")).span(Role::Strong, step.id.clone());
    let lost = if is_lost(step) { " (until the next boot)" } else { "" };
    let text = format!("{}{lost}", describe_change(&step.change));
    page.hang(start.plain("   "), BODY, Role::Plain, &text);
    print_labelled(page, "why", &step.reason);
    if let Some(expected) = &step.expected {
        print_labelled(page, "gain", &gain::describe_expected(expected));
    }
    if !step.risk.starts_with(NONE) {
        print_labelled(page, "risk", &step.risk);
    }
    step.cost.iter().for_each(|cost| print_labelled(page, "cost", cost));
    if !step.needs.is_empty() {
        print_labelled(page, "needs", &step.needs.join(", "));
    }
    match &step.undo {
        StepUndo::Restore { what } => print_labelled(page, "undo", what),
        StepUndo::Never { because } => {
            print_labelled(
                page,
                "undo",
                &format!("not possible (apply requires --yes-irreversible): {because}"),
            );
        }
    }
}

/// Whether the step changes a running setting or device that a reboot resets, and no file restores
/// it.
fn is_lost(step: &Step) -> bool {
    let is_running = matches!(
        step.change,
        Change::SetKnob { .. } | Change::AddZramSwap { .. } | Change::AddSwapFile { .. }
    );
    is_running && !step.survives_reboot
}

fn print_labelled(page: &mut Page, label: &str, text: &str) {
    let start = Line::indent(BODY).span(Role::Quiet, label).pad_to(BODY + LABEL);
    page.hang(start, BODY + LABEL, Role::Plain, text);
}

fn describe_change(change: &Change) -> String {
    match change {
        Change::SetKnob { target, from, to } => format!("{target}: {from} → {to}"),
        Change::WriteFile { target, from: None, .. } => format!("new file {target}"),
        Change::WriteFile { target, from: Some(_), .. } => format!("changed file {target}"),
        Change::MakeLink { target, to, .. } => format!("link {target} → {to}"),
        Change::ReloadUnits { .. } => "systemctl daemon-reload".to_owned(),
        Change::AddZramSwap { target, to } => {
            let device = target.as_deref().unwrap_or("a new zram device");
            format!("swap on {device}: {}", describe_zram(to))
        }
        Change::AddSwapFile { target, to } => {
            format!("swap on the new file {target}: {}, {}", to.size_bytes, priority(to.priority))
        }
        Change::SetSwapPriority { target, from, to } => {
            format!("priority of swap on {target}: {from} → {to}")
        }
        Change::DrainSwap { target, from } => {
            format!("swapoff {target} ({} in use)", from.used_bytes.part_of(from.size_bytes))
        }
    }
}

fn describe_zram(zram: &ZramSwap) -> String {
    let limit = zram.mem_limit_bytes.map(|limit| format!(", at most {limit} of RAM"));
    format!(
        "{} before compression, {}, priority {}{}",
        zram.disksize_bytes,
        zram.compressor,
        zram.priority,
        limit.unwrap_or_default()
    )
}

fn print_not_addressed(page: &mut Page, left: &[NotAddressed]) {
    if left.is_empty() {
        return;
    }
    page.heading("Findings that this plan does not address", "");
    for finding in left {
        let start = Line::indent(2)
            .span(findings::role(finding.severity), findings::label(finding.severity))
            .plain("  ");
        page.hang(start, 4, Role::Plain, &format!("{}: {}", finding.title, finding.why));
        if let Some(command) = &finding.next {
            page.command(Line::indent(4), 4, command);
        }
    }
}

fn print_declined(page: &mut Page, declined: &[Declined], all: bool) {
    let (shown, aside): (Vec<&Declined>, Vec<&Declined>) =
        declined.iter().partition(|it| all || it.is_about_finding);
    if !shown.is_empty() {
        page.heading("Considered and left out", "");
    }
    for left_out in shown {
        let start = Line::indent(2).span(Role::Strong, left_out.what.clone()).plain(": ");
        page.hang(start, 4, Role::Plain, &left_out.why);
    }
    if !aside.is_empty() {
        page.gap();
        let them = plural(aside.len() as u64, "change");
        let text =
            format!("{them} that no finding is about: pagewise plan --why-not says why not.");
        page.prose(2, Role::Quiet, &text);
    }
}
