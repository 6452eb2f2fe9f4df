// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a [`Plan`] for a host from an [`Interval`](pagewise_model::Interval), from how the host is
//! configured at boot, and from measurements. Pure: it reads no files, so every plan can be
//! repeated from a recording.
//!
//! Each rule has a file under `rules/` and a row in [`RULES`]. A rule uses the host and the
//! findings of `pagewise_decide`. If a finding recommends a value, the rule takes the value from
//! the finding, so that the two cannot differ. If a rule considers a change and does not add it, it
//! declines the change with the reason. Sizes and algorithms of zram are computed only by
//! `pagewise_facts::swap_choice`.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod commands;
mod compressor;
mod context;
mod draft;
mod expect;
mod gain;
mod measured;
mod names;
mod not_addressed;
mod owner;
mod persist;
mod request;
mod rules;
mod start_place;
mod start_script;
mod tried;
mod wanted;
mod zram_files;

use pagewise_model::TrialSetting;
use pagewise_model::plan::{Declined, Goal, Plan, PlannedMachine, Step};
use sha2::{Digest, Sha256};

use context::Context;
use draft::Draft;

pub use commands::{RootCommand, root_commands};
pub use gain::{StepState, measure_gain};
pub use measured::{Measured, NotMeasured};
pub use not_addressed::find_not_addressed;
pub use request::Request;
pub use rules::{PlanRule, RULES};

/// Returns the names that [`Request::only`] may contain: ids of rules, and ids of the findings that
/// they fix.
pub fn names() -> Vec<&'static str> {
    let of_rule = |rule: &PlanRule| [&[rule.id], rule.findings].concat();
    let mut all: Vec<&str> = RULES.iter().flat_map(of_rule).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Makes the plan for this host, with its steps and its declined changes.
pub fn make_plan(request: &Request<'_>) -> Plan {
    make_plan_with(request, |context, draft| add_steps(request, context, draft))
}

/// Makes a plan of a single step: it changes this setting of the running kernel, and writes no file, so
/// that the setting has its earlier value after a reboot. The requested changes of `request` do not
/// count. The plan has no step if the setting has this value, or if there is a reason against the change.
pub fn make_temporary_plan(request: &Request<'_>, setting: &TrialSetting, reason: &str) -> Plan {
    make_plan_with(request, |context, draft| wanted::set(context, draft, setting, reason))
}

fn make_plan_with(request: &Request<'_>, add: impl FnOnce(&Context<'_>, &mut Draft)) -> Plan {
    let context = Context::new(request);
    let mut draft = Draft::default();
    match context.reason_against_changes() {
        Some(why) => draft.decline("any change", why),
        None => add(&context, &mut draft),
    }
    let Draft { mut steps, drains, declined, .. } = draft;
    steps.extend(drains);
    let host = context.host;
    let machine = PlannedMachine {
        machine_id_hash: request.installation.machine_id_hash.clone(),
        memory_total_bytes: context.ram(),
        kernel: host.taken.kernel.value().map(ToString::to_string),
    };
    let id = plan_id(request.goal, &machine, &steps, &declined);
    Plan { id, goal: request.goal, machine, steps, declined }
}

fn add_steps(request: &Request<'_>, context: &Context<'_>, draft: &mut Draft) {
    let is_named = |name: &str| request.only.iter().any(|only| only == name);
    let is_chosen = |rule: &&PlanRule| {
        request.only.is_empty()
            || is_named(rule.id)
            || rule.findings.iter().any(|finding| is_named(finding))
    };
    wanted::add(context, draft);
    let has_wishes_only = !request.wants.is_empty() && request.only.is_empty();
    for rule in RULES.iter().filter(is_chosen).filter(|_| !has_wishes_only) {
        let is_called_for = rule.findings.iter().any(|id| context.finding(id).is_some());
        draft.is_aside = !is_called_for && !rule.findings.is_empty() && request.only.is_empty();
        (rule.add)(context, draft);
    }
    draft.is_aside = false;
    persist::add_files(context, draft);
}

/// Returns the id of a plan: the first 16 hexadecimal digits of SHA-256 over all other parts of the
/// plan as JSON.
fn plan_id(goal: Goal, machine: &PlannedMachine, steps: &[Step], declined: &[Declined]) -> String {
    // every part of a plan can be serialized as JSON
    let text = serde_json::to_string(&(goal, machine, steps, declined)).unwrap_or_default();
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
