// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Problems of the host as a whole: one signal for each bad Reading.

use pagewise_facts::groups;
use pagewise_facts::growth::{self, Growth, GrowthLimit};
use pagewise_facts::reclaim::{self, Thrashing};
use pagewise_facts::room::{self, Headroom};
use pagewise_facts::swap_disk::{self, SwapDisk};
use pagewise_model::{
    Bytes, Cgroup, Change, Interval, Level, OomConstraint, OomKill, Percent, Snapshot,
};

use super::group::{self, GroupTrouble};
use crate::grade::spared::is_spared;
use crate::grade::{self, commit, headroom, pressure};
use crate::oom;

/// One problem of the host, with its level.
#[derive(Debug)]
pub(crate) struct Signal<'a> {
    pub(crate) level: Level,
    pub(crate) cause: Cause<'a>,
}

/// The cause of a signal: which problem the host has. Causes of equal level are listed in the order
/// of these variants.
#[derive(Debug)]
pub(crate) enum Cause<'a> {
    /// The machine ran out of memory recently, according to the kernel log.
    RecentKill(Box<OomKill>),
    /// Processes were killed over the interval, not because of the limit of a cgroup.
    Kills(Change),
    /// Little memory is available: how much, and how much swapping out could still free.
    Available(Headroom),
    /// Tasks of the host are stalled on memory: shares of the last minute, or of ten seconds if
    /// that is worse. If this has ended: how many seconds ago.
    Pressure { some: Percent, full: Option<Percent>, span: &'static str, ended: Option<f64> },
    /// Tasks are stalled on I/O, while the kernel swaps to a disk that is slow to answer.
    SwapDisk(SwapDisk<'a>),
    /// On a host without PSI: most of what is read from disk was dropped from memory shortly
    /// before.
    Thrashing(Thrashing),
    /// A process or group will soon fill memory.
    Growth(Growth<'a>),
    /// Strict overcommit accounting will soon refuse allocations.
    CommitLimit { committed: Bytes, limit: Bytes },
    /// Swap is nearly full; the share of it in use.
    Swap(Percent),
}

/// All problems of the host that show memory is short, worst first.
pub(crate) fn signals(interval: &Interval) -> Vec<Signal<'_>> {
    let host = &interval.end;
    let room = room::room(host);
    let troubled = group::find_troubled(interval);
    let is_groups = is_spared(host)
        && (troubled.iter().any(GroupTrouble::waits) || !oom::recent(interval).groups.is_empty());
    let mut signals = vec![
        kills(interval),
        room.map(|room| (headroom::level(&room), Cause::Available(room))),
        pressure(interval).filter(|_| !is_groups),
        swap_disk(interval),
        thrashing(interval).filter(|_| !is_groups),
        growth(interval),
        commit::near_limit(host).map(|near| {
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

/// Whether the host as a whole, which has this level, is short of memory in a way that more swap changes.
#[must_use]
pub fn host_is_short(interval: &Interval, level: Level) -> bool {
    level > Level::Calm && !only_nodes_are_short(interval)
}

/// Whether the only problem of the host is that NUMA nodes ran out: processes were killed that were
/// restricted to those nodes by a memory policy or the `cpuset.mems` of a cgroup.
#[must_use]
pub fn only_nodes_are_short(interval: &Interval) -> bool {
    let of_nodes = |kill: &OomKill| {
        matches!(kill.constraint, Some(OomConstraint::Cpuset | OomConstraint::Policy))
    };
    let signals = signals(interval);
    let is_kill = |signal: &Signal<'_>| matches!(signal.cause, Cause::RecentKill(_));
    !signals.is_empty()
        && signals.iter().all(is_kill)
        && oom::recent(interval).host.iter().all(of_nodes)
}

/// Processes killed for lack of memory that no cgroup's limit explains. The host's counter includes
/// kills inside cgroups.
fn kills(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let mut recent = oom::recent(interval);
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

/// A slow swap disk for which tasks wait, if PSI of memory does not already show that they wait: it
/// does not count a page that is read back for the first time after it was swapped out long ago.
fn swap_disk(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let host = &interval.end;
    if is_spared(host) || pressure::grade(interval).is_some() {
        return None;
    }
    pressure::level_of(&host.psi.io)?;
    Some((Level::Short, Cause::SwapDisk(swap_disk::slow(interval)?)))
}

/// The host's thrashing as a signal; used only without PSI, which measures the lost time itself.
fn thrashing(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let thrashing = reclaim::thrashing(interval).filter(Thrashing::is_most)?;
    Some((Level::Short, Cause::Thrashing(thrashing)))
}

/// Growth that will soon fill the host's memory. Only growth of the host itself counts: a group
/// that is being filled is reported when it is full.
fn growth(interval: &Interval) -> Option<(Level, Cause<'_>)> {
    let mut growing = growth::growing(interval).into_iter();
    let first = growing.find(|growth| matches!(growth.into, GrowthLimit::Host))?;
    let level = grade::growth::level(&first)?;
    Some((level, Cause::Growth(first)))
}

/// What could not be judged on this host, and why.
pub(crate) fn unknown(host: &Snapshot) -> Vec<String> {
    let mut unknown = Vec::new();
    if host.memory.available.get().is_none() {
        unknown.push("how much memory is available".to_owned());
    }
    if host.psi.memory.some.avg10.get().is_none() && host.psi.memory.some.avg60.get().is_none() {
        unknown.push("how long programs wait for memory".to_owned());
    }
    unknown
}

/// Maximum number of groups under pressure that are compared with each other; of thousands the
/// worst are kept.
const COMPARED: usize = 200;

/// Groups whose memory pressure is above a threshold, worst first. The root is left out, because it
/// is the host.
pub(crate) fn pressed_groups(host: &Snapshot, most: usize) -> Vec<&Cgroup> {
    by_waiting(host, |group| pressure::level_of(&group.pressure).is_some(), most)
}

/// The group whose tasks waited for memory the longest in the last minute, and the share of it;
/// `None` if none waited, or PSI is not known. The root is left out.
pub(crate) fn most_waiting(host: &Snapshot) -> Option<(&Cgroup, Percent)> {
    let waits = |group: &Cgroup| hundredths(group).is_some_and(|some| some > 0);
    let group = by_waiting(host, waits, 1).into_iter().next()?;
    Some((group, group.pressure.some.avg60.get()?))
}

fn by_waiting(host: &Snapshot, matches: impl Fn(&Cgroup) -> bool, most: usize) -> Vec<&Cgroup> {
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
