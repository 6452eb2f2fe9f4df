// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a cgroup has more memory in swap than in RAM, and keeps reading it back.
//!
//! If the group's own limit is the reason, the rule `group-limit` reports it; this rule is about
//! groups that were swapped out because something else grew. Of nested groups, the innermost is
//! reported.

use std::collections::HashSet;

use pagewise_facts::groups::{self, GroupPair};
use pagewise_facts::protection::{LOW, protections};
use pagewise_model::{Bytes, Cgroup, Change, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::commands;
use crate::grade::least_worthwhile;
use crate::proof::EvidenceList;
use crate::text::shorten_group;
use crate::verdict;

pub(super) const RULE: Rule = Rule {
    id: "swap-heavy-group",
    doc: "A cgroup has more memory in swap than in RAM and keeps swapping pages in.",
    diagnose,
};

const WORTH: Bytes = Bytes::new(64 << 20);
/// Minimum number of pages per second that a group reads back from swap for a finding: 400 KiB/s
/// with pages of 4 KiB, the same threshold as for refaults of files.
const REFAULTS_PER_SECOND: f64 = 100.0;

/// Minimum share of the last minute in which the group's tasks were stalled on memory, in percent.
const WAITED_PERCENT: f64 = 1.0;
/// Minimum number of major faults per second, which is used instead of stall times with cgroup
/// version 1, because that has no pressure files.
const MAJOR_FAULTS_PER_SECOND: f64 = 10.0;
/// If the group uses at least this percentage of its own limit, that limit is the reason why it is
/// in swap.
const OF_LIMIT_PERCENT: f64 = 90.0;

/// A group that has more memory in swap than in RAM.
struct Heavy<'a> {
    group: &'a Cgroup,
    swapped: Bytes,
    in_ram: Bytes,
    refaults: Change,
}

impl Heavy<'_> {
    /// Returns the RAM that the group would use if nothing of it were swapped out, in whole MiB.
    fn size(&self) -> Bytes {
        Bytes::new(self.in_ram.saturating_add(self.swapped).get().div_ceil(1 << 20) << 20)
    }
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let troubled = verdict::find_troubled(interval);
    let limited: HashSet<&str> =
        troubled.iter().map(|trouble| trouble.limited.path.as_str()).collect();
    let above: HashSet<&str> = limited.iter().copied().flat_map(path_and_ancestors).collect();
    let is_troubled = |group: &Cgroup| {
        let path = group.path.as_str();
        above.contains(path) || path_and_ancestors(path).any(|above| limited.contains(above))
    };
    let pairs = groups::pairs(interval);
    let heavy: Vec<Heavy<'_>> =
        pairs.iter().filter_map(|pair| find_heavy(&interval.end, pair)).collect();
    let holds: HashSet<&str> = heavy
        .iter()
        .flat_map(|heavy| path_and_ancestors(heavy.group.path.as_str()).skip(1))
        .collect();
    let innermost = |this: &&Heavy<'_>| !holds.contains(this.group.path.as_str());
    let listed = heavy.iter().filter(innermost).filter(|heavy| !is_troubled(heavy.group));
    let worst = listed.max_by_key(|heavy| heavy.swapped);
    worst.map(|heavy| finding(&interval.end, heavy)).into_iter().collect()
}

/// Returns the path of a group and the paths of all its ancestors except the root.
fn path_and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    let cuts = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|path| !path.is_empty());
    std::iter::once(path).chain(cuts)
}

fn find_heavy<'a>(host: &Snapshot, pair: &GroupPair<'a>) -> Option<Heavy<'a>> {
    let group = pair.now;
    let (swapped, in_ram) = (group.swap_current.get()?, group.current.get()?);
    let refaults = pair.change(|group| &group.refault_anon)?;
    let is_heavy = swapped >= least_worthwhile(host, WORTH)
        && swapped > in_ram
        && refaults.per_second >= REFAULTS_PER_SECOND;
    (is_heavy && is_waiting(pair) && !is_limited(group)).then_some(Heavy {
        group,
        swapped,
        in_ram,
        refaults,
    })
}

fn is_waiting(pair: &GroupPair<'_>) -> bool {
    match pair.now.pressure.some.avg60.get() {
        Some(waited) => waited.get() >= WAITED_PERCENT,
        None => pair
            .change(|group| &group.pgmajfault)
            .is_some_and(|faults| faults.per_second >= MAJOR_FAULTS_PER_SECOND),
    }
}

/// Whether the group is close to its own limit.
fn is_limited(group: &Cgroup) -> bool {
    let limit = group.max.get().and_then(pagewise_model::Limit::bytes);
    let filled = limit.and_then(|limit| group.current.get()?.percent_of(limit));
    filled.is_some_and(|filled| filled.get() >= OF_LIMIT_PERCENT)
}

fn finding(host: &Snapshot, heavy: &Heavy<'_>) -> Finding {
    let group = heavy.group;
    let name = group.path.as_str();
    let protect = protections(host, group, LOW, heavy.size()).unwrap_or_default();
    let protect = commands::advise_protection(&protect);
    let look = "pagewise report --sort swap -n 10".to_owned();
    Finding {
        id: RULE.id,
        about: None,
        severity: Severity::Warning,
        title: format!("{} has {} in swap and keeps swapping pages in", shorten_group(name), heavy.swapped),
        what: format!(
            "The cgroup {name} has {} in swap and only {} in RAM, and its tasks swap in {:.0} pages per second.{}",
            heavy.swapped, heavy.in_ram, heavy.refaults.per_second, protect.sentence
        ),
        why: "The kernel swapped out pages of this cgroup to make room for other cgroups, and the tasks of this \
              cgroup wait each time that they need a swapped page again. Protection (memory.low) keeps the memory of \
              the cgroup in RAM, if each slice above has at least as much protection; the kernel then reclaims \
              memory of other cgroups instead."
            .to_owned(),
        evidence: EvidenceList::new()
            .named("swap.current", &group.swap_current)
            .named("current", &group.current)
            .change("refaults", &heavy.refaults)
            .named("some avg60", &group.pressure.some.avg60)
            .into_evidence(),
        next: protect.commands.into_iter().chain([look]).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Limit, Source};

    use super::*;
    use crate::testing::{assert_silent, calm, file, line, mib, only, stall, with};

    const GROUP: &str = "/sys/fs/cgroup/system.slice/db.service";

    fn db(interval: &mut Interval) -> [&mut Cgroup; 2] {
        let start = interval.start.as_deref_mut().unwrap();
        [start, &mut interval.end].map(|host| &mut host.cgroups.groups[2])
    }

    fn interval_with(swapped: u64, refaults: u64) -> Interval {
        let mut interval = with(|host| {
            for group in &mut host.cgroups.groups {
                let path = format!("/sys/fs/cgroup{}/memory.low", group.path);
                group.low = file(&path, Limit::Bytes(Bytes::new(0)));
            }
        });
        for (group, times) in db(&mut interval).into_iter().zip([1, 2]) {
            group.current = file(&format!("{GROUP}/memory.current"), mib(300));
            group.swap_current = file(&format!("{GROUP}/memory.swap.current"), mib(swapped));
            group.refault_anon = line(&format!("{GROUP}/memory.stat"), 40, refaults * times);
            stall(&mut group.pressure.some, 6.0, 4.0);
            group.pressure.some.avg60.source = Source::line(format!("{GROUP}/memory.pressure"), 1);
        }
        interval
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with(900, 8_000)
    }

    #[test]
    fn a_service_that_works_out_of_swap_is_named() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(
            finding.title,
            "/system.slice/db.service has 900.0 MiB in swap and keeps swapping pages in"
        );
        assert!(finding.what.contains("swap in 800 pages per second"));
        assert!(finding.what.ends_with(
            "Protecting it takes MemoryLow of at least 1.2 GiB of system.slice and 1.2 GiB of db.service, as the \
             sum of what is protected there."
        ));
        assert!(
            finding.next.iter().all(|next| !next.contains("set-property")),
            "{:?}",
            finding.next
        );
    }

    #[test]
    fn in_a_slice_that_is_protected_the_command_is_for_the_service_alone() {
        let mut interval = host_with_finding();
        let low = "/sys/fs/cgroup/system.slice/memory.low";
        interval.end.cgroups.groups[1].low = file(low, Limit::Bytes(mib(4096)));
        let finding = only(&RULE, &interval);
        assert_eq!(
            finding.next[0],
            "sudo systemctl set-property db.service MemoryLow=1200M  # writes; permanent; takes this memory from \
             other cgroups; undo with sudo systemctl set-property db.service MemoryLow=0"
        );
    }

    #[test]
    fn a_group_above_is_not_named_too() {
        let mut interval = host_with_finding();
        let inner = db(&mut interval).map(|group| group.clone());
        let hosts = interval.start.as_deref_mut().into_iter().chain([&mut interval.end]);
        for (host, inner) in hosts.zip(inner) {
            let slice = &mut host.cgroups.groups[1];
            *slice = Cgroup { path: slice.path.clone(), ..inner };
        }
        assert!(only(&RULE, &interval).title.contains("db.service"));
    }

    #[test]
    fn cold_memory_in_swap_is_where_it_belongs() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &interval_with(900, 50));
        assert_silent(&RULE, &interval_with(200, 8_000));
        let mut patient = host_with_finding();
        stall(&mut db(&mut patient)[1].pressure.some, 0.0, 0.9);
        assert_silent(&RULE, &patient);
    }

    #[test]
    fn on_version_1_major_faults_stand_for_waiting() {
        let mut interval = host_with_finding();
        for (group, faults) in db(&mut interval).into_iter().zip([10, 300]) {
            crate::testing::erase(&mut group.pressure.some.avg60);
            group.pgmajfault = line(&format!("{GROUP}/memory.stat"), 41, faults);
        }
        assert!(only(&RULE, &interval).title.contains("db.service"));
        db(&mut interval)[1].pgmajfault = line(&format!("{GROUP}/memory.stat"), 41, 50);
        assert_silent(&RULE, &interval);
    }

    #[test]
    fn a_group_at_its_own_limit_is_another_finding() {
        let mut interval = host_with_finding();
        for (group, times) in db(&mut interval).into_iter().zip([1, 900]) {
            group.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(mib(300)));
            group.events.max = line(&format!("{GROUP}/memory.events"), 3, times);
            stall(&mut group.pressure.some, 20.0, 20.0);
        }
        assert_silent(&RULE, &interval);
    }
}
