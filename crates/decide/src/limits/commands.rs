// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that set the limit of a group, until the next boot or permanently. Pagewise prints them
//! but does not run them.

use pagewise_model::{Bytes, Cgroup, Limit, Reading};

use crate::limit_change::{Effect, Lasts, LimitChange};

/// Returns the limit that a command should set: the one that exists already. If there is none, it
/// is `memory.high`, which throttles the group, and not `memory.max`, at which a process is killed.
/// Version 1 has only the equivalent of `memory.max`.
pub(super) fn limit_to_set<'a>(group: &'a Cgroup, limit: &'a Reading<Limit>) -> &'a Reading<Limit> {
    let is_set = limit.get().is_some_and(|limit| limit != Limit::Max);
    if is_set || group.high.value().is_none() { limit } else { &group.high }
}

/// Returns the commands that set the limit to `size`; empty if that could do harm: see
/// [`LimitChange::command`].
pub(super) fn commands(group: &Cgroup, limit: &Reading<Limit>, size: Bytes) -> Vec<String> {
    let is_new = limit.get() == Some(Limit::Max);
    let effect = if is_new { Effect::Contains } else { Effect::Raises };
    let to = Limit::Bytes(size);
    let command = |lasts| LimitChange { group, limit, to, effect, lasts, note: "" }.command();
    let mut commands: Vec<String> =
        [Lasts::UntilBoot, Lasts::Permanent].into_iter().filter_map(command).collect();
    // without systemd, both commands are the same
    commands.dedup();
    commands
}
