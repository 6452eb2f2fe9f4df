// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: declines to protect cgroups (`memory.low`), because the protection takes memory from other
//! cgroups, and no measurement shows which of them is more important.
//!
//! A drop-in with `MemoryLow=` and `systemctl daemon-reload` would not have been sufficient either:
//! systemd 257 then reports the new value, but `memory.low` of the running cgroup remains 0.
//! `systemctl set-property` sets both.

use super::PlanRule;
use crate::context::Context;
use crate::draft::Draft;

pub(super) const RULE: PlanRule = PlanRule {
    id: "protection",
    findings: &[],
    doc: "Changes nothing; names the commands that protect a cgroup in which protection has no effect, or that keeps swapping pages in.",
    add,
};

const IDS: [&str; 2] = ["swap-heavy-group", "protection-limited"];

fn add(context: &Context<'_>, draft: &mut Draft) {
    let Some(finding) = IDS.iter().find_map(|id| context.finding(id)) else { return };
    let groups = &context.host.cgroups.groups;
    let has_command = finding.next.iter().any(|next| next.contains("set-property"));
    let how = if has_command {
        "pagewise doctor has the command, and the one that takes it back".to_owned()
    } else if groups.iter().all(|it| it.low.get().is_none()) {
        "cgroup version 1, which this host has, has no such protection".to_owned()
    } else {
        "no command is given, because it would be for a whole slice, or this cgroup has enough protection already \
         or is not a unit of the system's systemd"
            .to_owned()
    };
    let why = format!(
        "{} Protection keeps its memory in RAM and takes the memory from other cgroups, and no measurement tells \
         which of them matters more; {how}",
        finding.what
    );
    draft.decline("protect a cgroup (memory.low)", why);
}
