// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: configuration files contradict each other. A plan cannot know which value is intended, so
//! it declines the change and says so.

use super::PlanRule;
use crate::context::Context;
use crate::draft::Draft;

pub(super) const RULE: PlanRule = PlanRule {
    id: "owners",
    findings: &["settings-differ", "managers-fight", "generator-parameters", "hibernation-zram"],
    doc: "Names settings that two files or programs disagree about; which one is meant is not known.",
    add,
};

fn add(context: &Context<'_>, draft: &mut Draft) {
    let known = |id: &str| RULE.findings.contains(&id);
    for finding in context.findings.iter().filter(|finding| known(finding.id)) {
        // the plan sets this value itself, both the running value and a file
        if draft.granted.iter().any(|it| finding.what.contains(&*it.knob)) {
            continue;
        }
        let next = finding.next.first().map_or("", String::as_str);
        let why = match finding.id {
            "settings-differ" => "which of the values is right is the administrator's decision",
            "managers-fight" => {
                "which of the two has to be disabled is the administrator's decision"
            }
            "generator-parameters" => {
                "only the first algorithm can have a level, unless a newer zram-generator is installed"
            }
            _ => "hibernation needs a swap area on a disk, which a plan does not create",
        };
        let reason = format!("{why}. The first step that the finding suggests: {next}");
        // a title that was too long for a line was shortened
        let is_cut = finding.title.ends_with('…');
        let subject = if is_cut { finding.what.trim_end_matches('.') } else { &finding.title };
        draft.decline(format!("fix {}: {subject}", finding.id), reason);
    }
}
