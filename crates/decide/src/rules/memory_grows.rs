// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process, or all processes of a cgroup together, grow steadily and will fill the memory of the
//! host, or the limit of its cgroup, within the hour.

use pagewise_facts::growth::{self, Grower, Growth, GrowthLimit};
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Level, Limit, Severity, Snapshot};

use crate::Rule;
use crate::grade;
use crate::limit_change::{Effect, Lasts, LimitChange};
use crate::proof::EvidenceList;
use crate::text::{rate, roughly, short, short_group};

pub(super) const RULE: Rule = Rule {
    id: "memory-grows",
    doc: "A process or a cgroup has grown steadily since it started and would fill memory or the limit of its \
          cgroup within an hour.",
    diagnose,
};

/// At most this many processes and groups get a finding of their own.
const TOLD: usize = 3;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let growing = growth::growing(interval);
    growing.iter().take(TOLD).map(|growth| finding(&interval.end, growth)).collect()
}

fn finding(host: &Snapshot, growth: &Growth<'_>) -> Finding {
    let name = match growth.grower {
        Grower::Process(process) => {
            format!("{} (pid {})", short(process.name.as_str()), process.pid)
        }
        Grower::Group(group) => short_group(group.path.as_str()),
    };
    let rate = rate(growth.per_second);
    let lasts = roughly(growth.lasts_seconds);
    Finding {
        id: RULE.id,
        severity: if grade::growth::level(growth) >= Some(Level::Short) {
            Severity::Critical
        } else {
            Severity::Warning
        },
        title: format!("{name} will fill memory in {lasts} (+{rate})"),
        what: describe(growth),
        why: "A program that never frees memory uses up any amount of it, so more memory or swap only delays \
              the problem. The cause of steady growth is a memory leak, a cache or queue without a limit, or a \
              workload that is too large for this machine."
            .to_owned(),
        evidence: proof(host, growth),
        next: next(host, growth),
    }
}

fn describe(growth: &Growth<'_>) -> String {
    let into = match (growth.into, growth.grower) {
        (GrowthLimit::Host, _) => {
            "the available memory and the free swap will be used up".to_owned()
        }
        (GrowthLimit::Group(group, limit), Grower::Group(grower)) if group.path == grower.path => {
            format!("the cgroup will reach its memory limit of {limit}")
        }
        (GrowthLimit::Group(group, limit), _) => {
            format!("the cgroup {} will reach its memory limit of {limit}", group.path)
        }
    };
    let at_that_rate = format!("at this rate, {into} in about {}", roughly(growth.lasts_seconds));
    let (named, added, seconds, held) =
        (growth.grower.name(), growth.added, growth.seconds, growth.held);
    let age = roughly(growth.age_seconds.max(10.0));
    match growth.grower {
        Grower::Process(_) => format!(
            "The anonymous memory of {named} grew by {added} in {seconds:.1} s to {held}, and the process has \
             run for {age}; {at_that_rate}."
        ),
        Grower::Group(_) => format!(
            "The anonymous memory of all processes in the cgroup {named} grew by {added} in {seconds:.1} s to \
             {held}, and the oldest of them has run for {age}; {at_that_rate}. No process that ran \
             throughout these {seconds:.1} s accounts for half of this growth."
        ),
    }
}

fn proof(host: &Snapshot, growth: &Growth<'_>) -> Vec<pagewise_model::Evidence> {
    let proof = match growth.grower {
        Grower::Process(process) => {
            EvidenceList::new().named("RssAnon", &process.rss_anon).named("VmSwap", &process.swap)
        }
        Grower::Group(group) => EvidenceList::new()
            .named("anon", &group.anon)
            .named("swap.current", &group.swap_current),
    };
    match (growth.into, growth.grower) {
        (GrowthLimit::Host, _) => proof
            .named("MemAvailable", &host.memory.available)
            .named("SwapFree", &host.memory.swap_free),
        (GrowthLimit::Group(group, _), Grower::Group(grower)) if group.path == grower.path => {
            proof.named("max", &group.max).named("current", &group.current)
        }
        (GrowthLimit::Group(group, _), _) => proof
            .named("max", &group.max)
            .named("current", &group.current)
            .named("anon", &group.anon),
    }
    .into_evidence()
}

fn next(host: &Snapshot, growth: &Growth<'_>) -> Vec<String> {
    let (group, watched) = match growth.grower {
        Grower::Process(process) => {
            let own = process.cgroup.value();
            let mut groups = host.cgroups.groups.iter();
            let group = groups.find(|group| own.is_some_and(|own| own == &group.path));
            (group, format!("pid {}", process.pid))
        }
        Grower::Group(group) => (Some(group), "the processes of the group".to_owned()),
    };
    let watch = format!("pagewise report --sort growth -n 5  # shows the growth of {watched} now");
    let cap = group.and_then(|group| cap(group, growth));
    cap.into_iter().chain([watch]).collect()
}

/// Limits the group to one and a half times what it holds now, if it has no limit.
fn cap(group: &Cgroup, growth: &Growth<'_>) -> Option<String> {
    let held = growth.held.get().max(group.current.get()?.get());
    let to = held.checked_add(held / 2)?.checked_next_multiple_of(1 << 20)?;
    let change = LimitChange {
        group,
        limit: &group.max,
        to: Limit::Bytes(Bytes::new(to)),
        effect: Effect::Contains,
        lasts: Lasts::Permanent,
        note: "1.5 times what it holds",
    };
    // a limit that is set is not the cause of growth, and raising it only postpones its end
    if group.max.get() == Some(Limit::Max) { change.command() } else { None }
}

#[cfg(test)]
#[path = "../../tests/rules/memory_grows.rs"]
pub(super) mod tests;
