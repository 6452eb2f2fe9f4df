// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Interval`] → [`HostVerdict`]: how short of memory a host and the cgroups on it are.
//!
//! Every bad Reading becomes a signal with a level, and the level of the verdict is that of the worst
//! signal: a good Reading never hides a bad one. A signal belongs to the host, or to one cgroup where
//! the counters show that the cgroup's own limit caused it; attribution never changes its level.
//!
//! The laws are property tests in [`laws`](self): see `verdict/laws.rs`.

mod group;
mod host;
#[cfg(test)]
mod laws;
mod line;

use pagewise_model::{GroupVerdict, HostVerdict, Interval, Level};

pub(crate) use group::{GroupTrouble, Trouble, troubled};
pub(crate) use host::{Cause, pressed_groups, signals};

/// How short of memory this host is, and its cgroups.
pub fn judge(interval: &Interval) -> HostVerdict {
    let signals = host::signals(interval);
    let groups = group::troubled(interval);
    let unknown = host::unknown(&interval.end);
    let host = match signals.first() {
        Some(worst) => worst.level,
        None if interval.end.memory.total.get().is_none() => Level::Unknown,
        None => Level::Calm,
    };
    let worst_group = groups.first().map_or(Level::Unknown, |group| group.level);
    HostVerdict {
        level: host.max(worst_group),
        line: line::line(interval, host, &signals, &groups),
        host,
        groups: groups.iter().map(named).collect(),
        unknown,
    }
}

fn named(trouble: &GroupTrouble<'_>) -> GroupVerdict {
    GroupVerdict {
        group: trouble.limited.path.clone(),
        level: trouble.level,
        line: line::of_group(trouble),
    }
}
