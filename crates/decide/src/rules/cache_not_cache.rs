// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `free` calls buff/cache is largely shmem, which cannot be dropped.

use pagewise_model::{Bytes, Finding, Interval, Severity, Snapshot};

use crate::Rule;
use crate::facts::tiers;
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
    let stuck = tiers::swap_is_off(host);
    Some(Finding {
        id: RULE.id,
        severity: if stuck { Severity::Warning } else { Severity::Info },
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
        next: vec!["df -h --type=tmpfs".to_owned(), "ipcs --shmems --human".to_owned()],
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
