// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: declines to enable multi-gen LRU if it is off, and resets a long `min_ttl_ms`.

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, SettingRequest};
use pagewise_model::Severity;

pub(super) const RULE: PlanRule = PlanRule {
    id: "mglru",
    findings: &["mglru-off", "min-ttl-set"],
    doc: "Sets how multi-gen LRU protects pages in use (min_ttl_ms).",
    add,
};

const TTL: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";

fn add(context: &Context<'_>, draft: &mut Draft) {
    if context.finding("mglru-off").is_some() {
        let why = "in trials by the authors of Pagewise, it scanned fewer pages but made no program faster, \
                   and in a small cgroup on Linux 6.12 and 7.2 it dropped code in use and kept unused data. \
                   Try it with `pagewise trial` and your own command";
        draft.decline("switch multi-gen LRU on", why);
    }
    let Some(finding) = context.finding("min-ttl-set") else { return };
    let Some(to) = context.advised_write("min-ttl-set", TTL) else { return };
    if finding.severity < Severity::Warning {
        let why = "somebody set the present value, and it is not too long: with it, the kernel ends \
                   thrashing by killing a process, as the kernel's documentation describes";
        return draft.decline(format!("mglru.min_ttl_ms = {to}"), why);
    }
    let request = SettingRequest {
        id: "min-ttl".into(),
        knob: "mglru.min_ttl_ms".into(),
        to,
        reason: finding.what.clone(),
        finding: Some("min-ttl-set"),
        expected: None,
        risk: "if the machine thrashes, the kernel no longer ends this by killing a process"
            .to_owned(),
    };
    draft.set(context, request);
}
