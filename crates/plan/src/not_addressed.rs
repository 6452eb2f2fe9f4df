// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which findings of a host are not fixed by any step of a plan.

use pagewise_model::Finding;
use pagewise_model::plan::{NotAddressed, Plan};

use crate::rules::RULES;

/// Returns the findings that no step of this plan is about, with the reason. `only` contains the
/// findings and rules that the plan is limited to; empty means all. `has_wishes` says whether the
/// user requested certain changes; other rules then added no steps.
pub fn find_not_addressed(
    plan: &Plan,
    findings: &[Finding],
    only: &[String],
    has_wishes: bool,
) -> Vec<NotAddressed> {
    let by_wish_only = has_wishes && only.is_empty();
    let has_step = |finding: &&Finding| {
        let mut led_to_steps = plan.steps.iter().filter_map(|step| step.finding.as_deref());
        led_to_steps.any(|id| id == finding.id || does_one_rule_fix(id, finding.id))
    };
    let left = findings.iter().filter(|finding| !has_step(finding));
    let left = left.filter(|finding| only.is_empty() || only.iter().any(|it| it == finding.id));
    left.map(|finding| NotAddressed {
        id: finding.id,
        severity: finding.severity,
        title: finding.title.clone(),
        why: if by_wish_only { NOT_ASKED_FOR } else { explain_not_addressed(plan, finding) },
        next: finding.next.iter().find(|command| !command.starts_with("pagewise plan")).cloned(),
    })
    .collect()
}

const NOT_ASKED_FOR: &str =
    "the plan contains only what was asked for; `pagewise plan` without --want is about findings";

/// Whether one rule of the plan fixes both findings, so that a step for one finding is also about
/// the other.
fn does_one_rule_fix(one: &str, other: &str) -> bool {
    RULES.iter().any(|rule| rule.findings.contains(&one) && rule.findings.contains(&other))
}

fn explain_not_addressed(plan: &Plan, finding: &Finding) -> &'static str {
    let has_rule = RULES.iter().any(|rule| rule.findings.contains(&finding.id));
    match (has_rule, plan.declined.is_empty()) {
        (false, _) => "no setting that a plan may change is behind it",
        (true, false) => {
            "what a plan could change about it was left out, for a reason above, or is set already"
        }
        (true, true) => "what a plan could change about it is set already",
    }
}
