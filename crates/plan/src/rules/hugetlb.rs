// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: frees unused pages of hugetlb pools, only if the goal is to save memory.

use pagewise_model::plan::Goal;

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};

pub(super) const RULE: PlanRule = PlanRule {
    id: "hugetlb",
    findings: &["hugetlb-unused"],
    doc: "Gives unused pages of a hugetlb pool back.",
    add,
};

const ID: &str = "hugetlb-unused";
/// The file of the hugetlb pool that `vm.nr_hugepages` controls on most machines.
const DEFAULT_POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

fn add(context: &Context<'_>, draft: &mut Draft) {
    let Some(finding) = context.finding(ID) else { return };
    let command = finding.next.first().map_or("", String::as_str);
    let what = format!("give unused huge pages back: {}", finding.title);
    if context.goal != Goal::Ratio {
        let why = format!(
            "a program that is not running now may need the pool, and later the kernel may not find enough \
             free blocks to fill it again. If no program needs it: {command}"
        );
        return draft.decline(what, why);
    }
    let Some(to) = context.advised_write(ID, DEFAULT_POOL) else {
        let why = format!("a plan sets only the pool of 2 MiB pages. For this pool: {command}");
        return draft.decline(what, why);
    };
    let request = SettingRequest {
        id: "hugetlb".into(),
        knob: "vm.nr_hugepages".into(),
        expected: None,
        to,
        reason: format!(
            "{} The goal is ratio, so the plan frees memory that nothing uses now.",
            finding.what
        ),
        finding: Some(ID),
        risk: "a program that starts later and needs the pool fails, and the kernel may not find enough free \
               blocks to fill the pool again"
            .to_owned(),
    };
    draft.set(context, request);
}
