// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the cgroups that changed between two readings.

use std::collections::HashMap;

use pagewise_model::{
    Bytes, Cgroup, GroupChange, Interval, Micros, Name, Percent, Presence, Reading,
};

use crate::memory::share_of_time;
use crate::names::Matching;

/// If memory and swap of a cgroup changed by less than this many bytes, the change is noise.
const LEAST: u64 = 1 << 20;

/// Returns the cgroups that changed, the largest change first, and the number of cgroups that could
/// not be matched.
pub(crate) fn group_changes(interval: &Interval, matching: &Matching) -> (Vec<GroupChange>, usize) {
    let Some(start) = interval.start.as_deref() else { return (Vec::new(), 0) };
    let mut later: HashMap<&Name, &Cgroup> =
        interval.end.cgroups.groups.iter().map(|group| (&group.path, group)).collect();
    let mut all = Vec::new();
    let mut unmatched = 0;
    for then in start.cgroups.groups.iter().filter(is_not_root) {
        match matching.path_after(&then.path, |path| later.contains_key(path)) {
            Some(path) => {
                all.push(change_of_group(Some(then), later.remove(&path), interval.seconds()));
            }
            None => unmatched += 1,
        }
    }
    for now in interval.end.cgroups.groups.iter().filter(is_not_root) {
        if later.contains_key(&now.path) {
            if matching.is_new_group(&now.path) {
                all.push(change_of_group(None, Some(now), interval.seconds()));
            } else {
                unmatched += 1;
            }
        }
    }
    let mut changes: Vec<GroupChange> = all.into_iter().flatten().filter(is_worth_it).collect();
    changes.sort_by(|one, other| {
        moved_bytes(other).cmp(&moved_bytes(one)).then(one.path.cmp(&other.path))
    });
    (changes, unmatched)
}

fn is_not_root(group: &&Cgroup) -> bool {
    group.path.as_str() != "/"
}

fn change_of_group(
    before: Option<&Cgroup>,
    after: Option<&Cgroup>,
    seconds: Option<f64>,
) -> Option<GroupChange> {
    let size = |group: Option<&Cgroup>, pick: fn(&Cgroup) -> &Reading<Bytes>| {
        group.map_or_else(Reading::not_read, |group| pick(group).clone())
    };
    let both = before.zip(after).zip(seconds);
    Some(GroupChange {
        path: after.or(before)?.path.clone(),
        presence: match (before, after) {
            (Some(_), Some(_)) => Presence::Same,
            (Some(_), None) => Presence::Gone,
            (None, _) => Presence::New,
        },
        memory_before: size(before, |it| &it.current),
        memory_after: size(after, |it| &it.current),
        swap_before: size(before, |it| &it.swap_current),
        swap_after: size(after, |it| &it.swap_current),
        refaults: both.and_then(|((then, now), _)| refaults(then, now)),
        waited: both.and_then(|((then, now), seconds)| wait_share(then, now, seconds)),
    })
}

fn refaults(then: &Cgroup, now: &Cgroup) -> Option<u64> {
    let grown =
        |pick: fn(&Cgroup) -> &Reading<u64>| pick(now).get()?.checked_sub(pick(then).get()?);
    Some(grown(|it| &it.refault_file)?.saturating_add(grown(|it| &it.refault_anon)?))
}

fn wait_share(then: &Cgroup, now: &Cgroup, seconds: f64) -> Option<Percent> {
    let total = |group: &Cgroup| Some(group.pressure.some.total_us.get()?.get());
    let grown = total(now)?.checked_sub(total(then)?)?;
    Some(share_of_time(Micros::new(grown), seconds))
}

/// Returns the number of bytes by which memory and swap of the cgroup changed.
fn moved_bytes(change: &GroupChange) -> u64 {
    let moved = |before: &Reading<Bytes>, after: &Reading<Bytes>| {
        let size = |reading: &Reading<Bytes>| reading.get().unwrap_or_default().get();
        size(before).abs_diff(size(after))
    };
    moved(&change.memory_before, &change.memory_after)
        .saturating_add(moved(&change.swap_before, &change.swap_after))
}

fn is_worth_it(change: &GroupChange) -> bool {
    moved_bytes(change) >= LEAST || change.refaults.is_some_and(|refaults| refaults > 0)
}
