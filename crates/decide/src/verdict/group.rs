// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds cgroups that are short of memory because of their own limit, even if the host has free
//! memory.
//!
//! In cgroup version 2, `memory.events` includes events of descendants, so a group has reached its
//! own limit only if there are more events than its descendants explain. Version 1 counts each
//! group separately (`memory.failcnt`) but has no pressure files. With version 1, refaults and
//! major faults while the limit is being reached are used instead of the stall time. A group that
//! is full of page cache only is not short of memory, because page cache grows up to any limit.

use pagewise_facts::groups::{self, AtLimit, GroupPair};
use pagewise_facts::growth::{self, Grower, Growth, GrowthLimit};
use pagewise_facts::{reclaim, stalls};
use pagewise_model::{Bytes, Cgroup, Change, Interval, Level, Limit, Percent};

use crate::grade::{self, pressure, spared};

/// Memory that cannot be dropped nearly fills the limit if it is at least this share of it, in
/// percent.
const NEAR_PERCENT: f64 = 90.0;
const AT_PERCENT: f64 = 98.0;
/// Swap has room if its free part is at least this percentage of the group's limit.
pub(crate) const ROOM_PERCENT: f64 = 10.0;

/// A problem that a group has because of its own limit.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Processes of the group were killed because of its limit.
    Kills(Change),
    /// Tasks of the group are stalled on memory: shares of the last minute.
    Waits { some: Percent, full: Option<Percent> },
    /// The group refaults pages that were reclaimed, and its tasks wait for the disk.
    Rereads { refaults: Change, major_faults: Change },
    /// Memory that cannot be dropped nearly fills the limit, and swap has no room for it.
    Full { held: Bytes, limit: Bytes },
    /// The group, or a process or group inside it, will soon fill the limit.
    Fills { who: String, per_second: f64, lasts_seconds: f64 },
}

/// A group with a problem caused by its own limit.
#[derive(Debug)]
pub(crate) struct GroupTrouble<'a> {
    /// The group that has the limit.
    pub(crate) limited: &'a Cgroup,
    /// The level of the group's worst problem.
    pub(crate) level: Level,
    /// The group's problems, worst first.
    pub(crate) troubles: Vec<(Level, Trouble)>,
    /// The limit that the group reached over the interval.
    pub(crate) reached: Option<AtLimit<'a>>,
}

impl GroupTrouble<'_> {
    /// The size of the limit that causes the problems.
    pub(crate) fn limit(&self) -> Option<Bytes> {
        match &self.reached {
            Some(at) => Some(at.limit),
            None => self.limited.max.get()?.bytes(),
        }
    }

    /// Whether the kernel slows the group down because it uses at least its `memory.high`.
    pub(crate) fn is_slowed(&self) -> bool {
        self.reached.as_ref().is_some_and(|at| at.is_slowed)
    }

    /// Whether tasks of the group are stalled on memory.
    pub(crate) fn waits(&self) -> bool {
        let mut troubles = self.troubles.iter().map(|(_, trouble)| trouble);
        troubles.any(|trouble| matches!(trouble, Trouble::Waits { .. } | Trouble::Rereads { .. }))
    }
}

/// Every group with a problem caused by its own limit, worst first.
pub(crate) fn find_troubled(interval: &Interval) -> Vec<GroupTrouble<'_>> {
    let pairs = groups::pairs(interval);
    let growing = growth::find_growing(interval);
    let limited: Vec<&GroupPair<'_>> = pairs.iter().filter(|pair| has_limit(pair.now)).collect();
    let mut troubled: Vec<GroupTrouble<'_>> =
        (0..limited.len()).filter_map(|at| trouble(interval, &limited[at..], &growing)).collect();
    attribute_waiting(interval, &mut troubled);
    troubled.sort_by(|a, b| {
        (b.level, a.limited.path.as_str()).cmp(&(a.level, b.limited.path.as_str()))
    });
    troubled
}

/// Attributes the stalls of the host to the group that is stalled most, if the host has memory to
/// spare. That group gets the level of the host, so that the attribution never lowers a level.
fn attribute_waiting(interval: &Interval, troubled: &mut [GroupTrouble<'_>]) {
    let Some(level) = spared::level_of_waiting(interval) else { return };
    let waiting = troubled.iter_mut().filter(|group| group.waits());
    if let Some(worst) = waiting.max_by_key(|group| group.level) {
        worst.level = worst.level.max(level);
    }
}

fn has_limit(group: &Cgroup) -> bool {
    let is_set = |limit: Option<Limit>| limit.is_some_and(|limit| limit != Limit::Max);
    is_set(group.max.get()) || is_set(group.high.get())
}

/// Returns the problems of the first group of the list; its descendants must follow directly after
/// it.
fn trouble<'a>(
    interval: &Interval,
    limited: &[&GroupPair<'a>],
    growing: &[Growth<'a>],
) -> Option<GroupTrouble<'a>> {
    let (pair, after) = limited.split_first()?;
    let reached = find_own_reached_limit(pair, after);
    let mut troubles: Vec<(Level, Trouble)> = Vec::new();
    if reached.is_some() {
        troubles.extend(find_kills(pair));
        // the host's pressure includes that of its groups, so if it has ended, theirs has ended
        let has_ended = stalls::ended_seconds_ago(interval).is_some();
        let waits = waits(pair.now).filter(|_| !has_ended);
        troubles.extend(waits.or_else(|| find_rereading(pair)));
    }
    troubles.extend(find_full(interval, pair.now));
    troubles.extend(find_filling(growing, pair.now));
    troubles.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let level = troubles.first()?.0;
    Some(GroupTrouble { limited: pair.now, level, troubles, reached })
}

/// Returns the group's own limit, if the group reached it more often than its descendants explain.
fn find_own_reached_limit<'a>(
    pair: &GroupPair<'a>,
    after: &[&GroupPair<'a>],
) -> Option<AtLimit<'a>> {
    let at = groups::own_limit(pair)?;
    let below = after.iter().take_while(|other| groups::is_below(other.now, pair.now));
    let explained: u64 = below.filter_map(|other| other.count_limit_events()).sum();
    let hierarchical = pair.now.events.max.source.path().ends_with("memory.events");
    let is_own = at.reached.as_ref().is_some_and(|reached| reached.delta > explained);
    (!hierarchical || is_own || at.is_slowed).then_some(at)
}

fn find_kills(pair: &GroupPair<'_>) -> Option<(Level, Trouble)> {
    let kills = pair.change(|group| &group.events.oom_kill).filter(|kills| kills.delta > 0)?;
    Some((Level::Critical, Trouble::Kills(kills)))
}

fn waits(group: &Cgroup) -> Option<(Level, Trouble)> {
    let level = pressure::shortage(&group.pressure)?;
    let some = group.pressure.some.avg60.get()?;
    Some((level, Trouble::Waits { some, full: group.pressure.full.avg60.get() }))
}

/// Returns the problem that the working set of the group does not fit under its limit, if the group
/// has this problem. It is reported even if there is no pressure file, or if the stalls are below
/// the thresholds.
fn find_rereading(pair: &GroupPair<'_>) -> Option<(Level, Trouble)> {
    let refaults = pair.change(|group| &group.refault_file);
    let anon = pair.change(|group| &group.refault_anon);
    let refaults = [refaults, anon].into_iter().flatten().max_by_key(|change| change.delta)?;
    let major_faults = pair.change(|group| &group.pgmajfault)?;
    let hurts = reclaim::are_harmful(&refaults, &major_faults);
    hurts.then_some((Level::Short, Trouble::Rereads { refaults, major_faults }))
}

fn find_full(interval: &Interval, group: &Cgroup) -> Option<(Level, Trouble)> {
    let limit = group.max.get()?.bytes().filter(|&limit| limit > Bytes::new(0))?;
    let held = groups::unreclaimable_memory(group)?;
    let room = groups::swap_room(&interval.end, group).unwrap_or(Bytes::new(0));
    if room.percent_of(limit)?.get() >= ROOM_PERCENT {
        return None;
    }
    let level = match held.percent_of(limit)?.get() {
        percent if percent >= AT_PERCENT => Level::Short,
        percent if percent >= NEAR_PERCENT => Level::Tight,
        _ => return None,
    };
    Some((level, Trouble::Full { held, limit }))
}

fn find_filling(growing: &[Growth<'_>], group: &Cgroup) -> Option<(Level, Trouble)> {
    let growth = growing.iter().find(
        |growth| matches!(growth.into, GrowthLimit::Group(into) if into.group.path == group.path),
    )?;
    let level = grade::growth::level(growth)?;
    let who = match growth.grower {
        Grower::Group(grower) if grower.path == group.path => "it".to_owned(),
        other => other.name(),
    };
    let (per_second, lasts_seconds) = (growth.per_second, growth.lasts_seconds);
    Some((level, Trouble::Fills { who, per_second, lasts_seconds }))
}
