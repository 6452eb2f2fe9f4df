// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a process, or all processes of a cgroup together, grow and would fill the memory of the
//! host, or reach the limit of a cgroup, within the hour.
//!
//! If the growth may end by itself, for example because a program is starting, the finding has the
//! severity info and no command.

use pagewise_facts::groups;
use pagewise_facts::growth::{self, Forecast, Grower, Growth, GrowthLimit};
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Limit, Snapshot, Subject};

use crate::Rule;
use crate::grade;
use crate::limit_change::{Effect, Lasts, LimitChange};
use crate::proof::EvidenceList;
use crate::text::{format_roughly, process, rate, shorten_group, shorten_title};

pub(super) const RULE: Rule = Rule {
    id: "memory-grows",
    doc: "A process or a cgroup grows and would fill memory or reach the limit of its cgroup within an hour.",
    diagnose,
};

/// Maximum number of processes and groups that get a finding of their own.
pub(super) const TOLD: usize = 3;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let growing = growth::find_growing(interval).into_iter();
    let growing = growing.filter(|growth| !is_own(growth.grower));
    growing.take(TOLD).map(|growth| finding(&interval.end, &growth)).collect()
}

/// Whether the growing process or group is a run of Pagewise.
fn is_own(grower: Grower<'_>) -> bool {
    match grower {
        Grower::Process(process) => groups::is_own_process(process),
        Grower::Group(group) => groups::is_own(&group.path),
    }
}

fn subject(grower: Grower<'_>) -> Subject {
    match grower {
        Grower::Process(process) => {
            Subject::Process { pid: process.pid, name: process.name.clone() }
        }
        Grower::Group(group) => Subject::Cgroup(group.path.clone()),
    }
}

fn finding(host: &Snapshot, growth: &Growth<'_>) -> Finding {
    Finding {
        id: RULE.id,
        about: Some(subject(growth.grower)),
        severity: grade::growth::severity(growth),
        title: title(growth),
        what: describe(host, growth),
        why: match growth.forecast {
            Forecast::Sustained => {
                "A program that never frees memory uses up any amount of it, so more memory or swap only delays \
                 the problem. The cause of steady growth is a memory leak, a cache or queue without a limit, or a \
                 workload that is too large for this machine."
            }
            Forecast::Tentative => {
                "A leak, a program that starts and a cache that is being filled look alike at first; the last two \
                 end by themselves. If it still grows when you look again, and is larger, it is none of these."
            }
        }
        .to_owned(),
        evidence: proof(host, growth),
        next: next(host, growth),
    }
}

fn title(growth: &Growth<'_>) -> String {
    let name = match growth.grower {
        Grower::Process(it) => process(it.name.as_str(), it.pid),
        Grower::Group(group) => shorten_group(group.path.as_str()),
    };
    let (rate, lasts) = (rate(growth.per_second), format_roughly(growth.lasts_seconds));
    let is_host = matches!(growth.into, GrowthLimit::Host);
    match growth.forecast {
        Forecast::Sustained if is_host => format!("{name} will fill memory in {lasts} (+{rate})"),
        Forecast::Sustained => format!("{name} will reach its limit in {lasts} (+{rate})"),
        Forecast::Tentative => {
            let how = if growth.is_steady { "grows steadily" } else { "grows" };
            shorten_title(format!("{name} {how}: full in {lasts} if it goes on"))
        }
    }
}

fn describe(host: &Snapshot, growth: &Growth<'_>) -> String {
    let into = match (growth.into, growth.grower) {
        (GrowthLimit::Host, _) => {
            "the available memory and the free swap will be used up".to_owned()
        }
        (GrowthLimit::Group(into), grower) => {
            let is_itself = matches!(grower, Grower::Group(it) if it.path == into.group.path);
            let whose = if is_itself {
                "the cgroup".to_owned()
            } else {
                format!("the cgroup {}", into.group.path)
            };
            if into.is_high() {
                let size = into.size;
                format!(
                    "{whose} will reach its memory.high of {size}, where the kernel slows it down,"
                )
            } else {
                format!("{whose} will reach its memory limit of {}", into.size)
            }
        }
    };
    let at_that_rate =
        format!("at this rate, {into} in about {}", format_roughly(growth.lasts_seconds));
    let (named, added, seconds, held) =
        (growth.grower.name(), growth.added, growth.seconds, growth.held);
    let rate = rate(growth.per_second);
    let age = format_roughly(growth.age_seconds.max(10.0));
    let grew = match growth.grower {
        Grower::Process(_) => format!(
            "The anonymous memory of {named} grew by {added} in {seconds:.1} s ({rate}) to {held}, and the \
             process has run for {age}; {at_that_rate}."
        ),
        Grower::Group(group) => {
            let largest =
                groups::largest_process(host, group).map_or_else(String::new, |(it, size)| {
                    format!("; the largest process, {} (pid {}), has {size}", it.name, it.pid)
                });
            format!(
                "The anonymous memory of all processes in the cgroup {named} grew by {added} in {seconds:.1} s \
                 ({rate}) to {held}, and the oldest of them has run for {age}; {at_that_rate}. No process that \
                 ran throughout these {seconds:.1} s accounts for half of this growth{largest}."
            )
        }
    };
    match growth.forecast {
        Forecast::Sustained => grew,
        Forecast::Tentative => format!("{grew} It is not known yet whether it will go on."),
    }
}

fn proof(host: &Snapshot, growth: &Growth<'_>) -> Vec<pagewise_model::Evidence> {
    let proof = match growth.grower {
        Grower::Process(process) => EvidenceList::new()
            .named("RssAnon", &process.rss_anon)
            .named("VmSwap", &process.swap)
            .named("VmHWM", &process.peak),
        Grower::Group(group) => EvidenceList::new()
            .named("anon", &group.anon)
            .named("swap.current", &group.swap_current),
    };
    match (growth.into, growth.grower) {
        (GrowthLimit::Host, _) => proof
            .named("MemAvailable", &host.memory.available)
            .named("SwapFree", &host.memory.swap_free),
        (GrowthLimit::Group(into), grower) => {
            let name = if into.is_high() { "high" } else { "max" };
            let proof = proof.named(name, into.reading).named("current", &into.group.current);
            match grower {
                Grower::Group(it) if it.path == into.group.path => proof,
                Grower::Process(_) | Grower::Group(_) => proof.named("anon", &into.group.anon),
            }
        }
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
    let is_certain = growth.forecast == Forecast::Sustained;
    let cap = group.filter(|_| is_certain).and_then(|group| cap_command(group, growth));
    cap.into_iter().chain([watch]).collect()
}

/// Returns the command that limits the group to one and a half times of what it uses now, if it has
/// no limit.
fn cap_command(group: &Cgroup, growth: &Growth<'_>) -> Option<String> {
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
    // if there is a limit, it is not the cause of the growth, and raising it only postpones the
    // shortage
    if group.max.get() == Some(Limit::Max) { change.command() } else { None }
}

#[cfg(test)]
#[path = "../../tests/rules/memory_grows.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "../../tests/rules/growth_laws.rs"]
mod laws;
