// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: with cgroups of version 1, a cgroup's own swappiness overrides `vm.swappiness` for its
//! processes.
//!
//! When a cgroup is created, it copies the swappiness of its parent; a child of the root copies
//! `vm.swappiness` (`mem_cgroup_css_alloc` in `mm/memcontrol.c`). A value that sysctl sets later,
//! at boot or by hand, applies only to processes in the root cgroup (`mem_cgroup_swappiness` in
//! `include/linux/swap.h`). Cgroup version 2 has no swappiness of its own.

use pagewise_facts::settings;
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::proof::EvidenceList;
use crate::text::{count_of, shorten_group, write_command_with_undo};

pub(super) const RULE: Rule = Rule {
    id: "group-swappiness",
    doc: "With cgroups of version 1, most memory belongs to cgroups whose own swappiness differs from vm.swappiness, so \
          that vm.swappiness has hardly any effect.",
    diagnose,
};

/// There is a finding if groups with another swappiness hold at least this share of the memory in
/// cgroups, in percent.
const MOST_PERCENT: f64 = 50.0;
/// A smaller difference than this hardly changes what the kernel does.
const WORTH: u64 = 10;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let set = settings::number(host, "vm.swappiness")?;
    let is_top = |group: &&Cgroup| {
        let path = group.path.as_str();
        path != "/" && path.matches('/').count() == 1
    };
    let tops: Vec<&Cgroup> = host.cgroups.groups.iter().filter(is_top).collect();
    let used = |group: &Cgroup| group.current.get().unwrap_or_default();
    let all: Bytes = tops.iter().map(|group| used(group)).sum();
    let own = |group: &&Cgroup| {
        group.swappiness.get().is_some_and(|own| own.abs_diff(set.value) >= WORTH)
    };
    let differing: Vec<&Cgroup> = tops.into_iter().filter(own).collect();
    let theirs: Bytes = differing.iter().map(|group| used(group)).sum();
    theirs.percent_of(all).filter(|share| share.get() >= MOST_PERCENT)?;
    let largest = *differing.iter().max_by_key(|group| used(group))?;
    let value = largest.swappiness.get()?;
    let path = largest.path.as_str();
    let others = match differing.len() - 1 {
        0 => String::new(),
        others => format!(" The same holds for {}.", count_of(others as u64, "other cgroup")),
    };
    let file = largest.swappiness.source.path();
    let caution = format!("for {path} alone, not for what is below it; until the next boot");
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!(
            "vm.swappiness is {}, but {} has its own: {value}",
            set.value,
            shorten_group(path)
        ),
        what: format!(
            "vm.swappiness is {}, but memory.swappiness of {path}, which uses {}, is {value}, and the kernel uses that \
             for its processes.{others}",
            set.value,
            used(largest)
        ),
        why: "With cgroups of version 1, each cgroup has a swappiness of its own, which it copies from its parent when \
              it is created. A value that sysctl sets later reaches only processes in the root cgroup. A cgroup below \
              keeps its own value, too."
            .to_owned(),
        evidence: EvidenceList::new()
            .value(set.live)
            .named("swappiness", &largest.swappiness)
            .named("current", &largest.current)
            .into_evidence(),
        next: vec![
            write_command_with_undo(set.value, value, file, &caution),
            "grep -r . /sys/fs/cgroup/memory --include=memory.swappiness -s | head -40".to_owned(),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Reading;

    use super::*;
    use crate::testing::{assert_silent, calm, file, mib, only, with};

    fn interval_with(own: u64, used: u64) -> Interval {
        with(|host| {
            for group in &mut host.cgroups.groups {
                group.swappiness = Reading::not_read();
            }
            let slice = &mut host.cgroups.groups[1];
            let folder = "/sys/fs/cgroup/memory/system.slice";
            slice.swappiness = file(&format!("{folder}/memory.swappiness"), own);
            slice.current = file(&format!("{folder}/memory.usage_in_bytes"), mib(used));
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with(0, 4000)
    }

    #[test]
    fn the_swappiness_of_the_largest_group_is_named_and_can_be_set() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "vm.swappiness is 60, but /system.slice has its own: 0");
        assert!(finding.what.contains("which uses 3.9 GiB, is 0"), "{}", finding.what);
        assert_eq!(
            finding.next[0],
            "echo 60 | sudo tee /sys/fs/cgroup/memory/system.slice/memory.swappiness  # writes; for /system.slice \
             alone, not for what is below it; until the next boot; undo with echo 0 | sudo tee \
             /sys/fs/cgroup/memory/system.slice/memory.swappiness"
        );
    }

    #[test]
    fn equal_or_nearly_equal_values_and_version_2_are_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &interval_with(60, 4000));
        assert_silent(&RULE, &interval_with(51, 4000));
    }
}
