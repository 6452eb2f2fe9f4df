// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the memory controller of cgroup version 1 makes impossible.

use pagewise_model::{Cgroup, Evidence, Finding, Hierarchy, Interval, Severity, Snapshot};

use crate::Rule;
use crate::text::counted;

pub(super) const RULE: Rule = Rule {
    id: "cgroup-v1-limits",
    doc: "Memory is controlled by cgroup version 1 or a hybrid, which lacks what version 2 has.",
    look,
};

fn look(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let layout = match host.cgroups.hierarchy {
        Hierarchy::V1 => "version 1",
        Hierarchy::Hybrid => "version 1 (hybrid: the version 2 tree has no memory in it)",
        Hierarchy::V2 | Hierarchy::None => return None,
    };
    let evidence: Vec<Evidence> = host.cgroups.groups.iter().find_map(proof).into_iter().collect();
    if evidence.is_empty() {
        return None;
    }
    Some(Finding {
        id: RULE.id,
        severity: Severity::Info,
        title: "memory is in cgroup version 1: no pressure per group, no gentle limit".to_owned(),
        what: format!(
            "{} with memory control in {layout}; here no group has memory.pressure, memory.high, \
             memory.reclaim or zswap limits.",
            counted(host.cgroups.groups.len() as u64, "group")
        ),
        why: "Version 1 has no limit that slows a group down before it is killed, and it limits swap \
              only together with memory. Without pressure per group nobody can say who waits for \
              memory, and nothing short of a lower limit takes memory back from a group."
            .to_owned(),
        evidence,
        next: vec![
            "stat --file-system --format=%T /sys/fs/cgroup".to_owned(),
            "cat /proc/cmdline  # systemd.unified_cgroup_hierarchy=1 asks for version 2".to_owned(),
        ],
    })
}

/// A file of version 1 that was read.
fn proof(group: &Cgroup) -> Option<Evidence> {
    group.current.evidence().or_else(|| group.max.evidence())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, only, proof_of, with};

    pub(crate) fn firing() -> Interval {
        with(|host| {
            host.cgroups.hierarchy = Hierarchy::Hybrid;
            let root = &mut host.cgroups.groups[0];
            root.current = file("/sys/fs/cgroup/memory/memory.usage_in_bytes", gib(3));
        })
    }

    #[test]
    fn hybrid_is_version_1_for_memory() {
        let finding = only(&RULE, &firing());
        assert!(finding.what.starts_with("3 groups with memory control in version 1 (hybrid:"));
        let proof = "/sys/fs/cgroup/memory/memory.usage_in_bytes = 3.0 GiB\n";
        assert_eq!(proof_of(&finding), proof);
    }

    #[test]
    fn version_2_and_no_controller_are_silent() {
        assert_silent(&RULE, &calm());
        let none = with(|host| host.cgroups.hierarchy = Hierarchy::None);
        assert_silent(&RULE, &none);
    }
}
