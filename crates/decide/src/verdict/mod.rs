// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives a [`HostVerdict`] from an [`Interval`]: how short of memory a host and its cgroups are.
//!
//! Every Reading with a bad value becomes a signal with a level, and the level of the verdict is
//! that of the worst signal: a good value never hides a bad one. A signal belongs to the host or,
//! if the counters show that the own limit of a cgroup is the cause, to that cgroup. Which of them
//! it belongs to never changes its level.
//!
//! These rules are checked by property tests: see `tests/made/laws.rs`.

mod group;
mod host;
mod line;

use pagewise_facts::{groups, kubernetes};
use pagewise_model::{GroupVerdict, HostVerdict, Interval, Level, RecentKills, Snapshot};

use crate::oom;

pub use host::{are_only_nodes_short, is_host_short};

pub(crate) use group::{GroupTrouble, ROOM_PERCENT, Trouble, find_troubled};
pub(crate) use host::{Cause, groups_under_pressure, most_waiting, signals};
pub(crate) use line::describe_group;

/// Judges how short of memory this host and its cgroups are.
pub fn judge(interval: &Interval) -> HostVerdict {
    let signals = host::signals(interval);
    let troubled = group::find_troubled(interval);
    let groups = add_groups_with_kills(&interval.end, &troubled, oom::recent_kills(interval));
    let host = match signals.first() {
        Some(worst) => worst.level,
        None if interval.end.memory.total.get().is_none() => Level::Unknown,
        None => Level::Calm,
    };
    let filling = troubled.iter().find(|group| {
        groups.first().is_some_and(|worst| {
            worst.group == group.limited.path
                && matches!(group.troubles.first(), Some((_, Trouble::Fills { .. })))
        })
    });
    let filling = filling.map(|group| &group.limited.path);
    let worst_group = groups.first().map_or(Level::Unknown, |group| group.level);
    HostVerdict {
        level: host.max(worst_group),
        line: line::describe_verdict(interval, host, &signals, &groups, filling),
        host,
        groups,
        unknown: host::collect_unknown(&interval.end),
    }
}

/// Returns the groups with a problem, worst first, and the groups in which a process was killed
/// recently. A group that no longer exists has a level one lower, because its shortage is over.
fn add_groups_with_kills(
    host: &Snapshot,
    troubled: &[GroupTrouble<'_>],
    recent: RecentKills,
) -> Vec<GroupVerdict> {
    let of_others = troubled.iter().filter(|trouble| !groups::is_own(&trouble.limited.path));
    let mut groups: Vec<GroupVerdict> = of_others.map(group_verdict).collect();
    for kill in recent.groups {
        let Some(path) = kill.group.clone().filter(|path| !groups::is_own(path)) else { continue };
        let line = line::describe_kill(&kill);
        let level = if oom::is_gone(host, &path) { Level::Short } else { Level::Critical };
        match groups.iter_mut().find(|group| group.group == path) {
            Some(group) => (group.level, group.line) = (level, line),
            None => groups.push(GroupVerdict { group: path, level, line }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.level));
    groups
}

fn group_verdict(trouble: &GroupTrouble<'_>) -> GroupVerdict {
    GroupVerdict {
        group: trouble.limited.path.clone(),
        level: trouble.level,
        line: line::describe_group(trouble),
    }
}
/// Whether new swap would help this host: it is short of memory as a whole, and nothing forbids
/// swap. Findings print the command that sets up a device only in this case, because a plan has a
/// step for it only in this case.
pub(crate) fn would_swap_help(interval: &Interval) -> bool {
    is_host_short(interval, judge(interval).host) && !kubernetes::is_node(&interval.end)
}
