// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about memory cgroups: which group is below which, which group reached its own limit, and
//! to which systemd unit a group belongs.

use std::collections::HashMap;

use pagewise_model::{
    Bytes, Cgroup, Change, Interval, Limit, Name, Process, Reading, Snapshot, unit_of,
};

use crate::room;

/// A cgroup in both snapshots of an interval.
#[derive(Debug, Clone, Copy)]
pub struct GroupPair<'a> {
    /// The cgroup at the start of the interval; `None` if it did not exist yet, or there is no
    /// earlier snapshot.
    pub before: Option<&'a Cgroup>,
    /// The cgroup at the end of the interval.
    pub now: &'a Cgroup,
    /// Length of the interval, in seconds.
    pub(crate) seconds: Option<f64>,
}

/// All cgroups of the host except the root, each with its earlier state; parents come before
/// children.
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
    /// The change of a counter of this group; `None` if it is not known or the counter was reset.
    pub fn change(&self, pick: impl Fn(&Cgroup) -> &Reading<u64>) -> Option<Change> {
        let seconds = self.seconds?;
        let after = pick(self.now);
        let delta = after.get()?.checked_sub(pick(self.before?).get()?)?;
        let per_second = delta as f64 / seconds;
        Some(Change { delta, per_second, seconds, source: after.source.clone() })
    }

    /// Growth of the group's anonymous memory over the interval, in bytes; shared memory (shmem)
    /// in swap does not count.
    pub fn growth(&self) -> Option<i64> {
        let before = self.before?;
        let shmem = |group: &Cgroup| group.shmem.get().unwrap_or(Bytes::new(0));
        let swapped_shmem = shmem(before).saturating_sub(shmem(self.now));
        let added = i64::try_from(anonymous_memory(self.now)?.get()).ok()?
            - i64::try_from(anonymous_memory(before)?.get()).ok()?;
        Some(added.saturating_sub(i64::try_from(swapped_shmem.get()).ok()?))
    }

    /// How often the limits of this group were reached over the interval. In version 2 this
    /// includes its child groups, which the caller has to subtract.
    pub fn count_limit_events(&self) -> Option<u64> {
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
    /// Name of the file that contains the limit: `memory.max` or `memory.high`.
    pub file: &'static str,
    /// The value of the limit.
    pub limit: Bytes,
    /// The reading from which the limit comes, with its source.
    pub reading: &'a Reading<Limit>,
    /// How often the limit was reached over the interval, as counted in `memory.events`; `None` if
    /// no event was counted, but the group uses at least its `memory.high`.
    pub reached: Option<Change>,
    /// Whether the limit is `memory.high` and the group uses at least that much now: the kernel
    /// slows such a group down.
    pub is_slowed: bool,
}

/// The limit of a group that was reached during the interval: `memory.max` if it was reached,
/// otherwise `memory.high`.
///
/// A group whose usage is at or above `memory.high` is at that limit even if no event was counted:
/// the kernel lets a task of such a group sleep for up to two seconds at a time, and a sleeping
/// task causes no event.
pub fn own_limit<'a>(pair: &GroupPair<'a>) -> Option<AtLimit<'a>> {
    type Event = fn(&Cgroup) -> &Reading<u64>;
    let group = pair.now;
    let limits: [(&'static str, &Reading<Limit>, Event); 2] = [
        ("memory.max", &group.max, |group| &group.events.max),
        ("memory.high", &group.high, |group| &group.events.high),
    ];
    limits.into_iter().find_map(|(file, reading, event)| {
        let Limit::Bytes(limit) = reading.get()? else { return None };
        let reached = pair.change(event).filter(|change| change.delta > 0);
        let is_slowed = file == "memory.high" && group.current.get().is_some_and(|it| it >= limit);
        let is_at_limit = reached.is_some() || is_slowed;
        is_at_limit.then_some(AtLimit { file, limit, reading, reached, is_slowed })
    })
}

/// How much memory of a group cannot be dropped, only swapped: all except reclaimable slab and
/// page cache of files on disk.
pub fn unreclaimable_memory(group: &Cgroup) -> Option<Bytes> {
    let cache = group.file.get()?.saturating_sub(group.shmem.get().unwrap_or(Bytes::new(0)));
    let slab = group.stat.get("slab_reclaimable").get().unwrap_or(0);
    Some(group.current.get()?.saturating_sub(cache).saturating_sub(Bytes::new(slab)))
}

/// Anonymous memory of a group in RAM and in swap.
/// [`Process::anonymous`](pagewise_model::Process::anonymous) is the same sum for a process.
///
/// `memory.current` is not suitable: the kernel updates it at once but `memory.stat` up to two
/// seconds later, so their difference would show a burst of page cache as growth.
pub fn anonymous_memory(group: &Cgroup) -> Option<Bytes> {
    let swapped = group.swap_current.get().unwrap_or(Bytes::new(0));
    Some(group.anon.get()?.saturating_add(swapped))
}

/// How much more memory of a group could be swapped out; `None` if it could not be determined.
pub fn swap_room(host: &Snapshot, group: &Cgroup) -> Option<Bytes> {
    if group.swappiness.get() == Some(0) {
        return Some(Bytes::new(0));
    }
    let of_host = room::measure_headroom(host)?.swap?;
    Some(match group.swap_max.get() {
        Some(Limit::Bytes(limit)) => {
            let held = group.swap_current.get().unwrap_or(Bytes::new(0));
            limit.saturating_sub(held).min(of_host)
        }
        Some(Limit::Max) | None => of_host,
    })
}

/// The ancestor cgroup whose own limit leaves the least room, and how much room that is; `None` if
/// no ancestor has a known limit and usage.
pub fn least_room_above<'a>(host: &'a Snapshot, group: &Cgroup) -> Option<(&'a Cgroup, Bytes)> {
    let above = host.cgroups.groups.iter().filter(|above| is_below(group, above));
    let room = |above: &'a Cgroup| {
        let (limit, used) = (above.max.get()?.bytes()?, above.current.get()?);
        Some((above, limit.saturating_sub(used)))
    };
    above.filter_map(room).min_by_key(|(_, room)| *room)
}

/// Whether this cgroup is, or is inside, a cgroup that Pagewise created for a run of its own:
/// `trial`, `lab` and `bench` name theirs `pagewise-PID-NUMBER`. Memory shortage in such a group is
/// intended.
pub fn is_own(path: &Name) -> bool {
    path.as_str().split('/').any(|part| {
        let numbers = part.strip_prefix("pagewise-").and_then(|rest| rest.split_once('-'));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        numbers.is_some_and(|(pid, number)| is_number(pid) && is_number(number))
    })
}

/// Whether this process is a Pagewise command, such as `capture` in the background, or is in a
/// cgroup of a run of Pagewise.
pub fn is_own_process(process: &Process) -> bool {
    process.is_pagewise() || process.cgroup.value().is_some_and(is_own)
}

/// The process with the most anonymous memory in this group and its descendants, and the size of
/// that memory.
pub fn largest_process<'a>(host: &'a Snapshot, group: &Cgroup) -> Option<(&'a Process, Bytes)> {
    let inside =
        host.processes.list.iter().filter(|process| contains_process(&group.path, process));
    inside.filter_map(|process| Some((process, process.anonymous()?))).max_by_key(|(_, it)| *it)
}

/// Whether the first group is a descendant of the second one.
pub fn is_below(group: &Cgroup, above: &Cgroup) -> bool {
    let rest = group.path.as_str().strip_prefix(above.path.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Whether `path` equals `above` or lies below it. Every path lies below the root.
pub fn is_in(path: &str, above: &str) -> bool {
    let rest = path.trim_matches('/').strip_prefix(above.trim_matches('/'));
    above.trim_matches('/').is_empty()
        || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a process is in the group with this path, or in a descendant.
pub fn contains_process(group: &Name, process: &Process) -> bool {
    process.cgroup.value().is_some_and(|own| is_in(own.as_str(), group.as_str()))
}

/// Finds the cgroup for a path that the user typed: the group's path, or the path of its folder
/// below `/sys/fs/cgroup`. In version 1, that folder is below one with the controller's name.
pub fn find<'a>(host: &'a Snapshot, typed: &str) -> Option<&'a Cgroup> {
    let below = typed.strip_prefix("/sys/fs/cgroup");
    let controller = below.and_then(|below| below.strip_prefix("/memory"));
    let spellings = [Some(typed), below, controller];
    let named = |typed: &str| {
        let is_it = |group: &&Cgroup| {
            group.path.as_str().trim_matches('/') == Name::from(typed).as_str().trim_matches('/')
        };
        host.cgroups.groups.iter().find(is_it)
    };
    spellings.into_iter().flatten().find_map(named)
}

/// Finds the groups of a systemd unit, by its name with or without `.service`, or of a container,
/// by its ID, a prefix of the ID, or its LXC name. There are several groups only if several users
/// have such a unit, or if several IDs have this prefix.
pub fn find_by_unit<'a>(host: &'a Snapshot, unit: &str) -> Vec<&'a Cgroup> {
    let service = format!("{unit}.service");
    let is_it = |group: &&Cgroup| {
        let last = group.path.as_str().rsplit('/').next().unwrap_or_default();
        last == unit || last == service || is_container(group, unit)
    };
    let mut found: Vec<&Cgroup> = host.cgroups.groups.iter().filter(is_it).collect();
    found.sort_by_key(|group| group.path.as_str().len());
    // cgroups that a container creates below its own are part of the container
    let mut tops: Vec<&Cgroup> = Vec::new();
    for group in found {
        let is_inside = |top: &&Cgroup| is_below(group, top);
        if !tops.iter().any(is_inside) {
            tops.push(group);
        }
    }
    tops
}

fn is_container(group: &Cgroup, wanted: &str) -> bool {
    /// Minimum length of a prefix of an ID: a shorter one is more likely a mistake.
    const LEAST: usize = 4;
    let named = unit_of(&group.path);
    let Some((_, id)) = named.as_deref().and_then(|named| named.split_once(' ')) else {
        return false;
    };
    let is_id = wanted.len() >= LEAST && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
    let begins = || {
        group.path.as_str().contains(wanted)
            && id.starts_with(&wanted[..wanted.len().min(id.len())])
    };
    id == wanted || named.as_deref() == Some(wanted) || (is_id && begins())
}

/// Name of the systemd unit of a group, if the system's systemd manages it; units of a user's
/// systemd are left out.
pub fn system_unit(group: &Cgroup) -> Option<&str> {
    let path = group.path.as_str().trim_start_matches('/');
    let unit = path.strip_prefix("system.slice/").unwrap_or(path);
    let is_unit = !unit.contains('/') && (unit.ends_with(".service") || unit.ends_with(".slice"));
    is_unit.then_some(unit)
}

/// Name of the service or scope of a cgroup's path, of the system's or a user's systemd: the
/// innermost one.
pub fn unit_of_path(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Snapshot {
        let mut host = Snapshot::default();
        for path in ["/", "/a", "/a/db.service", "/ab", "/user/db.service", "/x/web.service"] {
            host.cgroups.groups.push(Cgroup { path: Name::from(path), ..Cgroup::default() });
        }
        host
    }

    #[test]
    fn a_group_is_found_by_its_path_and_by_its_folder_in_either_version() {
        let host = host();
        let found = |typed| find(&host, typed).map(|group| group.path.as_str());
        assert_eq!(found("/a"), Some("/a"));
        assert_eq!(found("a/db.service/"), Some("/a/db.service"));
        assert_eq!(found("/sys/fs/cgroup/ab"), Some("/ab"));
        assert_eq!(found("/sys/fs/cgroup/memory/a/db.service"), Some("/a/db.service"));
        assert_eq!((found("/"), found("/c"), found("")), (Some("/"), None, Some("/")));
    }

    #[test]
    fn a_unit_may_be_that_of_several_users() {
        let host = host();
        let paths = |unit| find_by_unit(&host, unit).len();
        assert_eq!((paths("db"), paths("db.service"), paths("web"), paths("ab")), (2, 2, 1, 1));
        assert_eq!(paths("no"), 0);
    }

    #[test]
    fn a_container_is_found_by_its_id_or_how_that_begins_and_with_all_below_it() {
        let (one, two) = (format!("5f3c1d0e77aa{:052}", 1), format!("5f3c9999aaaa{:052}", 2));
        let mut host = Snapshot::default();
        for path in [
            format!("/docker/{one}"),
            format!("/docker/{one}/init"),
            format!("/machine.slice/libpod-{two}.scope/container"),
            format!("/machine.slice/libpod-{two}.scope"),
            "/lxc.payload.web/system.slice/cron.service".to_owned(),
            "/lxc.payload.web".to_owned(),
        ] {
            host.cgroups
                .groups
                .push(Cgroup { path: Name::from(path.as_str()), ..Cgroup::default() });
        }
        let paths = |unit: &str| -> Vec<String> {
            find_by_unit(&host, unit).iter().map(|group| group.path.as_str().to_owned()).collect()
        };
        let docker = format!("/docker/{one}");
        for id in ["5f3c1", "5f3c1d0e77aa", &one, "docker 5f3c1d0e77aa"] {
            assert_eq!(paths(id), [docker.as_str()], "{id}");
        }
        assert_eq!(paths("5f3c9"), [format!("/machine.slice/libpod-{two}.scope")]);
        assert_eq!(paths("web"), ["/lxc.payload.web"]);
        assert_eq!((paths("5f3c").len(), paths("5f3").len(), paths(&one[1..]).len()), (2, 0, 0));
    }

    #[test]
    fn groups_of_our_own_runs_are_known_by_their_names() {
        let is_own = |path: &str| is_own(&Name::from(path));
        assert!(is_own("/pagewise-9037-4") && is_own("/a/pagewise-1-0/below"));
        for other in
            ["/", "/pagewise", "/pagewise-1", "/pagewise-1-", "/pagewise-a-1", "/xpagewise-1-1"]
        {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn the_root_holds_all_and_a_group_no_namesake() {
        assert!(is_in("/a/b", "/a") && is_in("/a", "/a") && is_in("/c", "/"));
        assert!(!is_in("/ab", "/a") && !is_in("/", "/a"));
    }
}
