// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap in front of zram: off.

use super::PlanRule;
use crate::context::Context;
use crate::draft::{Draft, Wish};

pub(super) const RULE: PlanRule = PlanRule {
    id: "zswap",
    findings: &["zram-zswap-stacked"],
    doc: "Switches zswap off where zram is used as swap.",
    add,
};

const ID: &str = "zram-zswap-stacked";

fn add(context: &Context<'_>, draft: &mut Draft) {
    let path = "/sys/module/zswap/parameters/enabled";
    let is_on = context.host.zswap.enabled.get() == Some(true);
    let first = draft.first_zram.is_some() && is_on;
    let Some(to) = context.advised_write(ID, path).or_else(|| first.then(|| "N".to_owned())) else {
        return;
    };
    let stored = context.host.zswap.stored.get().unwrap_or_default();
    if context.tiers_on_disk().next().is_some() {
        let why = format!(
            "there is also swap on a disk, for which zswap is meant, and zswap holds {stored} now. Use only \
             one of the two: zswap in front of the disk, or zram"
        );
        return draft.decline("switch zswap off", why);
    }
    let wish = Wish {
        id: "zswap".into(),
        knob: "zswap.enabled".into(),
        to,
        reason: format!(
            "zswap is on and all swap is zram, so the kernel compresses pages twice; zswap holds {stored} now."
        ),
        finding: context.finding(ID).map(|_| ID),
        expected: None,
        risk: "pages that zswap holds stay there until they are used or swap is switched off"
            .to_owned(),
    };
    draft.set(context, wish);
}
