// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cgroups: which lies below which, which is held by its own limit, which unit one is.

use std::collections::HashMap;

use pagewise_model::{Bytes, Cgroup, Change, Interval, Limit, Reading, Snapshot};

use crate::room;

/// A cgroup at both ends of an interval.
#[derive(Debug, Clone, Copy)]
pub struct GroupPair<'a> {
    /// `None` if it did not exist yet, or without an earlier look.
    pub before: Option<&'a Cgroup>,
    /// At the end of the interval.
    pub now: &'a Cgroup,
    /// Length of the interval.
    pub(crate) seconds: Option<f64>,
}

/// Every cgroup but the root, parents before children.
pub fn pairs(interval: &Interval) -> Vec<GroupPair<'_>> {
    let start = interval.start.iter().flat_map(|start| &start.cgroups.groups);
    let before: HashMap<&str, &Cgroup> = start.map(|group| (group.path.as_str(), group)).collect();
    let seconds = interval.seconds();
    let groups = interval.end.cgroups.groups.iter().filter(|group| group.path.as_str() != "/");
    let pair = |now| GroupPair { before: before.get(path_of(now)).copied(), now, seconds };
    groups.map(pair).collect()
}

fn path_of(group: &Cgroup) -> &str {
    group.path.as_str()
}

impl GroupPair<'_> {
    /// How a counter of this group moved; `None` if it cannot be known or the counter was reset.
    pub fn change(&self, pick: impl Fn(&Cgroup) -> &Reading<u64>) -> Option<Change> {
        let seconds = self.seconds?;
        let after = pick(self.now);
        let delta = after.get()?.checked_sub(pick(self.before?).get()?)?;
        let per_second = delta as f64 / seconds;
        Some(Change { delta, per_second, seconds, source: after.source.clone() })
    }

    /// How many bytes of anonymous memory were added over the interval; shmem that went to swap is none.
    pub fn growth(&self) -> Option<i64> {
        let before = self.before?;
        let shmem = |group: &Cgroup| group.shmem.get().unwrap_or(Bytes::new(0));
        let swapped_shmem = shmem(before).saturating_sub(shmem(self.now));
        let added = i64::try_from(anonymous(self.now)?.get()).ok()?
            - i64::try_from(anonymous(before)?.get()).ok()?;
        Some(added.saturating_sub(i64::try_from(swapped_shmem.get()).ok()?))
    }

    /// How often the limits of this group were reached over the interval; in version 2 the groups
    /// below it are counted too, and the caller has to take them off.
    pub fn reached(&self) -> Option<u64> {
        let is_set = |limit: &Reading<Limit>| limit.get().is_some_and(is_limit);
        let max = is_set(&self.now.max).then(|| self.change(|group| &group.events.max));
        let high = is_set(&self.now.high).then(|| self.change(|group| &group.events.high));
        let known: Vec<u64> =
            [max, high].into_iter().flatten().flatten().map(|change| change.delta).collect();
        (!known.is_empty()).then(|| known.into_iter().sum())
    }
}

fn is_limit(limit: Limit) -> bool {
    limit != Limit::Max
}

/// A group that reached its limit during the interval.
#[derive(Debug)]
pub struct AtLimit<'a> {
    /// The file that holds the limit, `memory.max` or `memory.high`.
    pub file: &'static str,
    /// Its value.
    pub limit: Bytes,
    /// Where it was read.
    pub reading: &'a Reading<Limit>,
    /// How often it was reached, as the kernel counts in `memory.events`.
    pub reached: Change,
}

/// The limit of this group that was reached over the interval.
pub fn own_limit<'a>(pair: &GroupPair<'a>) -> Option<AtLimit<'a>> {
    type Event = fn(&Cgroup) -> &Reading<u64>;
    let group = pair.now;
    let limits: [(&'static str, &Reading<Limit>, Event); 2] = [
        ("memory.max", &group.max, |group| &group.events.max),
        ("memory.high", &group.high, |group| &group.events.high),
    ];
    limits.into_iter().find_map(|(file, reading, event)| {
        let Limit::Bytes(limit) = reading.get()? else { return None };
        let reached = pair.change(event).filter(|change| change.delta > 0)?;
        Some(AtLimit { file, limit, reading, reached })
    })
}

/// What of a group's memory cannot be dropped, only swapped: all but the page cache that has a disk
/// behind it and reclaimable slab.
pub fn unreclaimable(group: &Cgroup) -> Option<Bytes> {
    let cache = group.file.get()?.saturating_sub(group.shmem.get().unwrap_or(Bytes::new(0)));
    let slab = group.stat.get("slab_reclaimable").get().unwrap_or(0);
    Some(group.current.get()?.saturating_sub(cache).saturating_sub(Bytes::new(slab)))
}

/// Anonymous memory of a group and what it has in swap: as the memory of a process is judged.
///
/// `memory.current` is no help: the kernel counts it at once and `memory.stat` up to two seconds later,
/// so the difference of the two would take a burst of page cache for growth.
pub fn anonymous(group: &Cgroup) -> Option<Bytes> {
    let swapped = group.swap_current.get().unwrap_or(Bytes::new(0));
    Some(group.anon.get()?.saturating_add(swapped))
}

/// How much of a group's memory swap could still take; `None` if it could not be determined.
pub fn swap_room(host: &Snapshot, group: &Cgroup) -> Option<Bytes> {
    if group.swappiness.get() == Some(0) {
        return Some(Bytes::new(0));
    }
    let of_host = room::room(host)?.swap?;
    Some(match group.swap_max.get() {
        Some(Limit::Bytes(limit)) => {
            let held = group.swap_current.get().unwrap_or(Bytes::new(0));
            limit.saturating_sub(held).min(of_host)
        }
        Some(Limit::Max) | None => of_host,
    })
}

/// Whether one group lies somewhere below the other.
pub fn is_below(group: &Cgroup, above: &Cgroup) -> bool {
    let rest = group.path.as_str().strip_prefix(above.path.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The unit of the system's systemd that this group is; a user's units are not for it to set.
pub fn system_unit(group: &Cgroup) -> Option<&str> {
    let path = group.path.as_str().trim_start_matches('/');
    let unit = path.strip_prefix("system.slice/").unwrap_or(path);
    let is_unit = !unit.contains('/') && (unit.ends_with(".service") || unit.ends_with(".slice"));
    is_unit.then_some(unit)
}
