// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: `max_ptes_none` has its maximum, which disables the kernel's own protection against huge
//! pages that are mostly zeros.
//!
//! The maximum is the kernel's default, so it is reported only if huge pages hold a considerable
//! share of RAM.

use pagewise_model::{Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::write_command;

pub(super) const RULE: Rule = Rule {
    id: "thp-bloat-guard-off",
    doc: "max_ptes_none is at its maximum, so shrink_underused never splits huge pages that are mostly zeros.",
    diagnose,
};

/// If huge pages hold less than this share of RAM, in percent, they cannot waste much.
const WORTH_PERCENT: f64 = 5.0;
/// The kernel's default of `max_ptes_none`: the number of page table entries of a 2 MiB huge page
/// minus one.
const USUAL_LARGEST: u64 = 511;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let thp = &host.thp;
    let none = thp.khugepaged.max_ptes_none.get()?;
    thp.shrink_underused.get().filter(|&on| on)?;
    if none < largest(host) {
        return None;
    }
    let huge = host.memory.anon_huge_pages.get()?;
    let percent = huge.percent_of(host.memory.total.get()?)?.get();
    if percent < WORTH_PERCENT {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!(
            "max_ptes_none = {none}: the kernel never splits huge pages that are mostly zeros"
        ),
        what: format!(
            "Huge pages hold {huge} ({percent:.0} % of RAM). shrink_underused is on, but it has no effect, \
             because max_ptes_none is at its maximum ({none})."
        ),
        why: "If shrink_underused is on and memory is short, the kernel searches huge pages for small pages \
              that contain only zeros. It splits each huge page with more than max_ptes_none such small \
              pages, and frees these small pages. If max_ptes_none is at its maximum, the kernel never \
              splits a huge page for this reason, so memory that is wasted on zeros is never freed."
            .to_owned(),
        evidence: EvidenceList::new()
            .value(&thp.khugepaged.max_ptes_none)
            .value(&thp.shrink_underused)
            .named("AnonHugePages", &host.memory.anon_huge_pages)
            .named("thp_underused_split_page", &host.vmstat.get("thp_underused_split_page"))
            .into_evidence(),
        next: vec![
            write_command(64, "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"),
            "grep thp_underused_split_page /proc/vmstat".to_owned(),
        ],
    })
}

/// Returns the value of `max_ptes_none` that disables the protection: the number of page table
/// entries of a huge page minus one.
fn largest(host: &Snapshot) -> u64 {
    let sizes = host.thp.pmd_size.get().zip(host.host.page_size.get());
    let entries = sizes.and_then(|(huge, page)| huge.get().checked_div(page.get()));
    entries.map_or(USUAL_LARGEST, |entries| entries.saturating_sub(1).max(1))
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Bytes;

    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, line, only, with};

    fn huge(host: &mut Snapshot) {
        host.memory.anon_huge_pages = line("/proc/meminfo", 33, gib(2));
    }

    pub(crate) fn host_with_finding() -> Interval {
        with(huge)
    }

    #[test]
    fn the_default_with_many_huge_pages() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.what,
            "Huge pages hold 2.0 GiB (12 % of RAM). shrink_underused is on, but it has no effect, \
             because max_ptes_none is at its maximum (511)."
        );
    }

    #[test]
    fn the_largest_value_follows_the_page_size() {
        let mut large_pages = host_with_finding();
        large_pages.end.host.page_size = file("/proc/self/auxv", Bytes::new(64 << 10));
        large_pages.end.thp.pmd_size = file("/sys/hpage_pmd_size", Bytes::new(512 << 20));
        assert_silent(&RULE, &large_pages);
    }

    #[test]
    fn a_guard_that_works_or_was_switched_off_or_has_nothing_to_guard() {
        let none = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
        let works = |host: &mut Snapshot| {
            huge(host);
            host.thp.khugepaged.max_ptes_none = file(none, 64);
        };
        assert_silent(&RULE, &with(works));
        let off = |host: &mut Snapshot| {
            huge(host);
            host.thp.shrink_underused = file("/sys/shrink_underused", false);
        };
        assert_silent(&RULE, &with(off));
        assert_silent(&RULE, &calm());
    }
}
