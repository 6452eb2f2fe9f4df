// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: `vm.extfrag_threshold` differs from the kernel's default.
//!
//! If an allocation of several pages fails, the kernel compares this setting with the fragmentation
//! index of a zone, in thousandths. It reclaims if the index is at or below the setting, and
//! compacts if it is above. Source: the kernel's `Documentation/admin-guide/sysctl/vm.rst` and
//! `compaction_suit_allocation_order`.

use pagewise_facts::settings;
use pagewise_model::{Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::mark_writing_with_caution;

pub(super) const RULE: Rule = Rule {
    id: "extfrag-threshold",
    doc: "vm.extfrag_threshold is not at its default, so the kernel compacts memory for huge pages too rarely \
          or too often.",
    diagnose,
};

const KNOB: &str = "vm.extfrag_threshold";
const USUAL: u64 = 500;
/// With this value of `vm.extfrag_threshold` or a higher one the kernel never compacts, because
/// every fragmentation index is below 1000.
const NEVER: u64 = 1000;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let set = settings::number(host, KNOB).filter(|set| set.value != USUAL)?;
    let (value, effect) = (set.value, describe_effect(set.value));
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!("vm.extfrag_threshold is {value}: {effect}"),
        what: format!("vm.extfrag_threshold is {value}, and its default is {USUAL}."),
        why: "When no free block is large enough for an allocation, the kernel compacts memory if the memory \
              zone's fragmentation index (0 to 1000) is above this threshold, and reclaims pages otherwise. \
              Reclaim frees scattered pages and rarely creates a large block; compaction costs CPU time but \
              moves allocated pages together."
            .to_owned(),
        evidence: EvidenceList::new()
            .value(set.live)
            .named("compact_stall", &host.vmstat.get("compact_stall"))
            .into_evidence(),
        next: vec![
            mark_writing_with_caution(
                format!("sudo sysctl {KNOB}={USUAL}"),
                &format!("until the next boot; undo with sudo sysctl {KNOB}={value}"),
            ),
            format!("grep -rs {KNOB} /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d"),
        ],
    })
}

fn describe_effect(value: u64) -> &'static str {
    match value {
        NEVER.. => "allocations never start compaction",
        more if more > USUAL => "the kernel compacts less and reclaims more",
        _ => "the kernel compacts more and reclaims less",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, knob, only, with};

    fn interval_with(value: &str) -> Interval {
        with(|host| knob(host, KNOB, value))
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with("1000")
    }

    #[test]
    fn each_side_has_its_effect() {
        let title = |value| only(&RULE, &interval_with(value)).title;
        assert_eq!(
            title("1000"),
            "vm.extfrag_threshold is 1000: allocations never start compaction"
        );
        assert!(title("750").ends_with("the kernel compacts less and reclaims more"));
        assert!(title("100").ends_with("the kernel compacts more and reclaims less"));
    }

    #[test]
    fn the_kernels_own_is_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &interval_with("500"));
    }
}
