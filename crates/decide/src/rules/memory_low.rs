// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: little memory is available. The severity depends on how much swap is free.

use pagewise_facts::room::Headroom;
use pagewise_facts::tiers;
use pagewise_model::{Bytes, Finding, Interval, Level, Process, Severity, Snapshot};

use crate::Rule;
use crate::grade::headroom;
use crate::proof::EvidenceList;
use crate::text::shorten_name;
use crate::verdict::{self, Cause};

pub(super) const RULE: Rule = Rule {
    id: "memory-low",
    doc: "Little memory is available, and swap has little or no room for more pages.",
    diagnose,
};

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let low = verdict::signals(interval).into_iter().find_map(|signal| match signal.cause {
        Cause::Available(room) => Some(finding(&interval.end, signal.level, &room)),
        _ => None,
    });
    low.into_iter().collect()
}

fn finding(host: &Snapshot, level: Level, room: &Headroom) -> Finding {
    let largest = largest(host);
    Finding {
        id: RULE.id,
        about: None,
        severity: if level == Level::Critical { Severity::Critical } else { Severity::Warning },
        title: format!("only {} of memory are available", room.available.part_of(room.total)),
        what: format!(
            "{}{}.",
            state(host, room),
            largest.map_or_else(String::new, describe_memory)
        ),
        why: why(host, room),
        evidence: proof(host, largest),
        next: next(largest),
    }
}

fn state(host: &Snapshot, room: &Headroom) -> String {
    let available = format!(
        "{} of memory are available (on this host, less than {} counts as tight)",
        room.available.part_of(room.total),
        headroom::tight_threshold(room)
    );
    let swap = match (room.swap_filled, room.swap) {
        _ if tiers::is_swap_off(host) => ", and the host has no swap".to_owned(),
        (Some(filled), Some(more)) => {
            format!(
                "; swap is {:.0} % full, and swapping out more pages could free {more} of RAM",
                filled.get().floor()
            )
        }
        (Some(filled), None) => format!("; swap is {:.0} % full", filled.get().floor()),
        (None, _) => String::new(),
    };
    format!("{available}{swap}")
}

fn why(host: &Snapshot, room: &Headroom) -> String {
    let end = if room.swap.is_some_and(|more| more > Bytes::new(0)) {
        "As long as swap has room, the kernel can reclaim anonymous pages by swapping them out."
    } else if tiers::is_swap_off(host) {
        "Without swap, the kernel can only drop pages of code and files that programs still use, and when that \
         is not enough, it kills a process."
    } else {
        "Swap has no room for more pages, so the kernel kills a process when it can reclaim no other memory."
    };
    format!(
        "When no memory is available, each allocation has to wait until the kernel has reclaimed a page. {end}"
    )
}

/// Returns the process with the most memory that cannot be dropped (anonymous memory and shmem).
fn largest(host: &Snapshot) -> Option<&Process> {
    let held = |process: &Process| {
        let shmem = process.rss_shmem.get().unwrap_or(Bytes::new(0));
        Some(process.rss_anon.get()?.saturating_add(shmem))
    };
    let known = host.processes.list.iter().filter_map(|process| Some((held(process)?, process)));
    known.max_by_key(|(held, _)| *held).map(|(_, process)| process)
}

fn describe_memory(process: &Process) -> String {
    let anon = process.rss_anon.get().map_or_else(String::new, |anon| format!(" {anon}"));
    format!(
        ". The largest process is {} (pid {}), with{anon} of anonymous memory",
        shorten_name(process.name.as_str()),
        process.pid
    )
}

fn proof(host: &Snapshot, largest: Option<&Process>) -> Vec<pagewise_model::Evidence> {
    let proof = EvidenceList::new()
        .named("MemTotal", &host.memory.total)
        .named("MemAvailable", &host.memory.available)
        .named("SwapTotal", &host.memory.swap_total)
        .named("SwapFree", &host.memory.swap_free);
    match largest {
        Some(process) => proof.named("RssAnon", &process.rss_anon).into_evidence(),
        None => proof.into_evidence(),
    }
}

fn next(largest: Option<&Process>) -> Vec<String> {
    let tasks = "ps -eo pid,rss,comm,cgroup --sort=-rss | head".to_owned();
    let look = largest.map(|process| format!("grep -E 'Rss|VmSwap' /proc/{}/status", process.pid));
    [Some(tasks), look].into_iter().flatten().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, line, mib, only, with};

    /// A host with 40 MiB of 16 GiB available, without swap.
    pub(crate) fn host_with_finding() -> Interval {
        with(|host| {
            host.memory.available = line("/proc/meminfo", 3, mib(40));
            host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
            host.memory.swap_free = line("/proc/meminfo", 16, Bytes::new(0));
            host.tiers.clear();
            host.zram.clear();
        })
    }

    #[test]
    fn nothing_available_and_no_swap_is_critical() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.title, "only 40.0 MiB of 16.0 GiB of memory are available");
        assert!(finding.what.contains("and the host has no swap. The largest process is postgres"));
    }

    #[test]
    fn swap_with_room_makes_it_a_warning() {
        let low = with(|host| host.memory.available = line("/proc/meminfo", 3, mib(40)));
        let finding = only(&RULE, &low);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.contains("more pages could free 1.8 GiB"), "{}", finding.what);
    }

    #[test]
    fn enough_is_silent() {
        assert_silent(&RULE, &calm());
    }
}
