// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cgroups: which lies below which, which is held by its own limit, which unit one is.

use pagewise_model::{Bytes, Cgroup, Change, Interval, Limit, Reading, Snapshot};

/// A group that reached its limit during the interval.
#[derive(Debug)]
pub(crate) struct AtLimit<'a> {
    pub(crate) group: &'a Cgroup,
    /// The file that holds the limit.
    pub(crate) file: &'static str,
    pub(crate) limit: Bytes,
    pub(crate) reading: &'a Reading<Limit>,
    pub(crate) reached: Change,
}

impl AtLimit<'_> {
    /// `max` or `high`.
    pub(crate) fn what(&self) -> &'static str {
        self.file.trim_start_matches("memory.")
    }

    /// What systemd calls the limit.
    pub(crate) fn property(&self) -> &'static str {
        if self.what() == "max" { "MemoryMax" } else { "MemoryHigh" }
    }
}

/// The innermost limit that holds this group: its own, or one of a group above it.
pub(crate) fn at_limit<'a>(interval: &'a Interval, group: &Cgroup) -> Option<AtLimit<'a>> {
    let groups = interval.end.cgroups.groups.iter();
    let around = groups.filter(|other| other.path == group.path || is_below(group, other));
    // parents come before children
    around.rev().find_map(|other| reached(interval, other))
}

fn reached<'a>(interval: &Interval, group: &'a Cgroup) -> Option<AtLimit<'a>> {
    type Event = fn(&Cgroup) -> &Reading<u64>;
    let limits: [(&'static str, &Reading<Limit>, Event); 2] = [
        ("memory.max", &group.max, |group| &group.events.max),
        ("memory.high", &group.high, |group| &group.events.high),
    ];
    limits.into_iter().find_map(|(file, reading, event)| {
        let Limit::Bytes(limit) = reading.get()? else { return None };
        let same = |host: &Snapshot| {
            let same = host.cgroups.groups.iter().find(|other| other.path == group.path);
            same.map_or_else(Reading::not_read, |same| event(same).clone())
        };
        let reached = interval.change(same).filter(|change| change.delta > 0)?;
        Some(AtLimit { group, file, limit, reading, reached })
    })
}

/// Whether the swap of any group would not fit back under its limit.
pub(crate) fn any_would_burst(host: &Snapshot) -> bool {
    let held = |group: &Cgroup| {
        Some(group.current.get()?.get().saturating_add(group.swap_current.get()?.get()))
    };
    host.cgroups.groups.iter().any(|group| match (group.max.get(), held(group)) {
        (Some(Limit::Bytes(limit)), Some(held)) => {
            held > limit.get() && group.swap_current.get() > Some(Bytes::new(0))
        }
        _ => false,
    })
}

/// Whether one group lies somewhere below the other.
pub(crate) fn is_below(group: &Cgroup, above: &Cgroup) -> bool {
    let rest = group.path.as_str().strip_prefix(above.path.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The unit of the system's systemd that this group is; a user's units are not for it to set.
pub(crate) fn system_unit(group: &Cgroup) -> Option<&str> {
    let path = group.path.as_str().trim_start_matches('/');
    let unit = path.strip_prefix("system.slice/").unwrap_or(path);
    let is_unit = !unit.contains('/') && (unit.ends_with(".service") || unit.ends_with(".slice"));
    is_unit.then_some(unit)
}
