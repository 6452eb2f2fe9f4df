// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: multi-gen LRU protects the working set of the last `min_ttl_ms` milliseconds, and calls
//! the OOM killer if it cannot.
//!
//! The kernel's `Documentation/admin-guide/mm/multigen_lru.rst` says that 1000 ms usually
//! eliminates intolerable janks, and that larger values like 3000 can trigger OOM kills too early.
//! The finding is therefore a warning only for large values.

use pagewise_model::{Finding, Interval, Millis, Severity};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::write_command_with_undo;

pub(super) const RULE: Rule = Rule {
    id: "min-ttl-set",
    doc: "min_ttl_ms of multi-gen LRU is set: the kernel kills a process rather than evict recently used pages.",
    diagnose,
};

/// The largest value of `min_ttl_ms` that the kernel's documentation mentions.
const LONG: Millis = Millis::new(3_000);

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(interval).into_iter().collect()
}

fn finding(interval: &Interval) -> Option<Finding> {
    let mglru = &interval.end.mglru;
    let ttl =
        mglru.min_ttl.get().filter(|&ttl| ttl > Millis::new(0) && mglru.is_on() == Some(true))?;
    let milliseconds = ttl.get();
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if ttl > LONG { Severity::Warning } else { Severity::Info },
        title: format!("the kernel kills a process rather than evict pages used in the last {milliseconds} ms"),
        what: format!(
            "min_ttl_ms of multi-gen LRU is {milliseconds}. If the kernel needs memory and every page was used \
             within the last {milliseconds} ms, it kills a process instead of reclaiming pages."
        ),
        why: "With a min_ttl_ms of 1000, a desktop stays responsive, because the kernel keeps the pages that \
              were used in the last second and ends thrashing by killing a process. With a larger min_ttl_ms, \
              a short burst of work can cause a kill while swap still has room; the kernel's documentation \
              warns of premature OOM kills with values such as 3000."
            .to_owned(),
        evidence: EvidenceList::new().value(&mglru.min_ttl).value(&mglru.enabled).into_evidence(),
        next: vec![
            write_command_with_undo(
                0,
                milliseconds,
                "/sys/kernel/mm/lru_gen/min_ttl_ms",
                "until the next boot",
            ),
            "grep -rs min_ttl_ms /etc/tmpfiles.d /run/tmpfiles.d /usr/lib/tmpfiles.d".to_owned(),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, file, only, with};

    fn interval_with(milliseconds: u64) -> Interval {
        with(|host| {
            host.mglru.min_ttl =
                file("/sys/kernel/mm/lru_gen/min_ttl_ms", Millis::new(milliseconds));
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with(1_000)
    }

    #[test]
    fn as_documented_it_is_worth_knowing_and_longer_a_warning() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.title,
            "the kernel kills a process rather than evict pages used in the last 1000 ms"
        );
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(only(&RULE, &interval_with(3_000)).severity, Severity::Info);
        assert_eq!(only(&RULE, &interval_with(3_001)).severity, Severity::Warning);
    }

    #[test]
    fn off_is_silent_and_so_is_a_kernel_that_does_not_use_it() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &interval_with(0));
        let mut classic = host_with_finding();
        classic.end.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 0);
        assert_silent(&RULE, &classic);
    }
}
