// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strict overcommit accounting is about to refuse allocations.

use pagewise_model::{Finding, Interval, Level, Severity, Snapshot};

use crate::Rule;
use crate::grade::commit::{self, NearLimit};
use crate::proof::EvidenceList;
use crate::text::writes_and;

pub(super) const RULE: Rule = Rule {
    id: "commit-limit",
    doc: "vm.overcommit_memory is 2 and committed memory is near the commit limit, at which allocations fail \
          even if memory is free.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let near = commit::near_limit(&interval.end);
    near.map(|near| finding(&interval.end, &near)).into_iter().collect()
}

fn finding(host: &Snapshot, near: &NearLimit<'_>) -> Finding {
    let available = host.memory.available.get();
    let available = available
        .map_or_else(String::new, |it| format!(", even though {it} of memory are available"));
    Finding {
        id: RULE.id,
        severity: if near.level >= Level::Short { Severity::Critical } else { Severity::Warning },
        title: format!("committed memory has reached {:.0} % of the commit limit", near.share.get().floor()),
        what: format!(
            "Programs have committed {} of memory, and the commit limit is {} (vm.overcommit_memory is 2). Beyond \
             this limit, allocations fail{available}.",
            near.committed, near.limit
        ),
        why: "With vm.overcommit_memory = 2, the kernel counts the memory that programs have requested, not \
              what they use, and refuses every request beyond the limit: malloc and fork fail. The commit \
              limit is the size of swap plus either a share of RAM (vm.overcommit_ratio) or a fixed amount \
              (vm.overcommit_kbytes)."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("Committed_AS", &host.memory.committed)
            .named("CommitLimit", &host.memory.commit_limit)
            .value(near.mode)
            .named("MemAvailable", &host.memory.available)
            .into_evidence(),
        next: vec![
            "grep -E 'Commit|MemAvailable|SwapTotal' /proc/meminfo".to_owned(),
            writes_and(
                "sudo sysctl vm.overcommit_memory=0",
                "until the next boot; undo with sudo sysctl vm.overcommit_memory=2",
            ),
        ],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Bytes;

    use super::*;
    use crate::testing::{assert_silent, calm, gib, knob, line, mib, only, with};

    fn strict(host: &mut Snapshot, committed: Bytes) {
        knob(host, "vm.overcommit_memory", "2");
        host.memory.commit_limit = line("/proc/meminfo", 32, gib(12));
        host.memory.committed = line("/proc/meminfo", 33, committed);
    }

    pub(crate) fn firing() -> Interval {
        with(|host| strict(host, mib(12_000)))
    }

    #[test]
    fn near_the_limit_with_memory_available() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "committed memory has reached 97 % of the commit limit");
        assert!(
            finding.what.contains("even though 9.0 GiB of memory are available"),
            "{}",
            finding.what
        );
    }

    #[test]
    fn in_other_modes_the_limit_means_nothing() {
        let mut interval = firing();
        knob(&mut interval.end, "vm.overcommit_memory", "0");
        assert_silent(&RULE, &interval);
        assert_silent(&RULE, &with(|host| strict(host, gib(8))));
        assert_silent(&RULE, &calm());
    }
}
