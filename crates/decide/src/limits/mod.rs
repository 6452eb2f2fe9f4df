// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives a [`LimitSurvey`] from an [`Interval`] and idle times: how much memory each cgroup uses,
//! and which limit it needs.
//!
//! `working_set.rs` determines how much of a group's memory is in use; `advise.rs` compares this
//! with the group's limit. docs/limits.md explains every number. A group that is short of memory
//! because of its own limit is never advised to lower the limit: such groups are found by the same
//! rules as in the verdict, so that `doctor` does not contradict this.

mod advise;
mod commands;
mod inputs;
mod working_set;

use std::cmp::Reverse;

use pagewise_facts::groups::{self, GroupPair};
use pagewise_model::{
    Bytes, Interval, Limit, LimitSurvey, Name, Outcome, Process, ProcessUse, WatchedMemory,
    WorkingSet,
};

use advise::Circumstances;
pub(crate) use advise::raised_limit;
pub use inputs::LimitInputs;

/// Surveys all groups that hold memory, except the root; or only the selected group.
pub fn survey_limits(interval: &Interval, inputs: &LimitInputs<'_>) -> LimitSurvey {
    let circumstances = Circumstances::new(interval);
    let pairs = groups::pairs(interval);
    let is_asked = |pair: &&GroupPair<'_>| match inputs.selected {
        Some(path) => pair.now.path == *path,
        None => pair.now.current.get() != Some(Bytes::new(0)),
    };
    let of = |pair: &GroupPair<'_>| working_set(&circumstances, inputs, pair);
    let mut all: Vec<WorkingSet> = pairs.iter().filter(is_asked).map(of).collect();
    all.sort_by_key(|group| Reverse(group.current.get()));
    let processes = inputs.selected.map(|path| processes(interval, path, inputs.watched));
    LimitSurvey {
        groups: all,
        processes: processes.unwrap_or_default(),
        left_out: interval.end.cgroups.left_out,
        unknown: collect_unknown(inputs),
        watched: inputs.watched.map(|watched| watched.cost),
    }
}

fn working_set(
    circumstances: &Circumstances<'_>,
    inputs: &LimitInputs<'_>,
    pair: &GroupPair<'_>,
) -> WorkingSet {
    let group = pair.now;
    let limit = working_set::own_limit(group);
    let used = working_set::measure(circumstances.host(), inputs, pair);
    let advice = advise::advise(circumstances, pair, used.as_ref());
    let headroom = limit.get().and_then(Limit::bytes).zip(group.current.get());
    WorkingSet {
        group: group.path.clone(),
        current: group.current.clone(),
        peak: group.peak.clone(),
        headroom: headroom.map(|(limit, current)| limit.saturating_sub(current)),
        limit: limit.clone(),
        swap: group.swap_current.clone(),
        refaults_per_second: working_set::refaults(pair).map(|refaults| refaults.per_second),
        waited: group.pressure.some.avg60.clone(),
        max_events: group.events.max.clone(),
        oom_kills: group.events.oom_kill.clone(),
        unevictable: working_set::unevictable(group),
        idle: used.as_ref().map(|used| used.idle.clone()),
        hot: used.as_ref().map(|used| used.hot),
        advice,
    }
}

fn processes(
    interval: &Interval,
    group: &Name,
    watched: Option<&WatchedMemory>,
) -> Vec<ProcessUse> {
    let all = interval.end.processes.list.iter();
    let idle = |process: &Process| {
        let read = watched?.processes.iter().find(|read| read.pid == process.pid)?;
        Some(read.idle_anon.saturating_add(read.idle_file))
    };
    let used = |process: &Process| ProcessUse {
        pid: process.pid,
        name: process.name.clone(),
        resident: process.resident(),
        swap: process.swap.clone(),
        locked: process.locked.clone(),
        idle: idle(process),
    };
    let mut inside: Vec<ProcessUse> =
        all.filter(|process| groups::contains_process(group, process)).map(used).collect();
    inside.sort_by_key(|process| Reverse(process.resident));
    inside
}

/// Returns the reasons why idle times of pages are not known, one for each method.
fn collect_unknown(inputs: &LimitInputs<'_>) -> Vec<String> {
    let generations = match &inputs.generations.outcome {
        Outcome::Value(_) => None,
        Outcome::Absent(why) | Outcome::Denied(why) => {
            Some(format!("idle times by generations: {why}"))
        }
    };
    let watched = inputs.watched.is_none().then(|| {
        "idle times by accessed bits: only on request (--for 30s, with --cgroup, --unit or --pid), because clearing them \
         disturbs reclaim for a while"
            .to_owned()
    });
    generations.into_iter().chain(watched).collect()
}

#[cfg(test)]
#[path = "../../tests/rules/limits.rs"]
mod tests;
