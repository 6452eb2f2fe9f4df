// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains why swap did not prevent a kill.
//!
//! Limits and the machine's free swap come from the report. Values that the report does not contain
//! (settings, devices) are read later, and the sentence then says "now". A report about a cgroup's
//! limit does not contain the machine's swap. For a kill in an earlier boot, current settings are
//! not used.

use pagewise_facts::{groups, settings, tiers};
use pagewise_model::{Bytes, Cgroup, Limit, OomConstraint, OomGroup, OomHost, OomKill, Snapshot};

use super::{find_group, reason};

/// The pool of zswap or zram counts as full if it is at least this percentage of its limit.
const NEAR_LIMIT_PERCENT: f64 = 98.0;

/// Returns the reason why swap did not prevent the kill, as a sentence without a full stop.
pub(super) fn explain_why_not(host: &Snapshot, kill: &OomKill) -> String {
    let unknown = Snapshot::default();
    let host = if kill.earlier_boot.is_some() { &unknown } else { host };
    let of_group = kill.constraint == Some(OomConstraint::Cgroup);
    let why = match (&kill.group_memory, &kill.host) {
        (Some(memory), _) if of_group => explain_for_group(host, kill, memory),
        (_, Some(memory)) => explain_for_machine(host, kill, memory),
        _ => None,
    };
    why.unwrap_or_else(|| "the kernel's report does not show why".to_owned())
}

fn explain_for_group(host: &Snapshot, kill: &OomKill, memory: &OomGroup) -> Option<String> {
    let path = kill.group.as_ref();
    let now = path.and_then(|path| find_group(host, path));
    explain_by_limit(host, memory)
        .or_else(|| now.and_then(|group| explain_by_ancestor_limit(host, group)))
        .or_else(|| describe_no_swap_now(host))
        .or_else(|| now.and_then(explain_by_swappiness))
        .or_else(|| describe_locked(memory.unevictable, memory.anon, memory.shmem))
        .or_else(|| describe_full_swap_now(host))
        .or_else(|| describe_refusing_device(host))
        .or_else(|| describe_swapped(memory))
}

/// Describes the group's own swap limit, if that limit kept the group from swapping; for both
/// cgroup versions.
fn explain_by_limit(host: &Snapshot, memory: &OomGroup) -> Option<String> {
    let room = free_swap_now(host);
    let room =
        room.map_or_else(String::new, |room| format!(", although {room} of swap are free now"));
    if let Some(swap) = memory.swap {
        return match swap.limit {
            Limit::Bytes(limit) if limit.get() == 0 => {
                Some(format!("the cgroup was not allowed to swap: memory.swap.max was 0{room}"))
            }
            Limit::Bytes(limit) if is_full(swap.usage, limit) => Some(format!(
                "the cgroup had used all swap that it was allowed to use: memory.swap.max was {limit}{room}"
            )),
            _ => None,
        };
    }
    let both = memory.memory_and_swap?;
    let limit = both.limit.bytes().filter(|&limit| is_full(both.usage, limit))?;
    Some(match memory.memory?.limit.bytes() {
        Some(alone) if alone == limit => format!(
            "the cgroup was not allowed to swap: the limit of memory and swap together \
             (memory.memsw.limit_in_bytes) was {limit}, the same as that of memory alone{room}"
        ),
        _ => format!(
            "memory and swap together were at the cgroup's limit of {limit} (memory.memsw.limit_in_bytes){room}"
        ),
    })
}

fn explain_by_ancestor_limit(host: &Snapshot, group: &Cgroup) -> Option<String> {
    let around = host.cgroups.groups.iter();
    let mut around =
        around.filter(|other| other.path == group.path || groups::is_below(group, other));
    let barred = around.find(|other| other.swap_max.get() == Some(Limit::Bytes(Bytes::new(0))))?;
    Some(format!("{} is not allowed to swap: memory.swap.max is 0 now", barred.path))
}

fn explain_by_swappiness(group: &Cgroup) -> Option<String> {
    (group.swappiness.get() == Some(0)).then(|| {
        "memory.swappiness of the cgroup is 0 now, so its anonymous memory is not swapped when the cgroup \
         reaches its limit".to_owned()
    })
}

fn explain_for_machine(host: &Snapshot, kill: &OomKill, memory: &OomHost) -> Option<String> {
    let (total, free) = memory.swap_total.zip(memory.swap_free)?;
    if total.get() == 0 {
        return Some("the machine had no swap".to_owned());
    }
    let used = total.saturating_sub(free);
    if is_full(used, total) {
        let poorly = explain_poor_compression(host, memory, used).unwrap_or_default();
        return Some(format!(
            "swap was full: {used} of {total} were in use{poorly}{}",
            describe_compressed(host)
        ));
    }
    if let Some(zone) = reason::lacking_zone(kill) {
        return Some(format!(
            "{free} of {total} of swap were free; the request needed memory of zone {zone}, where too little could be \
             reclaimed"
        ));
    }
    let order = kill.invoker.as_ref().map_or(0, |invoker| invoker.order);
    let contiguous = (order > 0).then(|| {
        format!("{free} of {total} of swap were free, but the allocation needed contiguous pages, which \
                 swapping does not create")
    });
    contiguous
        .or_else(|| describe_locked(memory.unevictable, memory.anon, memory.shmem))
        .or_else(|| describe_refusing_device(host))
        .or_else(|| {
            let set = settings::number(host, "vm.swappiness")?;
            (set.value == 0).then(|| {
                format!(
                    "{free} of {total} of swap were free, but vm.swappiness is 0 now: the kernel swaps \
                     anonymous memory only when nearly no page cache is left"
                )
            })
        })
        .or_else(|| {
            Some(format!(
                "{free} of {total} of swap were free; the kernel's report does not show why they were not used"
            ))
        })
}

/// Says that swapped-out data hardly compresses. This can be concluded if all swap is compressed
/// RAM, and if the memory that no counter of the report explains (probably the pool) is nearly as
/// large as the data that was swapped out.
fn explain_poor_compression(host: &Snapshot, memory: &OomHost, used: Bytes) -> Option<String> {
    let in_ram = !host.tiers.is_empty() && host.tiers.iter().all(|tier| tier.kind.is_ram());
    let other = memory.other().filter(|other| in_ram && other.get() / 8 >= used.get() / 10)?;
    Some(format!(
        "; all swap is in compressed RAM, which probably held most of the {other} of memory that no other \
         counter explains, so the swapped pages compressed poorly or not at all"
    ))
}

/// Describes locked memory, if it is at least half of the memory that could have been swapped.
fn describe_locked(
    unevictable: Option<Bytes>,
    anon: Option<Bytes>,
    shmem: Option<Bytes>,
) -> Option<String> {
    let swappable = anon?.saturating_add(shmem.unwrap_or_default());
    let locked =
        unevictable.filter(|locked| locked.get() > 0 && locked.get() >= swappable.get() / 2)?;
    Some(format!("{locked} were locked in memory (mlock) and could not be swapped"))
}

fn describe_no_swap_now(host: &Snapshot) -> Option<String> {
    tiers::is_swap_off(host).then(|| "the machine has no swap now".to_owned())
}

fn free_swap_now(host: &Snapshot) -> Option<Bytes> {
    let free: Bytes = host
        .tiers
        .iter()
        .filter_map(|tier| Some(tier.size.get()?.saturating_sub(tier.used.get()?)))
        .sum();
    (free.get() > 0).then_some(free)
}

fn describe_full_swap_now(host: &Snapshot) -> Option<String> {
    let full = !host.tiers.is_empty() && host.tiers.iter().all(|tier| tier.is_full() == Some(true));
    full.then(|| format!("all swap of the machine is full now{}", describe_compressed(host)))
}

/// Describes a device in compressed RAM that accepts no more pages.
fn describe_refusing_device(host: &Snapshot) -> Option<String> {
    let at_limit = host.compressed_devices().find_map(|device| {
        let limit = device.mm_stat.memory_limit.get().filter(|limit| limit.get() > 0)?;
        let used = device.mm_stat.memory_used.get()?;
        let near = used.percent_of(limit)?.get() >= NEAR_LIMIT_PERCENT;
        near.then(|| {
            format!(
                "{} accepts no more pages now: it uses {used} of RAM, and its mem_limit is {limit}",
                device.name()
            )
        })
    });
    at_limit.or_else(|| {
        let failed = host.compressed_devices().find_map(|device| {
            let failed = device.io_stat.failed_writes.get().filter(|&failed| failed > 0)?;
            Some((device.name(), failed))
        });
        let (name, failed) = failed?;
        Some(format!("{name} has refused {} writes until now", crate::text::count(failed)))
    })
}

/// Describes the compression ratio of each device in compressed RAM. A device whose data hardly
/// compresses uses as much memory as it frees.
fn describe_compressed(host: &Snapshot) -> String {
    let listed = tiers::in_ram(host).filter_map(|tier| {
        let device = tiers::device_of(host, tier)?;
        let (stored, used) = (device.mm_stat.original.get()?, device.mm_stat.memory_used.get()?);
        let ratio = stored.get() as f64 / used.get().max(1) as f64;
        (stored.get() > 0).then(|| {
            format!("; {} holds {stored} in {used} of memory now ({ratio:.1} : 1)", device.name())
        })
    });
    listed.collect()
}

/// Describes how much of the group was swapped out.
fn describe_swapped(memory: &OomGroup) -> Option<String> {
    let swapped = memory.swap.map(|swap| swap.usage).or(memory.swapped)?;
    Some(match swapped.get() {
        0 => "no page of the cgroup was swapped out; the kernel's report does not show why"
            .to_owned(),
        _ => format!(
            "{swapped} of the cgroup's memory were in swap; the rest was used too often, or the cgroup grew \
                      too fast, for the kernel to swap out more"
        ),
    })
}

fn is_full(used: Bytes, limit: Bytes) -> bool {
    used.fills_swap_of(limit).unwrap_or(true)
}
