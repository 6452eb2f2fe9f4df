// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: resets `vm.min_free_kbytes` and `vm.watermark_scale_factor` if they are extreme.

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};
use crate::expect::expect_watermarks;

pub(super) const RULE: PlanRule = PlanRule {
    id: "watermarks",
    findings: &["watermarks-extreme"],
    doc: "Sets how much memory reclaim keeps free (vm.min_free_kbytes, vm.watermark_scale_factor).",
    add,
};

const ID: &str = "watermarks-extreme";
const MIN_FREE: &str = "vm.min_free_kbytes";
const SCALE: &str = "vm.watermark_scale_factor";

fn add(context: &Context<'_>, draft: &mut Draft) {
    // there is a separate finding for each of the two settings
    let what = |knob: &str| {
        let found = context.findings.iter().find(|it| it.id == ID && it.what.contains(knob));
        found.map_or("", |it| it.what.as_str())
    };
    let advised = [MIN_FREE, SCALE].map(|knob| context.advised_sysctl(ID, knob));
    let [min_free, scale] = advised.each_ref().map(Option::as_deref);
    let expected = expect_watermarks(context.host, min_free, scale);
    let [min_free, scale] = advised;
    if let Some(to) = min_free {
        let risk =
            "if huge pages are switched on, khugepaged raises it again, to at most 5 % of RAM";
        let reason =
            format!("{} {to} is the kernel's default for this amount of RAM.", what(MIN_FREE));
        let request = request("min-free", MIN_FREE, to, reason, risk);
        draft.set(context, SettingRequest { expected: expected.clone(), ..request });
    }
    if let Some(to) = scale {
        let risk = "in a burst of allocations, programs may have to reclaim pages themselves";
        let reason =
            format!("{} With {to}, it starts at 1 % of memory and stops at 2 %.", what(SCALE));
        let request = request("watermark-scale", SCALE, to, reason, risk);
        draft.set(context, SettingRequest { expected, ..request });
    }
}

fn request(
    id: &'static str,
    knob: &'static str,
    to: String,
    reason: String,
    risk: &str,
) -> SettingRequest {
    let (id, knob) = (id.into(), knob.into());
    SettingRequest {
        id,
        knob,
        to,
        reason,
        finding: Some(ID),
        expected: None,
        risk: risk.to_owned(),
    }
}
