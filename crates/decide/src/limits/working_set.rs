// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines how much of a cgroup's memory is in use.

use pagewise_facts::groups::{self, GroupPair};
use pagewise_model::{
    Bytes, Cgroup, Change, IdleMemory, IdleMethod, Limit, Millis, Pages, Reading, Snapshot,
    WatchedMemory, duration,
};

use super::inputs::LimitInputs;

/// How much memory in RAM a group uses.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Used {
    pub(super) idle: IdleMemory,
    /// Idle page cache, which could be dropped.
    pub(super) droppable: Bytes,
    /// Idle anonymous memory that fits into free swap.
    pub(super) swappable: Bytes,
    /// All memory of the group except `droppable` and `swappable`.
    pub(super) hot: Bytes,
    /// Peak of anonymous memory while the group was watched, minus its size at the end.
    pub(super) spike: Bytes,
    /// Bytes of pages that were refaulted over the interval.
    pub(super) refaulted: Bytes,
}

impl Used {
    /// Returns the RAM that the group needs: memory in use, with anonymous memory at its peak
    /// instead of its current size, plus pages that were reclaimed although they were in use. A
    /// page that refaults several times counts each time, so this part is limited to the memory in
    /// use.
    pub(super) fn needed_memory(&self) -> Bytes {
        self.hot.saturating_add(self.spike).saturating_add(self.refaulted.min(self.hot))
    }
}

/// Determines how much of a group's memory is in use; `None` if a counter that is needed is absent
/// or denied.
pub(super) fn measure(
    host: &Snapshot,
    inputs: &LimitInputs<'_>,
    pair: &GroupPair<'_>,
) -> Option<Used> {
    let group = pair.now;
    let (current, anon) = (group.current.get()?, group.anon.get()?);
    let shmem = group.shmem.get().unwrap_or_default();
    let cache = group.file.get()?.saturating_sub(shmem);
    let locked = unevictable(group).get().unwrap_or_default();
    let idle = idle(host, inputs, group)?;
    // locked pages may be idle too, and it is not known whether they are page cache
    let droppable = idle.file.min(cache.saturating_sub(locked));
    let room = groups::swap_room(host, group).unwrap_or_default();
    let idle_anon = idle.anon.unwrap_or_default();
    let swappable = idle_anon.min(anon.saturating_add(shmem).saturating_sub(locked)).min(room);
    let hot = current.saturating_sub(droppable).saturating_sub(swappable).max(locked.min(current));
    let before = pair.before.and_then(|before| before.anon.get());
    let peak = inputs.watched.and_then(|watched| watched.anon_peak).max(before);
    Some(Used {
        idle,
        droppable,
        swappable,
        hot,
        spike: peak.unwrap_or_default().saturating_sub(anon),
        refaulted: refaulted_bytes(host, pair),
    })
}

/// Returns the idle memory of a group from the best available source: accessed bits, otherwise
/// generations of multi-gen LRU, otherwise the inactive lists.
fn idle(host: &Snapshot, inputs: &LimitInputs<'_>, group: &Cgroup) -> Option<IdleMemory> {
    let watched = inputs.watched.filter(|_| inputs.selected == Some(&group.path));
    watched
        .filter(|watched| !watched.processes.is_empty())
        .map(|watched| idle_by_accessed_bits(watched, group))
        .or_else(|| idle_by_generations(host, inputs, group))
        .or_else(|| idle_by_list(inputs, group))
}

/// Returns the idle memory of a group according to the accessed bits of its pages. Page cache that
/// no process maps has no accessed bits; for this, the inactive file list is used if it is larger.
fn idle_by_accessed_bits(watched: &WatchedMemory, group: &Cgroup) -> IdleMemory {
    let mapped: Bytes = watched.processes.iter().map(|process| process.idle_file).sum();
    let not_read = watched.cost.not_read;
    IdleMemory {
        method: IdleMethod::AccessedBits,
        seconds: Some(watched.cost.seconds),
        anon: Some(watched.processes.iter().map(|process| process.idle_anon).sum()),
        file: mapped.max(inactive_file(group).unwrap_or_default()),
        left_out: match not_read {
            0 => String::new(),
            1 => "1 process could not be watched; all of its memory counts as used".to_owned(),
            more => {
                format!("{more} processes could not be watched; all of their memory counts as used")
            }
        },
    }
}

/// Returns the idle memory of a group according to the generations of multi-gen LRU. `None` if the
/// kernel has not aged the pages of the group and its descendants for long enough.
fn idle_by_generations(
    host: &Snapshot,
    inputs: &LimitInputs<'_>,
    group: &Cgroup,
) -> Option<IdleMemory> {
    let (mut anon, mut file) = (Pages::new(0), Pages::new(0));
    let mut observed = Millis::new(0);
    for each in inputs.generations.value()? {
        if !groups::is_in(each.path.as_str(), group.path.as_str()) {
            continue;
        }
        let (more_anon, more_file) = each.idle(inputs.age);
        anon = anon.saturating_add(more_anon);
        file = file.saturating_add(more_file);
        observed = observed.max(each.observed());
    }
    (observed >= inputs.age).then(|| IdleMemory {
        method: IdleMethod::Generations,
        seconds: Some(inputs.age.get() as f64 / 1000.0),
        anon: Some(anon.to_bytes(host.page_size())),
        file: file.to_bytes(host.page_size()),
        left_out: "files that are read without a mapping do not get younger by that".to_owned(),
    })
}

/// Returns the idle memory in the same way as kubelet and cAdvisor compute their working set: it is
/// the page cache on the inactive list.
fn idle_by_list(inputs: &LimitInputs<'_>, group: &Cgroup) -> Option<IdleMemory> {
    let unseen = inputs.generations.value().map(|_| {
        let age = duration::format_rough(inputs.age.get() as f64 / 1000.0);
        format!("its generations cover less than {age}: the kernel checks accesses only when it reclaims memory")
    });
    Some(IdleMemory {
        method: IdleMethod::InactiveList,
        seconds: None,
        anon: None,
        file: inactive_file(group)?,
        left_out: unseen.unwrap_or_default(),
    })
}

fn inactive_file(group: &Cgroup) -> Option<Bytes> {
    counter(group, "inactive_file").get()
}

/// Returns the memory that cannot be reclaimed (`unevictable`).
pub(super) fn unevictable(group: &Cgroup) -> Reading<Bytes> {
    counter(group, "unevictable")
}

/// Returns a size in `memory.stat` with descendants included, which have separate names (`total_…`)
/// in version 1.
fn counter(group: &Cgroup, name: &str) -> Reading<Bytes> {
    let total = group.stat.get(&format!("total_{name}"));
    let found = if total.value().is_some() { total } else { group.stat.get(name) };
    found.map(Bytes::new)
}

/// Number of file and anonymous pages that were refaulted over the interval; `None` if both are
/// unknown.
pub(super) fn refaults(pair: &GroupPair<'_>) -> Option<Change> {
    let file = pair.change(|group| &group.refault_file);
    let anon = pair.change(|group| &group.refault_anon);
    let (Some(file), Some(anon)) = (&file, &anon) else { return file.or(anon) };
    Some(Change {
        delta: file.delta.saturating_add(anon.delta),
        per_second: file.per_second + anon.per_second,
        ..file.clone()
    })
}

fn refaulted_bytes(host: &Snapshot, pair: &GroupPair<'_>) -> Bytes {
    let pages = refaults(pair).map_or(0, |refaults| refaults.delta);
    Pages::new(pages).to_bytes(host.page_size())
}

/// Returns the smaller of `memory.high` and `memory.max`; version 1 has only the latter.
pub(super) fn own_limit(group: &Cgroup) -> &Reading<Limit> {
    match (group.high.get(), group.max.get()) {
        (Some(high), Some(max)) if high < max => &group.high,
        _ => &group.max,
    }
}
