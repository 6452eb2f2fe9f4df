// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why a device is empty: the memory cgroups that are short of memory, or that hold most
//! of the anonymous memory, must not swap.

use pagewise_facts::groups::is_below;
use pagewise_facts::reclaim;
use pagewise_model::{Bytes, Cgroup, Finding, Limit, Quantity, Snapshot};

use super::{Case, RULE, prove_emptiness, severity};
use crate::limit_change::{Effect, Lasts, LimitChange};
use crate::proof::EvidenceList;
use crate::text::{count_of, shorten_group};

/// Groups that must not swap are the reason if they hold at least this share of all anonymous
/// memory, in percent.
const MOST_PERCENT: f64 = 50.0;
/// Maximum number of groups listed as evidence.
const NAMED: usize = 5;

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    case.tier?;
    let barred = outermost_barred(host);
    let hit: Vec<&Cgroup> = barred.iter().copied().filter(|group| has_hit_limit(group)).collect();
    let groups = match hit.is_empty() {
        false => hit,
        true if do_hold_most(host, &barred) && has_been_short(host) => barred,
        true => return None,
    };
    let first = *groups.first()?;
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: severity(case.interval),
        title: format!(
            "{} is empty: {} is not allowed to swap",
            case.device.name(),
            shorten_group(first.path.as_str())
        ),
        what: describe(host, &groups),
        why: "When a cgroup that is not allowed to swap reaches its memory limit, the kernel can only drop \
              its file pages. When none are left, the kernel kills a process in the cgroup, even if the host \
              has free swap. If the cgroup could swap, the kernel would swap out anonymous pages that no \
              process uses, and keep code and page cache in RAM."
            .to_owned(),
        evidence: groups.iter().take(NAMED).fold(prove_emptiness(case), proof).into_evidence(),
        next: next(first),
    })
}

/// Whether this group's pages must not be swapped: its swap limit is 0 or, with cgroup version 1,
/// its swappiness is 0.
fn is_barred(group: &Cgroup) -> bool {
    let no_swap = group.swap_max.get() == Some(Limit::Bytes(Bytes::new(0)));
    group.path.as_str() != "/" && (no_swap || group.swappiness.get() == Some(0))
}

/// Returns the groups that must not swap, without their descendants, whose memory is included in
/// theirs.
fn outermost_barred(host: &Snapshot) -> Vec<&Cgroup> {
    let mut chosen: Vec<&Cgroup> = Vec::new();
    for group in host.cgroups.groups.iter().filter(|group| is_barred(group)) {
        if !chosen.last().is_some_and(|above| is_below(group, above)) {
            chosen.push(group);
        }
    }
    chosen
}

fn has_hit_limit(group: &Cgroup) -> bool {
    group.events.max.get().is_some_and(|times| times > 0)
}

fn has_been_short(host: &Snapshot) -> bool {
    reclaim::scanned_pages(host).is_some_and(|scanned| scanned.count > 0)
}

fn anon_of(groups: &[&Cgroup]) -> Bytes {
    groups.iter().filter_map(|group| group.anon.get()).sum()
}

fn do_hold_most(host: &Snapshot, groups: &[&Cgroup]) -> bool {
    let share = host.memory.anon_pages.get().and_then(|all| anon_of(groups).percent_of(all));
    share.is_some_and(|share| share.get() >= MOST_PERCENT)
}

fn describe(host: &Snapshot, groups: &[&Cgroup]) -> String {
    let hits: u64 = groups.iter().filter_map(|group| group.events.max.get()).sum();
    let all = host.memory.anon_pages.get();
    let of = all.map_or_else(String::new, |all| format!(" (of {} on this host)", all.shown()));
    let times = count_of(hits, "time");
    let (named, reached) = match groups {
        [only] => (
            format!("the cgroup {}", only.path),
            format!("This cgroup has reached its memory limit {times} since it was created"),
        ),
        all => (
            count_of(all.len() as u64, "cgroup"),
            format!("These cgroups have reached their limits {times} since they were created"),
        ),
    };
    format!(
        "Swapping is disabled for {named}, so {} of anonymous memory{of} cannot be swapped. {reached}.",
        anon_of(groups)
    )
}

fn proof(proof: EvidenceList, group: &&Cgroup) -> EvidenceList {
    let named = |what: &str| format!("{} {what}", group.path);
    proof
        .named(&named("swap.max"), &group.swap_max)
        .named(&named("swappiness"), &group.swappiness)
        .named(&named("reached max"), &group.events.max)
        .named(&named("anon"), &group.anon)
}

/// Returns the command that allows the group to swap, if the group's file is known (cgroup version
/// 2).
fn next(group: &Cgroup) -> Vec<String> {
    let path = group.swap_max.source.path();
    let look = "systemd-cgtop --order=memory --iterations=1".to_owned();
    if !path.ends_with("memory.swap.max") {
        return vec![look];
    }
    let change = LimitChange {
        group,
        limit: &group.swap_max,
        to: Limit::Max,
        effect: Effect::AllowsSwap,
        lasts: Lasts::Permanent,
        note: "",
    };
    change.command().into_iter().chain([look]).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Interval;

    use super::super::tests::empty_tier;
    use super::*;
    use crate::testing::{file, gib, line, only, proof_of, still};

    fn host_with(hits: u64) -> Snapshot {
        let mut host = empty_tier();
        let no_swap = Limit::Bytes(Bytes::new(0));
        let folder = "/sys/fs/cgroup/system.slice/db.service";
        let db = &mut host.cgroups.groups[2];
        db.swap_max = file(&format!("{folder}/memory.swap.max"), no_swap);
        db.events.max = line(&format!("{folder}/memory.events"), 3, hits);
        host
    }

    pub(crate) fn host_with_finding() -> Interval {
        still(host_with(212))
    }

    #[test]
    fn a_group_without_swap_that_hits_its_limit() {
        let finding = only(&RULE, &host_with_finding());
        let title = "zram0 is empty: /system.slice/db.service is not allowed to swap";
        assert_eq!(finding.title, title);
        assert_eq!(
            finding.what,
            "Swapping is disabled for the cgroup /system.slice/db.service, so 700.0 MiB of anonymous memory \
             (of 4.0 GiB on this host) cannot be swapped. This cgroup has reached its memory limit 212 times \
             since it was created."
        );
        let command = "sudo systemctl set-property db.service MemorySwapMax=infinity  # writes; lets the \
                       group swap; permanent; undo with sudo systemctl set-property db.service \
                       MemorySwapMax=0";
        assert_eq!(finding.next[0], command);
    }

    #[test]
    fn groups_that_hold_most_of_what_could_be_swapped() {
        let mut most = host_with(0);
        most.cgroups.groups[2].anon = line("/sys/fs/cgroup/x/memory.stat", 1, gib(3));
        assert!(only(&RULE, &still(most)).title.contains("is not allowed to swap"));
    }

    #[test]
    fn swappiness_0_of_version_1_bars_as_well() {
        let mut host = empty_tier();
        let folder = "/sys/fs/cgroup/memory/system.slice/db.service";
        let db = &mut host.cgroups.groups[2];
        db.swappiness = file(&format!("{folder}/memory.swappiness"), 0);
        db.events.max = file(&format!("{folder}/memory.failcnt"), 3);
        let finding = only(&RULE, &still(host));
        assert!(
            proof_of(&finding)
                .contains("memory.swappiness = /system.slice/db.service swappiness 0")
        );
    }

    #[test]
    fn a_group_below_a_barred_one_is_not_counted_again() {
        let mut nested = host_with(212);
        nested.cgroups.groups[1].swap_max = nested.cgroups.groups[2].swap_max.clone();
        nested.cgroups.groups[1].events.max = line("/sys/fs/cgroup/x/memory.events", 3, 212);
        assert!(only(&RULE, &still(nested)).what.contains("for the cgroup /system.slice, so"));
    }

    #[test]
    fn it_is_not_the_reason_where_groups_never_hit_a_limit() {
        let title = only(&RULE, &still(host_with(0))).title;
        assert!(title.contains("page cache has been enough"), "{title}");
    }
}
