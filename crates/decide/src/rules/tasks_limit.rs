// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a cgroup has as many tasks as its `pids.max` allows, so that forks in it fail.
//!
//! Programs report the failure as if memory were missing ("unable to create native thread: possibly
//! out of memory"), but its cause is a limit on the number of tasks.
//!
//! The meaning of `pids.events` depends on the kernel. Before Linux 6.11, a refused fork was
//! counted in the group of the task that forked, whichever group's limit was reached. Since then,
//! it is counted in the group whose limit was reached and in all its ancestors.

use std::collections::HashMap;

use pagewise_facts::groups::{self, GroupPair, is_below};
use pagewise_model::{
    Cgroup, Change, Finding, Interval, Process, Severity, Snapshot, Subject, TaskLimit,
};

use crate::Rule;
use crate::limit_change;
use crate::proof::EvidenceList;
use crate::text::{count, count_of, process, quoted, shorten_group, shorten_name};

pub(super) const RULE: Rule = Rule {
    id: "tasks-limit",
    doc: "Because of a cgroup's pids.max, forks in it are refused, or the next one will be; this is not a lack of memory.",
    diagnose,
};

/// Maximum number of groups that get a finding of their own.
pub(super) const TOLD: usize = 5;
/// A group whose limit is below this number is reported only if a fork was refused: services that
/// never fork are given such limits on purpose.
const FEW: u64 = 8;

/// A group whose limit has refused forks, or will refuse the next one.
struct AtLimit<'a> {
    group: &'a Cgroup,
    limit: u64,
    current: u64,
    /// The number of forks that were refused during the interval; `None` if none was refused, or if
    /// this is not known.
    refused: Option<Change>,
    /// Whether it is known how many forks were refused.
    is_known: bool,
    /// Whether an ancestor has a limit as well, which may be the limit that was reached.
    is_limited_above: bool,
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let pairs = groups::pairs(interval);
    let limited: Vec<&GroupPair<'_>> =
        pairs.iter().filter(|pair| limit_of(pair.now).is_some()).collect();
    let found = limited.iter().filter_map(|pair| find_at_limit(&pairs, &limited, pair));
    let mut found: Vec<AtLimit<'_>> = found.filter(|at| !groups::is_own(&at.group.path)).collect();
    found.sort_by_key(|at| at.refused.is_none());
    found.iter().take(TOLD).map(|at| finding(&interval.end, at)).collect()
}

fn limit_of(group: &Cgroup) -> Option<u64> {
    group.pids.max.get().and_then(TaskLimit::tasks)
}

fn is_full(group: &Cgroup) -> bool {
    let both = limit_of(group).zip(group.pids.current.get());
    both.is_some_and(|(limit, current)| limit >= FEW && current.saturating_add(1) >= limit)
}

fn find_at_limit<'a>(
    pairs: &[GroupPair<'a>],
    limited: &[&GroupPair<'a>],
    pair: &GroupPair<'a>,
) -> Option<AtLimit<'a>> {
    let group = pair.now;
    let above: Vec<&Cgroup> =
        limited.iter().map(|other| other.now).filter(|other| is_below(group, other)).collect();
    let is_full = is_full(group);
    let refused = refused_forks(pairs, pair);
    if !is_full && (refused.is_none() || above.iter().any(|other| self::is_full(other))) {
        return None;
    }
    Some(AtLimit {
        group,
        limit: limit_of(group)?,
        current: group.pids.current.get()?,
        refused,
        is_known: pair.change(|group| &group.pids.refused).is_some(),
        is_limited_above: !is_full && !above.is_empty(),
    })
}

/// Returns how many forks this group's limit refused: those counted in the group or its
/// descendants, without those that descendants refused because of their own limits.
fn refused_forks(pairs: &[GroupPair<'_>], pair: &GroupPair<'_>) -> Option<Change> {
    let rise = |pair: &GroupPair<'_>| {
        pair.change(|group| &group.pids.refused).filter(|change| change.delta > 0)
    };
    // if the group is full and a descendant is not, the group's own limit refuses the forks
    let refuses_itself =
        |group: &Cgroup| limit_of(group).is_some() && (is_full(group) || !is_full(pair.now));
    let (of_limited, others): (Vec<_>, Vec<_>) = pairs
        .iter()
        .filter(|other| is_below(other.now, pair.now))
        .filter_map(|other| Some((refuses_itself(other.now), rise(other)?)))
        .partition(|(refuses_itself, _)| *refuses_itself);
    let of_limited: u64 = of_limited.iter().map(|(_, change)| change.delta).sum();
    let others = others.into_iter().map(|(_, change)| change).max_by_key(|change| change.delta);
    let most = rise(pair).into_iter().chain(others).max_by_key(|change| change.delta)?;
    (most.delta > of_limited).then_some(most)
}

fn finding(host: &Snapshot, at: &AtLimit<'_>) -> Finding {
    let group = at.group;
    let path = group.path.as_str();
    let limit = count(at.limit);
    let title = if at.refused.is_some() {
        format!("forks are refused in {}: its pids.max is {limit}", shorten_group(path))
    } else {
        format!("{} has {} of at most {limit} tasks", shorten_group(path), count(at.current))
    };
    let folder = group.pids.max.source.path().rsplit_once('/');
    let look = folder.map(|(folder, _)| {
        let folder = quoted(folder);
        format!("grep . {folder}/pids.current {folder}/pids.max {folder}/pids.events")
    });
    Finding {
        id: RULE.id,
        about: Some(Subject::Cgroup(group.path.clone())),
        severity: if at.refused.is_some() { Severity::Warning } else { Severity::Info },
        title,
        what: describe(host, at),
        why: format!(
            "When a cgroup has as many tasks (processes and threads) as its pids.max, fork and the creation of a thread \
             fail with EAGAIN, \"Resource temporarily unavailable\". Some programs report this as a lack of memory, but \
             more memory or swap changes nothing. {}",
            owner(group)
        ),
        evidence: proof(host, at),
        next: look
            .into_iter()
            .chain(["ps -eo nlwp,pid,user,comm --sort=-nlwp | head -20".to_owned()])
            .collect(),
    }
}

fn describe(host: &Snapshot, at: &AtLimit<'_>) -> String {
    let (path, limit) = (&at.group.path, count(at.limit));
    let refused = match &at.refused {
        Some(change) => {
            let where_else = if at.is_limited_above {
                " (the pids.max of a cgroup above it may be the one that was reached)"
            } else {
                ""
            };
            format!(
                "; in {:.1} s, {} refused{where_else}",
                change.seconds,
                match change.delta {
                    1 => "1 fork was".to_owned(),
                    more => format!("{} forks were", count(more)),
                }
            )
        }
        None if at.is_known => "; none was refused between the two readings".to_owned(),
        None => String::new(),
    };
    let program =
        find_busiest_program(host, at.group).map_or_else(String::new, |program| program.describe());
    format!(
        "The cgroup {path} has {} of at most {limit} tasks (pids.max){refused}.{program}",
        count(at.current)
    )
}

/// Says where the limit can be raised.
fn owner(group: &Cgroup) -> String {
    match limit_change::describe_task_limit(group) {
        Some(owner) => format!(
            "Either the program makes more and more threads or processes, which no limit mends, or it needs them, and \
             the limit is too low; it is set by {owner}."
        ),
        None => "Either a program makes more and more threads or processes, which no limit mends, or the limit is too \
                 low for what runs in the cgroup; it is set by what created the cgroup, and holds for all that is \
                 below it."
            .to_owned(),
    }
}

/// The program with the most threads in a group, with all its processes.
struct Program<'a> {
    threads: u64,
    processes: u64,
    /// The process with the most threads among the processes of that name.
    largest: &'a Process,
}

impl Program<'_> {
    fn describe(&self) -> String {
        let name = self.largest.name.as_str();
        let threads = count_of(self.threads, "thread");
        match self.processes {
            1 => format!(" The most are of {}: {threads}.", process(name, self.largest.pid)),
            more => {
                format!(
                    " The most are of {}: {threads} in {} processes.",
                    shorten_name(name),
                    count(more)
                )
            }
        }
    }
}

fn find_busiest_program<'a>(host: &'a Snapshot, group: &Cgroup) -> Option<Program<'a>> {
    let mut programs: HashMap<&str, Program<'a>> = HashMap::new();
    let inside =
        host.processes.list.iter().filter(|process| groups::contains_process(&group.path, process));
    for (process, threads) in inside.filter_map(|process| Some((process, process.threads.get()?))) {
        let program = programs.entry(process.name.as_str()).or_insert(Program {
            threads: 0,
            processes: 0,
            largest: process,
        });
        program.threads = program.threads.saturating_add(threads);
        program.processes += 1;
        if program.largest.threads.get() < Some(threads) {
            program.largest = process;
        }
    }
    programs.into_values().max_by_key(|program| (program.threads, program.largest.pid))
}

fn proof(host: &Snapshot, at: &AtLimit<'_>) -> Vec<pagewise_model::Evidence> {
    let proof = EvidenceList::new()
        .named("pids.current", &at.group.pids.current)
        .named("pids.max", &at.group.pids.max)
        .changed("pids.events max", at.refused.as_ref());
    match find_busiest_program(host, at.group) {
        Some(program) => proof.named("Threads", &program.largest.threads),
        None => proof,
    }
    .into_evidence()
}

#[cfg(test)]
#[path = "../../tests/rules/tasks_limit.rs"]
pub(super) mod tests;
