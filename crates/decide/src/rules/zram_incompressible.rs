// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: devices in compressed RAM mostly contain pages that do not compress.

use pagewise_model::{Bytes, FeatureState, Finding, Interval, Severity, Snapshot, Subject, Zram};

use crate::Rule;
use crate::grade::least_worthwhile;
use crate::proof::EvidenceList;
use crate::text::{count, trigger_command};

pub(super) const RULE: Rule = Rule {
    id: "zram-incompressible",
    doc: "Incompressible pages take more than half of the memory that a zram or zmerge device uses.",
    diagnose,
};

/// If at least this share of the pages, in percent, is incompressible, most of the pool saves
/// nothing.
const SHARE_PERCENT: f64 = 50.0;
/// If a device stores less than this, better compression would hardly save memory.
const WORTH: Bytes = Bytes::new(64 << 20);

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    host.compressed_devices().filter_map(|device| finding(host, device)).collect()
}

fn finding(host: &Snapshot, device: &Zram) -> Option<Finding> {
    let stat = &device.mm_stat;
    let pages = stat.huge_pages.get()?;
    let wasted = pages.to_bytes(host.page_size());
    let taken = stat.memory_used.get()?;
    let share = wasted.percent_of(taken)?.get();
    if share < SHARE_PERCENT || wasted < least_worthwhile(host, WORTH) {
        return None;
    }
    let name = device.name();
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::device(&name)),
        severity: Severity::Warning,
        title: format!("incompressible pages take {share:.1} % of the memory that {name} uses"),
        what: format!(
            "{name} uses {taken} of RAM, and {wasted} of it are taken by {} incompressible pages.",
            count(pages.get())
        ),
        why: "The device stores an incompressible page as it is, so swapping this page costs CPU time and \
              frees no RAM. Incompressible pages usually contain encrypted, compressed or media data; in a \
              swap area on a disk, these pages would take no RAM."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("huge_pages", &stat.huge_pages)
            .named("memory used", &stat.memory_used)
            .named("original", &stat.original)
            .named("backing_dev", &device.backing_device)
            .into_evidence(),
        next: next(host, device),
    })
}

fn next(host: &Snapshot, device: &Zram) -> Vec<String> {
    let writeback = host.capability("zram.writeback");
    let offered = writeback.is_none_or(|can| can.state == FeatureState::Present);
    let backed = device.backing_device.value().is_some_and(|name| name.as_str() != "none");
    let who = "grep VmSwap /proc/[0-9]*/status | sort -k2 -n | tail".to_owned();
    if offered && backed {
        vec![trigger_command("huge", &format!("/sys/block/{}/writeback", device.name())), who]
    } else {
        vec![who]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Pages;

    use super::*;
    use crate::testing::{assert_silent, line, mib, only, with, word};

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| huge_pages(host, 40_000))
    }

    fn huge_pages(host: &mut Snapshot, pages: u64) {
        let stat = &mut host.zram[0].mm_stat;
        stat.huge_pages = line("/sys/block/zram0/mm_stat", 1, Pages::new(pages));
    }

    #[test]
    fn most_of_the_pool_is_stored_as_it_is() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "incompressible pages take 61.0 % of the memory that zram0 uses");
        assert_eq!(
            finding.what,
            "zram0 uses 256.0 MiB of RAM, and 156.2 MiB of it are taken by 40,000 incompressible pages."
        );
        assert_eq!(finding.next.len(), 1);
    }

    #[test]
    fn a_backing_device_can_take_them() {
        let backed = with(|host| {
            huge_pages(host, 40_000);
            host.zram[0].backing_device = word("/sys/block/zram0/backing_dev", "/dev/sda9");
        });
        let command =
            "echo huge | sudo tee /sys/block/zram0/writeback  # writes; once; nothing to undo";
        assert_eq!(only(&RULE, &backed).next[0], command);
    }

    #[test]
    fn few_of_them_or_a_small_pool_are_silent() {
        assert_silent(&RULE, &with(|host| huge_pages(host, 20_000)));
        let small = with(|host| {
            huge_pages(host, 10_000);
            host.zram[0].mm_stat.memory_used = line("/sys/block/zram0/mm_stat", 1, mib(40));
        });
        assert_silent(&RULE, &small);
    }
}
