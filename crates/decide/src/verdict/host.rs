// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Problems of the host as a whole. Each Reading with a bad value leads to one signal.

use pagewise_facts::groups;
use pagewise_facts::growth::{self, Growth, GrowthLimit};
use pagewise_facts::reclaim::{self, Thrashing};
use pagewise_facts::room::{self, Headroom};
use pagewise_facts::swap_disk::{self, SwapDisk};
use pagewise_model::{
    Bytes, Cgroup, Change, Interval, Level, OomConstraint, OomKill, Percent, Snapshot,
};

use super::group::{self, GroupTrouble};
use crate::grade::spared::has_memory_to_spare;
use crate::grade::{self, commit, headroom, pressure};
use crate::oom;

/// One problem of the host, with its level.
#[derive(Debug)]
pub(crate) struct Signal<'a> {
    pub(crate) level: Level,
    pub(crate) cause: Cause<'a>,
}

/// The cause of a signal: the problem that the host has. Causes of equal level are listed in the
/// order of these variants.
#[derive(Debug)]
pub(crate) enum Cause<'a> {
    /// The machine ran out of memory recently, according to the kernel log.
    RecentKill(Box<OomKill>),
    /// Processes were killed over the interval for another reason than the limit of a cgroup.
    Kills(Change),
    /// Little memory is available. Contains how much it is, and how much RAM swapping out could
    /// still free.
    Available(Headroom),
    /// Tasks of the host are stalled on memory. Contains the stalled shares of the last minute, or
    /// of ten seconds if these are worse, and how many seconds ago the pressure ended if it has
    /// ended.
    Pressure { some: Percent, full: Option<Percent>, span: &'static str, ended: Option<f64> },
    /// Tasks are stalled on I/O, while the kernel swaps to a slow disk.
    SwapDisk(SwapDisk<'a>),
    /// On a host without PSI: most of what is read from disk had been dropped from memory shortly
    /// before.
    Thrashing(Thrashing),
    /// A process or group will soon fill memory.
    Growth(Growth<'a>),
    /// Strict overcommit accounting will soon refuse allocations.
    CommitLimit { committed: Bytes, limit: Bytes },
    /// Swap is nearly full. Contains the used share.
    Swap(Percent),
}

/// Returns all problems of the host which show that memory is short, worst first.
pub(crate) fn signals(interval: &Interval) -> Vec<Signal<'_>> {
    let host = &interval.end;
    let room = room::measure_headroom(host);
    let troubled = group::find_troubled(interval);
    let is_groups = has_memory_to_spare(host)
        && (troubled.iter().any(GroupTrouble::waits)
            || !oom::recent_kills(interval).groups.is_empty());
    let mut signals = vec![
        find_kills(interval),
        room.map(|room| (headroom::level(&room), Cause::Available(room))),
        pressure(interval).filter(|_| !is_groups),
        swap_disk(interval),
        thrashing(interval).filter(|_| !is_groups),
        growth(interval),
        commit::find_near_limit(host).map(|near| {
            (near.level, Cause::CommitLimit { committed: near.committed, limit: near.limit })
        }),
        room.and_then(|room| Some((headroom::swap_level(&room), Cause::Swap(room.swap_filled?)))),
    ];
    let mut signals: Vec<Signal<'_>> = signals
        .drain(..)
        .flatten()
        .filter(|(level, _)| *level > Level::Calm)
        .map(|(level, cause)| Signal { level, cause })
        .collect();
    signals.sort_by_key(|signal| std::cmp::Reverse(signal.level));
    signals
}

/// Whether the host as a whole is short of memory in a way that more swap would improve. `level` is
/// the host's level.
#[must_use]
pub fn is_host_short(interval: &Interval, level: Level) -> bool {
    level > Level::Calm && !are_only_nodes_short(interval)
}

/// Whether the only problem of the host is that some NUMA nodes ran out of memory: processes were
/// killed that a memory policy or the `cpuset.mems` of a cgroup restricted to these nodes.
#[must_use]
pub fn are_only_nodes_short(interval: &Interval) -> bool {
    let of_nodes = |kill: &OomKill| {
        matches!(kill.constraint, Some(OomConstraint::Cpuset | OomConstraint::Policy))
    };
    let signals = signals(interval);
    let is_kill = |signal: &Signal<'_>| matches!(signal.cause, Cause::RecentKill(_));
    !signals.is_empty()
        && signals.iter().all(is_kill)
        && oom::recent_kills(interval).host.iter().all(of_nodes)
}

/// Returns the processes that were killed for lack of memory but not because of a cgroup's limit.
/// The host's counter includes kills inside cgroups.
fn find_kills(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let mut recent = oom::recent_kills(interval);
    if let Some(last) = recent.host.pop() {
        return Some((Level::Critical, Cause::RecentKill(Box::new(last))));
    }
    let mut kills = interval.vmstat("oom_kill").filter(|kills| kills.delta > 0)?;
    let troubled = group::find_troubled(interval);
    let in_group = troubled.iter().flat_map(|group| &group.troubles).map(|(_, trouble)| {
        if let group::Trouble::Kills(kills) = trouble { kills.delta } else { 0 }
    });
    // Kills because of a cgroup's limit are subtracted: those that the counters of the groups show,
    // or those in the kernel log if they are more.
    let in_groups = in_group.sum::<u64>().max(recent.groups.len() as u64);
    kills.delta = kills.delta.saturating_sub(in_groups);
    (kills.delta > 0).then_some((Level::Critical, Cause::Kills(kills)))
}

fn pressure(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let memory = &interval.end.psi.memory;
    let graded = pressure::grade(interval)?;
    let minute = memory.some.avg60.get();
    let seconds = memory.some.avg10.get();
    let (some, full, span) = match (minute, seconds) {
        (Some(minute), Some(seconds)) if seconds.get() > 2.0 * minute.get() => {
            (seconds, memory.full.avg10.get(), "10 seconds")
        }
        (Some(minute), _) => (minute, memory.full.avg60.get(), "minute"),
        (None, seconds) => (seconds?, memory.full.avg10.get(), "10 seconds"),
    };
    Some((graded.shortage, Cause::Pressure { some, full, span, ended: graded.ended }))
}

/// Returns a slow swap disk for which tasks wait, unless PSI of memory already shows that they
/// wait. PSI does not count the wait for a page that was swapped out long ago and is read back for
/// the first time.
fn swap_disk(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let host = &interval.end;
    if has_memory_to_spare(host) || pressure::grade(interval).is_some() {
        return None;
    }
    pressure::level_of(&host.psi.io)?;
    Some((Level::Short, Cause::SwapDisk(swap_disk::find_slow_disk(interval)?)))
}

/// Returns the host's thrashing as a signal. It is used only without PSI, which measures the lost
/// time itself.
fn thrashing(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let thrashing = reclaim::measure_thrashing(interval).filter(Thrashing::is_most)?;
    Some((Level::Short, Cause::Thrashing(thrashing)))
}

/// Returns growth that will soon fill the host's memory. Growth that will fill the limit of a group
/// is not considered, because such a group is reported when it is full.
fn growth(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let mut growing = growth::find_growing(interval).into_iter();
    let first = growing.find(|growth| matches!(growth.into, GrowthLimit::Host))?;
    let level = grade::growth::level(&first)?;
    Some((level, Cause::Growth(first)))
}

/// Returns what could not be judged on this host, and why.
pub(crate) fn collect_unknown(host: &Snapshot) -> Vec<String> {
    let mut unknown = Vec::new();
    if host.memory.available.get().is_none() {
        unknown.push("how much memory is available".to_owned());
    }
    if host.psi.memory.some.avg10.get().is_none() && host.psi.memory.some.avg60.get().is_none() {
        unknown.push("how long programs wait for memory".to_owned());
    }
    unknown
}

/// Maximum number of groups under pressure that are compared with each other. If there are more,
/// the worst are compared.
const COMPARED: usize = 200;

/// Returns groups whose memory pressure is above a threshold, worst first. The root is left out,
/// because its pressure is that of the host.
pub(crate) fn groups_under_pressure(host: &Snapshot, most: usize) -> Vec<&Cgroup> {
    sort_by_waiting(host, |group| pressure::level_of(&group.pressure).is_some(), most)
}

/// Returns the group whose tasks waited for memory the longest in the last minute, and the share of
/// the minute; `None` if none waited, or if PSI is not known. The root is left out.
pub(crate) fn most_waiting(host: &Snapshot) -> Option<(&Cgroup, Percent)> {
    let waits = |group: &Cgroup| hundredths(group).is_some_and(|some| some > 0);
    let group = sort_by_waiting(host, waits, 1).into_iter().next()?;
    Some((group, group.pressure.some.avg60.get()?))
}

fn sort_by_waiting(
    host: &Snapshot,
    matches: impl Fn(&Cgroup) -> bool,
    most: usize,
) -> Vec<&Cgroup> {
    let mut pressed: Vec<(u64, &Cgroup)> = host
        .cgroups
        .groups
        .iter()
        .filter(|group| group.path.as_str() != "/" && matches(group))
        .filter_map(|group| Some((hundredths(group)?, group)))
        .collect();
    pressed.sort_by_key(|(some, _)| std::cmp::Reverse(*some));
    pressed.truncate(COMPARED);
    let told_below = |some: u64, group: &Cgroup| {
        let below = pressed.iter().filter(|(_, other)| groups::is_below(other, group));
        below.into_iter().any(|(other, _)| other * 10 >= some * 9)
    };
    let innermost = pressed.iter().filter(|(some, group)| !told_below(*some, group));
    innermost.take(most).map(|(_, group)| *group).collect()
}

fn hundredths(group: &Cgroup) -> Option<u64> {
    let some = group.pressure.some.avg60.get()?.get().clamp(0.0, 100.0);
    #[expect(clippy::cast_possible_truncation, reason = "clamped just before")]
    #[expect(clippy::cast_sign_loss, reason = "clamped just before")]
    Some((some * 100.0) as u64)
}
