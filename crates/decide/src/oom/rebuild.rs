// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kill of a log, as sizes from which it can be done again in a guest.

use pagewise_model::{
    Bytes, KernelLog, OomConstraint, OomKill, Rebuild, RebuildChange, WhatIf, WhatIfKind,
};

use super::limit_of_kill::limit;
use super::what_if;

/// The sizes of the newest kill of the log.
///
/// # Errors
/// Why it cannot be done again, as a clause.
pub fn rebuild(log: &KernelLog) -> Result<Rebuild, &'static str> {
    let at = log.kills.len().checked_sub(1).ok_or("the log has no report of the OOM killer")?;
    let kill = &log.kills[at];
    if what_if::is_without_room(kill) {
        return Err("the kill had another reason than too little memory");
    }
    let (grower, mapped) = what_if::grower(log, at).ok_or("the report names no process")?;
    // files of a program are dropped before anything is killed, and shmem is counted by itself
    let victim = kill.victim.as_ref();
    let apart = victim.map_or([None; 2], |victim| [victim.file, victim.shmem]);
    let grower = grower.saturating_sub(apart.into_iter().flatten().sum());
    let held = match kill.constraint {
        Some(OomConstraint::Cgroup) => of_group(kill),
        Some(OomConstraint::Host) => of_host(kill),
        Some(OomConstraint::Cpuset | OomConstraint::Policy) => {
            return Err("a guest has only one NUMA node");
        }
        None => None,
    };
    let (capacity, all, shmem, swap) = held.ok_or("the report has no sizes of memory")?;
    let changes = what_if::suppose(log, at);
    Ok(Rebuild {
        of_group: kill.constraint == Some(OomConstraint::Cgroup),
        capacity,
        grower,
        mapped,
        others: all.saturating_sub(grower).saturating_sub(shmem),
        shmem,
        swap,
        changes: changes.iter().filter_map(change).collect(),
    })
}

/// A change that can be tried in a guest. How well the data compresses is not known, and a guest
/// has one size of memory.
fn change(what_if: &WhatIf) -> Option<RebuildChange> {
    match what_if.kind {
        WhatIfKind::Limit
        | WhatIfKind::GroupSwap
        | WhatIfKind::Swap
        | WhatIfKind::WithoutProcess
        | WhatIfKind::WithoutShmem => Some(RebuildChange {
            change: what_if.change.clone(),
            kind: what_if.kind,
            size: what_if.size?,
            effect: what_if.effect,
        }),
        WhatIfKind::Zram | WhatIfKind::Memory | WhatIfKind::Other => None,
    }
}

/// Capacity, all that was held in it and in swap, shared memory, and swap in use.
type Held = (Bytes, Bytes, Bytes, Bytes);

fn of_group(kill: &OomKill) -> Option<Held> {
    let memory = kill.group_memory.as_ref()?;
    let swap = memory.swap.map(|swap| swap.usage).or(memory.swapped).unwrap_or_default();
    let shmem = memory.shmem.unwrap_or_default();
    let all = memory.anon?.saturating_add(shmem).saturating_add(swap);
    Some((limit(kill)?, all, shmem, swap))
}

/// Page cache is not counted: it is dropped before anything is killed.
fn of_host(kill: &OomKill) -> Option<Held> {
    let host = kill.host.as_ref()?;
    let shmem = host.shmem.unwrap_or_default();
    let capacity = host.anon?.saturating_add(shmem);
    let swap = host.swap_total.unwrap_or_default();
    let swap = swap.saturating_sub(host.swap_free.unwrap_or_default());
    Some((capacity, capacity.saturating_add(swap), shmem, swap))
}
