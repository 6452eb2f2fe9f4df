// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives from a kill in a log the sizes with which it can be reproduced in a guest.

use pagewise_model::{
    Bytes, KernelLog, OomConstraint, OomKill, Rebuild, RebuildChange, WhatIf, WhatIfKind,
};

use super::limit_of_kill::limit;
use super::what_if;

/// Derives the sizes from the newest kill in the log.
///
/// # Errors
/// If the kill cannot be reproduced; the error is a clause that says why.
pub fn rebuild(log: &KernelLog) -> Result<Rebuild, &'static str> {
    let at = log.kills.len().checked_sub(1).ok_or("the log has no report of the OOM killer")?;
    let kill = &log.kills[at];
    if what_if::has_other_cause(kill) {
        return Err("the kill had another reason than too little memory");
    }
    let (grower, mapped) = what_if::find_grower(log, at).ok_or("the report names no process")?;
    // pages of a program's files are dropped before anything is killed, and shmem is counted
    // separately
    let victim = kill.victim.as_ref();
    let apart = victim.map_or([None; 2], |victim| [victim.file, victim.shmem]);
    let grower = grower.saturating_sub(apart.into_iter().flatten().sum());
    let held = match kill.constraint {
        Some(OomConstraint::Cgroup) => held_by_group(kill),
        Some(OomConstraint::Host) => held_by_host(kill),
        Some(OomConstraint::Cpuset | OomConstraint::Policy) => {
            return Err("a guest has only one NUMA node");
        }
        None => None,
    };
    let (capacity, all, shmem, swap) = held.ok_or("the report has no sizes of memory")?;
    let changes = what_if::estimate_changes(log, at);
    Ok(Rebuild {
        of_group: kill.constraint == Some(OomConstraint::Cgroup),
        capacity,
        grower,
        mapped,
        others: all.saturating_sub(grower).saturating_sub(shmem),
        shmem,
        swap,
        changes: changes.iter().filter_map(rebuild_change).collect(),
    })
}

/// Converts a change to one that can be tried in a guest. `None` for changes that cannot: how well
/// the data compresses is not known, and a guest has memory of one size.
fn rebuild_change(what_if: &WhatIf) -> Option<RebuildChange> {
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

/// The capacity, the memory in use in RAM and in swap, the shared memory, and the swap in use.
type Held = (Bytes, Bytes, Bytes, Bytes);

fn held_by_group(kill: &OomKill) -> Option<Held> {
    let memory = kill.group_memory.as_ref()?;
    let swap = memory.swap.map(|swap| swap.usage).or(memory.swapped).unwrap_or_default();
    let shmem = memory.shmem.unwrap_or_default();
    let all = memory.anon?.saturating_add(shmem).saturating_add(swap);
    Some((limit(kill)?, all, shmem, swap))
}

/// Page cache is not counted, because it is dropped before anything is killed.
fn held_by_host(kill: &OomKill) -> Option<Held> {
    let host = kill.host.as_ref()?;
    let shmem = host.shmem.unwrap_or_default();
    let capacity = host.anon?.saturating_add(shmem);
    let swap = host.swap_total.unwrap_or_default();
    let swap = swap.saturating_sub(host.swap_free.unwrap_or_default());
    Some((capacity, capacity.saturating_add(swap), shmem, swap))
}
