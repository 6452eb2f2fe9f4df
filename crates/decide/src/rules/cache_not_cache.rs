// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `free` calls buff/cache is largely shmem, which cannot be dropped.

use pagewise_model::{Bytes, Finding, Interval, Level, Severity, Snapshot};

use crate::Rule;
use crate::facts::{room, tiers};
use crate::proof::Proof;

pub(super) const RULE: Rule = Rule {
    id: "cache-not-cache",
    doc: "A good part of buff/cache is shared memory and tmpfs, which can only be swapped.",
    look,
};

/// From here on a reader of `free` is wrong by a third of what he takes for cache.
const OF_CACHE_PERCENT: f64 = 33.0;
/// Less of RAM than this misleads nobody.
const OF_RAM_PERCENT: f64 = 5.0;
/// This share of RAM matters also while memory is available.
const MUCH_OF_RAM_PERCENT: f64 = 18.0;

fn look(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let memory = &host.memory;
    let shmem = memory.shmem.get()?;
    let cache: Bytes =
        [memory.buffers.get()?, memory.cached.get()?, memory.slab_reclaimable.get()?]
            .into_iter()
            .sum();
    let share = shmem.percent_of(cache)?.get();
    let of_ram = shmem.percent_of(memory.total.get()?)?.get();
    if share < OF_CACHE_PERCENT || of_ram < OF_RAM_PERCENT {
        return None;
    }
    let is_low = room::room(host).is_some_and(|room| room.level() > Level::Calm);
    if !is_low && of_ram < MUCH_OF_RAM_PERCENT {
        return None;
    }
    let stuck = tiers::swap_is_off(host);
    Some(Finding {
        id: RULE.id,
        severity: if stuck && is_low { Severity::Warning } else { Severity::Info },
        title: format!("{shmem} of the {cache} that looks like cache cannot be dropped"),
        what: what(host, shmem, cache, stuck),
        why:
            "Shared memory and files in tmpfs live in the page cache and have no disk behind them. \
              The kernel can only swap them, so of free's buff/cache they are the part that does \
              not make room; available leaves them out."
                .to_owned(),
        evidence: Proof::new()
            .named("Shmem", &memory.shmem)
            .named("Cached", &memory.cached)
            .named("Buffers", &memory.buffers)
            .named("SReclaimable", &memory.slab_reclaimable)
            .named("MemFree", &memory.free)
            .named("MemAvailable", &memory.available)
            .named("SwapTotal", &memory.swap_total)
            .done(),
        next: vec![
            "df -h --type=tmpfs".to_owned(),
            "ipcs --shmems --human".to_owned(),
            "sudo find /proc/[0-9]*/fd -lname '*(deleted)' -printf '%p %l\\n'  # deleted, still open"
                .to_owned(),
        ],
    })
}

fn what(host: &Snapshot, shmem: Bytes, cache: Bytes, stuck: bool) -> String {
    let room = host.memory.free.get().zip(host.memory.available.get());
    let room = room.map_or_else(String::new, |(free, available)| {
        format!("; {free} are free and {available} available")
    });
    let swap = if stuck { ", and swap is off" } else { "" };
    format!("buff/cache is {cache}, {shmem} of it shmem{swap}{room}.")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, gib, line, only, with};

    fn shared(host: &mut Snapshot) {
        host.memory.shmem = line("/proc/meminfo", 23, gib(3));
    }

    pub(crate) fn firing() -> Interval {
        with(shared)
    }

    #[test]
    fn much_of_buff_cache_is_shmem() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.title, "3.0 GiB of the 5.4 GiB that looks like cache cannot be dropped");
        assert_eq!(
            finding.what,
            "buff/cache is 5.4 GiB, 3.0 GiB of it shmem; 4.0 GiB are free and 9.0 GiB available."
        );
        assert_eq!(finding.severity, Severity::Info);
    }

    #[test]
    fn without_swap_it_stays_where_it_is() {
        let stuck = with(|host| {
            shared(host);
            host.tiers.clear();
            host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
            host.memory.available = line("/proc/meminfo", 3, gib(1));
        });
        let finding = only(&RULE, &stuck);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.contains("and swap is off"));
    }

    #[test]
    fn a_tenth_of_memory_matters_only_while_little_is_available() {
        let some = |host: &mut Snapshot| {
            host.memory.shmem = line("/proc/meminfo", 23, Bytes::new(1700 << 20));
            host.memory.cached = line("/proc/meminfo", 5, gib(2));
        };
        assert_silent(&RULE, &with(some));
        let low = with(|host| {
            some(host);
            host.memory.available = line("/proc/meminfo", 3, gib(1));
        });
        assert_eq!(only(&RULE, &low).severity, Severity::Info);
    }

    #[test]
    fn a_little_shmem_is_silent() {
        assert_silent(&RULE, &calm());
        let tiny = with(|host| {
            host.memory.shmem = line("/proc/meminfo", 23, Bytes::new(300 << 20));
            host.memory.cached = line("/proc/meminfo", 5, Bytes::new(400 << 20));
        });
        assert_silent(&RULE, &tiny);
    }
}
