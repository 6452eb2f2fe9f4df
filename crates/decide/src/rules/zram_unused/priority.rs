// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk tier that is not full is filled first.

use pagewise_model::{Bytes, Finding, Severity, Snapshot, Tier};

use super::{Case, RULE, holds_nothing};
use crate::facts::{pressure, tiers};
use crate::text::{short, writes};

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    let own = case.tier?.priority.get()?;
    let (disk, priority) = first_on_disk(host)?;
    if priority <= own || tiers::is_full(disk)? {
        return None;
    }
    let name = case.device.name();
    let (used, size) = (disk.used.get()?, disk.size.get()?);
    Some(Finding {
        id: RULE.id,
        severity: severity(host, used),
        title: format!("{name} is never used: {} is filled first", short(disk.path.as_str())),
        what: format!(
            "{} has priority {priority} and is not full ({used} of {size}); {name} has priority \
             {own} and holds nothing.",
            disk.path
        ),
        why: "The kernel fills the swap tier with the highest priority until it is full, and only \
              then the next. Behind a disk compressed RAM waits for a day that may never come, \
              while every page pays the disk's time."
            .to_owned(),
        evidence: holds_nothing(case)
            .named("priority", &case.tier?.priority)
            .named(&format!("{} priority", disk.path), &disk.priority)
            .named(&format!("{} used", disk.path), &disk.used)
            .named("some avg60", &host.psi.memory.some.avg60)
            .done(),
        next: next(&name, priority),
    })
}

fn first_on_disk(host: &Snapshot) -> Option<(&Tier, i32)> {
    let known = tiers::on_disk(host).filter_map(|tier| Some((tier, tier.priority.get()?)));
    known.max_by_key(|&(_, priority)| priority)
}

fn severity(host: &Snapshot, on_disk: Bytes) -> Severity {
    match pressure::level(&host.psi) {
        Some(_) if on_disk > Bytes::new(0) => Severity::Critical,
        _ => super::severity(host),
    }
}

/// The device is empty, so that switching it off and on again moves nothing.
fn next(name: &str, above: i32) -> Vec<String> {
    let look = "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned();
    // 32767 is the highest priority that swapon takes
    match above.checked_add(1).filter(|&priority| priority <= i32::from(i16::MAX)) {
        None => vec![look],
        Some(above) => {
            let priority = above.max(100);
            let command =
                format!("sudo swapoff /dev/{name} && sudo swapon -p {priority} /dev/{name}");
            vec![writes(command), look]
        }
    }
}
