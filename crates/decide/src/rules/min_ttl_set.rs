// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MGLRU protects a working set of some age, and calls the OOM killer when it cannot.
//!
//! The kernel's `Documentation/admin-guide/mm/multigen_lru.rst` says that 1000 ms usually remove
//! intolerable janks, and that larger values like 3000 bring premature OOM kills with them. Hence the
//! threshold of the warning.

use pagewise_model::{Finding, Interval, Millis, Severity};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::put;

pub(super) const RULE: Rule = Rule {
    id: "min-ttl-set",
    doc: "lru_gen's min_ttl_ms is set: rather than evict a recent working set the kernel kills.",
    diagnose,
};

/// Larger than the largest that the kernel's documentation names.
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
        severity: if ttl > LONG { Severity::Warning } else { Severity::Info },
        title: format!("memory used within {milliseconds} ms is protected by the OOM killer"),
        what: format!(
            "lru_gen's min_ttl_ms is {milliseconds}: if all memory was used more recently than that, \
             the kernel kills a process instead of reclaiming."
        ),
        why: "A desktop stays responsive if the working set of the last second is kept, and a kill \
              ends the thrashing. With longer times a short burst of work is enough for a kill while \
              swap still has room; the kernel's documentation goes up to 3000."
            .to_owned(),
        evidence: EvidenceList::new().value(&mglru.min_ttl).value(&mglru.enabled).done(),
        next: vec![
            format!(
                "{}; back with {milliseconds}",
                put(0, "/sys/kernel/mm/lru_gen/min_ttl_ms")
            ),
            "grep -rs min_ttl_ms /etc/tmpfiles.d /run/tmpfiles.d /usr/lib/tmpfiles.d".to_owned(),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, file, only, with};

    fn protected(milliseconds: u64) -> Interval {
        with(|host| {
            host.mglru.min_ttl =
                file("/sys/kernel/mm/lru_gen/min_ttl_ms", Millis::new(milliseconds));
        })
    }

    pub(crate) fn firing() -> Interval {
        protected(1_000)
    }

    #[test]
    fn as_documented_it_is_worth_knowing_and_longer_a_warning() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.title, "memory used within 1000 ms is protected by the OOM killer");
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(only(&RULE, &protected(3_000)).severity, Severity::Info);
        assert_eq!(only(&RULE, &protected(3_001)).severity, Severity::Warning);
    }

    #[test]
    fn off_is_silent_and_so_is_a_kernel_that_does_not_use_it() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &protected(0));
        let mut classic = firing();
        classic.end.mglru.enabled = file("/sys/kernel/mm/lru_gen/enabled", 0);
        assert_silent(&RULE, &classic);
    }
}
