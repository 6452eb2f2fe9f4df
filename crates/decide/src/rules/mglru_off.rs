// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: multi-gen LRU is built into this kernel but switched off.

use pagewise_facts::reclaim;
use pagewise_model::{Finding, Interval, Severity};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count, write_command};

pub(super) const RULE: Rule = Rule {
    id: "mglru-off",
    doc: "This kernel has multi-gen LRU, but multi-gen LRU is off.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let bits = host.mglru.enabled.get()?;
    if host.mglru.is_on()? {
        return None;
    }
    let scanned = reclaim::pages_scanned_anywhere(host);
    let so_far = scanned.as_ref().map_or_else(String::new, |scanned| {
        format!("; the classic LRU scanned {} pages since boot", count(scanned.count))
    });
    let proof = EvidenceList::new().value(&host.mglru.enabled);
    let proof = match scanned {
        Some(scanned) => {
            proof.note(&scanned.source, format!("{} {} since boot", scanned.names, scanned.count))
        }
        None => proof,
    };
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: "multi-gen LRU is available but off".to_owned(),
        what: format!("/sys/kernel/mm/lru_gen/enabled is {bits:#06x}: bit 0 is not set, so multi-gen LRU is \
                       off{so_far}."),
        why: "Multi-gen LRU sorts pages by age into several generations, whereas the classic LRU has only an \
              active and an inactive list. In trials by the authors of Pagewise, multi-gen LRU had to scan \
              only a third to a half as many pages as the classic LRU for each page that it reclaimed. These \
              trials did not show that programs run faster, so measure the effect on your own workload."
            .to_owned(),
        evidence: proof.into_evidence(),
        next: vec![
            write_command("y", "/sys/kernel/mm/lru_gen/enabled"),
            "grep -E 'pgscan|pgsteal' /proc/vmstat".to_owned(),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, erase, file, only, set_knob, with};

    pub(crate) fn host_with_finding() -> Interval {
        with(|host| host.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 0))
    }

    #[test]
    fn built_in_and_off() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.what,
            "/sys/kernel/mm/lru_gen/enabled is 0x0000: bit 0 is not set, so multi-gen LRU is off; the \
             classic LRU scanned 900,100 pages since boot."
        );
    }

    #[test]
    fn what_cgroups_scanned_counts_too() {
        let interval = with(|host| {
            host.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 0);
            set_knob(host, "pgscan_anon", 1_000_000);
            set_knob(host, "pgscan_file", 234);
        });
        assert!(only(&RULE, &interval).what.contains("scanned 1,000,234 pages"));
    }

    #[test]
    fn on_or_not_built_in_is_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &with(|host| erase(&mut host.mglru.enabled)));
    }
}
