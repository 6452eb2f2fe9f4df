// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: cgroups hold memory and do nothing. They are frozen, or they are deleted and the kernel
//! still keeps them.

use pagewise_facts::groups::is_below;
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Severity, Snapshot, Subject};

use crate::Rule;
use crate::grade::stranded;
use crate::proof::EvidenceList;
use crate::text::{count, quoted, shorten_group};

pub(super) const RULE: Rule = Rule {
    id: "groups-idle",
    doc: "A frozen cgroup holds much memory, or the kernel keeps many deleted cgroups.",
    diagnose,
};

/// Minimum share of RAM, in percent, in a frozen group for a finding.
const WORTH_PERCENT: f64 = 10.0;
/// Number of deleted groups from which on the kernel's memory for them may be considerable. The
/// number is a judgement: how much the kernel keeps for each group depends on the number of CPUs.
const MANY_DYING: u64 = 2_000;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    [find_frozen(host), find_dying(host)].into_iter().flatten().collect()
}

/// Returns the finding about the frozen group with the most memory. If it is inside another frozen
/// group, that one is reported.
fn find_frozen(host: &Snapshot) -> Option<Finding> {
    let total = host.memory.total.get()?;
    let all = host.cgroups.groups.iter().filter(|group| group.frozen.get() == Some(true));
    let all: Vec<&Cgroup> = all.collect();
    let is_top = |group: &&&Cgroup| !all.iter().any(|other| is_below(group, other));
    let held = |group: &Cgroup| group.current.get().unwrap_or_default();
    let group = *all.iter().filter(is_top).max_by_key(|group| held(group))?;
    let size = held(group);
    size.percent_of(total).filter(|share| share.get() >= WORTH_PERCENT)?;
    let path = group.path.as_str();
    let folder = group.current.source.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let swapped = group.swap_current.get().filter(|size| *size > Bytes::new(0));
    let swapped = swapped.map_or_else(String::new, |size| format!(", and {size} in swap"));
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part("frozen")),
        severity: stranded::severity(host, size),
        title: format!("{} is frozen and holds {size}", shorten_group(path)),
        what: format!(
            "All tasks of the cgroup {path} are stopped, and it holds {} of RAM{swapped}.",
            size.part_of(total)
        ),
        why: "Somebody froze the cgroup: systemctl freeze, docker pause, or a write to cgroup.freeze. Its tasks neither \
              run nor give memory back until it is thawed, although the kernel can still swap and drop its pages."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("frozen", &group.frozen)
            .named("current", &group.current)
            .named("MemTotal", &host.memory.total)
            .into_evidence(),
        next: vec![
            format!("grep . {0}/cgroup.freeze {0}/cgroup.events", quoted(folder)),
            format!("head -20 {}/cgroup.procs", quoted(folder)),
        ],
    })
}

fn find_dying(host: &Snapshot) -> Option<Finding> {
    let dying = host.cgroups.dying.get().filter(|dying| *dying >= MANY_DYING)?;
    let percpu = host.memory.percpu.get();
    let percpu = percpu.map_or_else(String::new, |size| format!("; per-CPU memory is {size}"));
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Info,
        title: format!("the kernel still keeps {} deleted cgroups", count(dying)),
        what: format!(
            "{} cgroups were deleted while memory was charged to them, and the kernel keeps them until the last page \
             of each is gone{percpu}.",
            count(dying)
        ),
        why: "Page cache and shmem stay charged to the cgroup that read or wrote them first, even after it was deleted. \
              Until the kernel reclaims these pages, it keeps the cgroup with its per-CPU counters, and reclaim has to \
              visit it. Services or containers that are restarted all the time make many of them."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("nr_dying_descendants", &host.cgroups.dying)
            .named("Percpu", &host.memory.percpu)
            .into_evidence(),
        next: vec![
            "grep -s dying /sys/fs/cgroup/cgroup.stat /sys/fs/cgroup/*/cgroup.stat".to_owned(),
            "grep Percpu /proc/meminfo".to_owned(),
        ],
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, line, only, with};

    const GROUP: &str = "/sys/fs/cgroup/system.slice/db.service";

    pub(crate) fn host_with_frozen_finding() -> Interval {
        with(|host| {
            let group = &mut host.cgroups.groups[2];
            group.frozen = line(&format!("{GROUP}/cgroup.events"), 2, true);
            group.current = file(&format!("{GROUP}/memory.current"), gib(2));
        })
    }

    pub(crate) fn host_with_dying_finding() -> Interval {
        with(|host| host.cgroups.dying = line("/sys/fs/cgroup/cgroup.stat", 2, 12_000))
    }

    #[test]
    fn a_frozen_group_is_named_with_what_it_holds() {
        let finding = only(&RULE, &host_with_frozen_finding());
        assert_eq!(finding.title, "/system.slice/db.service is frozen and holds 2.0 GiB");
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(finding.next[1], format!("head -20 {GROUP}/cgroup.procs"));
        let mut much = host_with_frozen_finding();
        much.end.cgroups.groups[2].current = file(&format!("{GROUP}/memory.current"), gib(6));
        assert_eq!(only(&RULE, &much).severity, Severity::Warning);
    }

    #[test]
    fn deleted_groups_are_told_where_there_are_many() {
        let finding = only(&RULE, &host_with_dying_finding());
        assert_eq!(finding.title, "the kernel still keeps 12,000 deleted cgroups");
    }

    #[test]
    fn what_runs_is_small_or_not_known_is_no_trouble() {
        assert_silent(&RULE, &calm());
        let changes: [fn(&mut Snapshot); 3] = [
            |host| host.cgroups.groups[2].frozen = line(GROUP, 2, false),
            |host| host.cgroups.groups[2].frozen = pagewise_model::Reading::not_read(),
            |host| host.cgroups.groups[2].current = file(GROUP, gib(1)),
        ];
        for change in changes {
            let mut interval = host_with_frozen_finding();
            change(&mut interval.end);
            assert_silent(&RULE, &interval);
        }
        assert_silent(&RULE, &with(|host| host.cgroups.dying = line(GROUP, 2, 300)));
    }
}
