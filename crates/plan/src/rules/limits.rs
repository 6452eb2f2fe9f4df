// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: if a cgroup is short of memory because of its own limit and the host is not, names the
//! commands that raise the limit. The plan contains no step for it, because it is the
//! administrator's decision how much memory a group may use.

use super::PlanRule;
use crate::context::Context;
use crate::draft::Draft;

pub(super) const RULE: PlanRule = PlanRule {
    id: "limits",
    findings: &["group-limit", "oom-kills"],
    doc: "Changes nothing; names the commands that raise the limit of a cgroup that is short of memory because of it.",
    add,
};

const PROPERTIES: [&str; 3] = ["MemoryMax=", "MemoryHigh=", "MemorySwapMax="];

fn add(context: &Context<'_>, draft: &mut Draft) {
    if context.explain_only_groups_are_short().is_none() {
        return;
    }
    let Some(group) = context.verdict.groups.first().map(|it| it.group.as_str()) else { return };
    let found = RULE.findings.iter().find_map(|id| context.finding(id));
    let raises = |next: &&str| PROPERTIES.iter().any(|property| next.contains(property));
    let commands: Vec<&str> = found
        .iter()
        .flat_map(|finding| &finding.next)
        .filter_map(|next| next.split("  #").next())
        .filter(raises)
        .collect();
    let how = match commands.as_slice() {
        [] => "raise it with the program that made the cgroup".to_owned(),
        commands => format!("run `{}`", commands.join("` or `")),
    };
    let why = format!(
        "how much memory this cgroup may use is the administrator's decision. If its programs need more, {how}; \
         if they should need less, look for the cause with `pagewise doctor`"
    );
    draft.decline(format!("raise the memory limit of {group}"), why);
}
