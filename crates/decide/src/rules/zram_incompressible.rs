// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram devices that are mostly filled with pages that do not compress.

use pagewise_model::{Bytes, FeatureState, Finding, Interval, Severity, Snapshot, Zram};

use crate::Rule;
use crate::proof::Proof;
use crate::text::{count, put};

pub(super) const RULE: Rule = Rule {
    id: "zram-incompressible",
    doc: "More than half of the memory that a zram device takes holds pages that would not compress.",
    look,
};

/// From here on most of the pool gives nothing back.
const SHARE_PERCENT: f64 = 50.0;
/// Below this there is nothing to gain.
const WORTH: Bytes = Bytes::new(64 << 20);

fn look(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    host.zram.iter().filter_map(|device| finding(host, device)).collect()
}

fn finding(host: &Snapshot, device: &Zram) -> Option<Finding> {
    let stat = &device.mm_stat;
    let pages = stat.huge_pages.get()?;
    let wasted = pages.to_bytes(host.page_size());
    let taken = stat.memory_used.get()?;
    let share = wasted.percent_of(taken)?.get();
    if share < SHARE_PERCENT || wasted < WORTH {
        return None;
    }
    let name = device.name();
    Some(Finding {
        id: RULE.id,
        severity: Severity::Warning,
        title: format!("{share:.0} % of what {name} takes will not compress"),
        what: format!(
            "{} pages ({wasted}) of the {taken} that {name} takes are stored as they are.",
            count(pages.get())
        ),
        why: "A page that does not shrink is kept whole, so it takes as much RAM as before and \
              costs CPU time on top. Encrypted, compressed or media data does that: on a disk tier \
              it would free its memory."
            .to_owned(),
        evidence: Proof::new()
            .named("huge_pages", &stat.huge_pages)
            .named("memory used", &stat.memory_used)
            .named("original", &stat.original)
            .named("backing_dev", &device.backing_device)
            .done(),
        next: next(host, device),
    })
}

fn next(host: &Snapshot, device: &Zram) -> Vec<String> {
    let writeback = host.capability("zram.writeback");
    let offered = writeback.is_none_or(|can| can.state == FeatureState::Present);
    let backed = device.backing_device.value().is_some_and(|name| name.as_str() != "none");
    let who = "grep VmSwap /proc/[0-9]*/status | sort -k2 -n | tail".to_owned();
    if offered && backed {
        vec![put("huge", &format!("/sys/block/{}/writeback", device.name())), who]
    } else {
        vec![who]
    }
}
