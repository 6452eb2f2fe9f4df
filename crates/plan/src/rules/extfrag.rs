// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: resets `vm.extfrag_threshold` to the kernel's default, and enables proactive compaction if
//! tasks stall on compaction.

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};

pub(super) const RULE: PlanRule = PlanRule {
    id: "compaction",
    findings: &["extfrag-threshold", "fragmentation"],
    doc: "Sets when the kernel compacts memory (vm.extfrag_threshold, vm.compaction_proactiveness).",
    add,
};

const THRESHOLD: &str = "vm.extfrag_threshold";
const PROACTIVE: &str = "vm.compaction_proactiveness";

fn add(context: &Context<'_>, draft: &mut Draft) {
    let rows = [
        (
            "extfrag-threshold",
            THRESHOLD,
            "extfrag-threshold",
            "allocations of huge pages then compact and reclaim \
          as much as by default, which can be more or less than now",
        ),
        ("fragmentation", PROACTIVE, "compaction-proactiveness", "kcompactd takes more CPU time"),
    ];
    for (finding, knob, id, risk) in rows {
        let Some(to) = context.advised_sysctl(finding, knob) else { continue };
        let found = context.finding(finding);
        let reason =
            found.map(|it| format!("{} {}", it.what, first_sentence(&it.why))).unwrap_or_default();
        let risk = risk.to_owned();
        draft.set(
            context,
            SettingRequest {
                id: id.into(),
                knob: knob.into(),
                to,
                reason,
                finding: Some(finding),
                expected: None,
                risk,
            },
        );
    }
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| &text[..=first.len()])
}
