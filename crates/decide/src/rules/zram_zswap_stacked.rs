// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: zswap compresses pages before they are written to a zram or zmerge device, which
//! compresses them again.

use pagewise_facts::tiers;
use pagewise_model::{Driver, Finding, Interval, Severity, TierKind};

use crate::Rule;
use crate::commands;
use crate::proof::EvidenceList;
use crate::text::write_command;

pub(super) const RULE: Rule = Rule {
    id: "zram-zswap-stacked",
    doc: "zswap is on while a zram or zmerge device is used as swap, so the kernel compresses pages twice.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let zswap = &host.zswap;
    zswap.enabled.get().filter(|&on| on)?;
    let tier = tiers::in_ram(host).next()?;
    let held = match (zswap.stored.get(), tier.used.get()) {
        (Some(stored), Some(used)) => format!(
            ". {used} of swap are in use there, but zswap holds {stored} of swapped pages itself"
        ),
        _ => String::new(),
    };
    let driver = if tier.kind == TierKind::Zmerge { Driver::Zmerge } else { Driver::Zram }.name();
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!("zswap is on in front of {driver}, so the kernel compresses pages twice"),
        what: format!("zswap is on, and {} is used as swap{held}.", tier.path),
        why: format!(
            "zswap compresses every page that is swapped out and keeps it in RAM; when its pool is full (or \
             earlier, if its shrinker is on), zswap decompresses the coldest pages and writes them to the \
             swap area. If the swap area is a {driver} device, the device compresses these pages a second \
             time."
        ),
        evidence: EvidenceList::new()
            .value(&zswap.enabled)
            .named("Zswapped", &zswap.stored)
            .named("Zswap", &zswap.pool)
            .named(&format!("{} used", tier.path), &tier.used)
            .named("priority", &tier.priority)
            .into_evidence(),
        next: [
            write_command("N", "/sys/module/zswap/parameters/enabled"),
            "grep -r . /sys/module/zswap/parameters".to_owned(),
        ]
        .into_iter()
        .chain(commands::open_trial(interval))
        .collect(),
    })
}

#[cfg(test)]
#[path = "../../tests/rules/zram_zswap_stacked.rs"]
pub(super) mod tests;
