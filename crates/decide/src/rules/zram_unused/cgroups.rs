// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory cgroups that are short, or hold most of the anonymous memory, may not swap.

use pagewise_model::{Bytes, Cgroup, Finding, Limit, Quantity, Snapshot};

use super::{Case, RULE, holds_nothing, severity};
use crate::facts::reclaim;
use crate::proof::Proof;
use crate::text::{counted, quoted, short, writes};

/// Groups without swap explain an empty device where they hold at least this share of all
/// anonymous memory: more than half of what could be swapped may not be.
const MOST_PERCENT: f64 = 50.0;
/// Groups named as evidence.
const NAMED: usize = 5;

pub(super) fn reason(case: Case<'_>) -> Option<Finding> {
    let host = &case.interval.end;
    case.tier?;
    let barred = outermost_barred(host);
    let hit: Vec<&Cgroup> = barred.iter().copied().filter(|group| hit_limit(group)).collect();
    let groups = match hit.is_empty() {
        false => hit,
        true if holds_most(host, &barred) && was_short(host) => barred,
        true => return None,
    };
    let first = *groups.first()?;
    Some(Finding {
        id: RULE.id,
        severity: severity(host),
        title: format!(
            "{} holds nothing: {} may not swap",
            case.device.name(),
            short(first.path.as_str())
        ),
        what: what(host, &groups),
        why: "A memory cgroup that may not swap drops its file pages when it is short, and is \
              killed when none are left, however much swap the host has free. With a little swap \
              it could put away what it never touches and keep its code and cache."
            .to_owned(),
        evidence: groups.iter().take(NAMED).fold(holds_nothing(case), proof).done(),
        next: next(first),
    })
}

/// Whether this group's pages cannot be swapped: no swap allowed, or on version 1 swappiness 0.
fn is_barred(group: &Cgroup) -> bool {
    let no_swap = group.swap_max.get() == Some(Limit::Bytes(Bytes::new(0)));
    group.path.as_str() != "/" && (no_swap || group.swappiness.get() == Some(0))
}

/// Barred groups without those below them: what they hold is counted above already.
fn outermost_barred(host: &Snapshot) -> Vec<&Cgroup> {
    let mut chosen: Vec<&Cgroup> = Vec::new();
    for group in host.cgroups.groups.iter().filter(|group| is_barred(group)) {
        if !chosen.last().is_some_and(|above| is_below(group, above)) {
            chosen.push(group);
        }
    }
    chosen
}

fn is_below(group: &Cgroup, above: &Cgroup) -> bool {
    let rest = group.path.as_str().strip_prefix(above.path.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

fn hit_limit(group: &Cgroup) -> bool {
    group.events.max.get().is_some_and(|times| times > 0)
}

fn was_short(host: &Snapshot) -> bool {
    reclaim::scanned(host).is_some_and(|scanned| scanned.count > 0)
}

fn anon_of(groups: &[&Cgroup]) -> Bytes {
    groups.iter().filter_map(|group| group.anon.get()).sum()
}

fn holds_most(host: &Snapshot, groups: &[&Cgroup]) -> bool {
    let share = host.memory.anon_pages.get().and_then(|all| anon_of(groups).percent_of(all));
    share.is_some_and(|share| share.get() >= MOST_PERCENT)
}

fn what(host: &Snapshot, groups: &[&Cgroup]) -> String {
    let hits: u64 = groups.iter().filter_map(|group| group.events.max.get()).sum();
    let all = host.memory.anon_pages.get();
    let of = all.map_or_else(String::new, |all| format!(" of {}", all.shown()));
    format!(
        "{} without swap reached their limit {} and hold {}{of} of anonymous memory.",
        counted(groups.len() as u64, "memory cgroup"),
        counted(hits, "time"),
        anon_of(groups)
    )
}

fn proof(proof: Proof, group: &&Cgroup) -> Proof {
    let named = |what: &str| format!("{} {what}", group.path);
    proof
        .named(&named("swap.max"), &group.swap_max)
        .named(&named("swappiness"), &group.swappiness)
        .named(&named("reached max"), &group.events.max)
        .named(&named("anon"), &group.anon)
}

/// The file that bars it, as it was read.
fn next(group: &Cgroup) -> Vec<String> {
    let path = group.swap_max.source.path();
    let unit = group.path.as_str().rsplit('/').next().unwrap_or_default();
    let look = "systemd-cgtop --order=memory --iterations=1".to_owned();
    if path.ends_with("memory.swap.max") && (unit.ends_with(".service") || unit.ends_with(".slice"))
    {
        let command =
            format!("sudo systemctl set-property {} MemorySwapMax=infinity", quoted(unit));
        vec![writes(command), look]
    } else if path.ends_with("memory.swap.max") {
        vec![crate::text::put("max", path), look]
    } else {
        vec![look]
    }
}
