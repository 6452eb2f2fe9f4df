// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: processes were killed for lack of memory, because the machine ran out of it or because of
//! the limit of a cgroup.
//!
//! The kernel log says which process was killed, when, and because of which limit. If the log
//! cannot be read or no longer contains the report, counters say how many processes were killed
//! since boot and in which group.
//!
//! The log keeps a report until it is overwritten, which can take months. An older kill is
//! therefore never more severe than a newer one, and a kill in a group that no longer exists is
//! never more severe than one in a group that exists.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_facts::groups;
use pagewise_model::{
    Cgroup, Change, Evidence, Finding, Interval, Name, OomConstraint, OomKill, Outcome, Severity,
    Snapshot, Subject,
};

use crate::Rule;
use crate::oom::{self, change};
use crate::proof::EvidenceList;
use crate::text::{count, count_of, shorten_group, shorten_name};

pub(super) const RULE: Rule = Rule {
    id: oom::RULE,
    doc: "The kernel killed processes because the machine ran out of memory or a cgroup reached its memory limit.",
    diagnose,
};

/// A kill is a warning for this many seconds; after that it is only an info.
const DAY: f64 = 86_400.0;
/// A kill in a group that no longer exists is a warning for this many seconds, because nothing can
/// be changed in that group.
const HOUR: f64 = 3_600.0;
/// Maximum number of groups that get a finding of their own.
pub(super) const GROUPS: usize = 3;
/// Maximum number of kills listed as evidence.
const NAMED: usize = 5;

/// The group whose limit was reached; `None` if the kill was not caused by a group's limit.
type Owner = Option<Name>;

/// What ran out of memory: the machine, some of its nodes, or a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OomScope {
    /// The whole machine, or it is not known what ran out.
    Machine,
    /// The NUMA nodes that a cpuset allows.
    Cpuset,
    /// The NUMA nodes that a memory policy allows.
    Policy,
    /// A cgroup reached its limit.
    Group,
}

impl OomScope {
    fn from_kill(kill: &OomKill) -> Self {
        match kill.constraint {
            Some(OomConstraint::Cgroup) => Self::Group,
            Some(OomConstraint::Cpuset) => Self::Cpuset,
            Some(OomConstraint::Policy) => Self::Policy,
            Some(OomConstraint::Host) | None => Self::Machine,
        }
    }
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let mut owners: BTreeMap<(OomScope, Owner), Vec<&OomKill>> = BTreeMap::new();
    let kills = &interval.end.kernel_log.kills;
    // kills in groups that Pagewise created for its own runs are intended
    let of_others = |kill: &&OomKill| !kill.group.as_ref().is_some_and(groups::is_own);
    for kill in kills.iter().filter(of_others) {
        let scarce = OomScope::from_kill(kill);
        let owner = kill.group.clone().filter(|_| scarce == OomScope::Group);
        owners.entry((scarce, owner)).or_default().push(kill);
    }
    // the counters cover only the current boot
    let known = kills.iter().any(|kill| kill.earlier_boot.is_none());
    let counted = if known { None } else { finding_from_counters(interval) };
    let mut all: Vec<Vec<&OomKill>> = owners.into_values().collect();
    // the newest first; of kills at the same time, the machine's before that of a group
    all.sort_by_key(|owned| {
        owned.last().map(|newest| kills.iter().rev().position(|it| it == *newest))
    });
    let (host, groups): (Vec<_>, Vec<_>) = all.into_iter().partition(|kills| !is_of_group(kills));
    let groups = groups.into_iter().take(GROUPS);
    let found = host.into_iter().chain(groups).filter_map(|kills| finding(interval, &kills));
    counted.into_iter().chain(found).collect()
}

fn is_of_group(kills: &[&OomKill]) -> bool {
    kills.last().is_some_and(|kill| kill.constraint == Some(OomConstraint::Cgroup))
}

fn finding(interval: &Interval, kills: &[&OomKill]) -> Option<Finding> {
    let (host, last) = (&interval.end, *kills.last()?);
    let next =
        ["pagewise doctor --oom".to_owned()].into_iter().chain(change::advise_change(host, last));
    Some(Finding {
        id: RULE.id,
        about: Some(subject(last)),
        severity: severity(interval, last),
        title: title(host, kills, last),
        what: describe(host, kills, last),
        why: why(last).to_owned(),
        evidence: kills.iter().rev().take(NAMED).map(|kill| proof(kill)).collect(),
        next: next.collect(),
    })
}

fn severity(interval: &Interval, kill: &OomKill) -> Severity {
    let gone = is_group_gone(&interval.end, kill);
    let warns = if gone { HOUR } else { DAY };
    match kill.seconds_ago {
        Some(_) if !gone && oom::is_recent(interval, kill) => Severity::Critical,
        Some(seconds) if seconds > warns => Severity::Info,
        Some(_) => Severity::Warning,
        // a kill at an unknown time may have happened today
        None if gone => Severity::Info,
        None => Severity::Warning,
    }
}

/// Returns the object that ran out of memory when this process was killed.
fn subject(kill: &OomKill) -> Subject {
    match (OomScope::from_kill(kill), &kill.group) {
        (OomScope::Group, Some(group)) => Subject::Cgroup(group.clone()),
        (OomScope::Group, None) => Subject::part("cgroup"),
        (OomScope::Machine, _) => Subject::part("machine"),
        (OomScope::Cpuset, _) => Subject::part("cpuset"),
        (OomScope::Policy, _) => Subject::part("memory policy"),
    }
}

/// Returns a number that grows within a boot with each kill of this finding: the time of the newest
/// kill in milliseconds after boot or, if no log contains the kills, their count. `None` if all
/// kills were in an earlier boot.
pub(crate) fn newest_event(interval: &Interval, finding: &Finding) -> Option<u64> {
    if finding.about.is_none() {
        return interval.end.vmstat.get("oom_kill").get();
    }
    let kills = interval.end.kernel_log.kills.iter();
    let own = kills.filter(|kill| kill.earlier_boot.is_none());
    let own = own.filter(|kill| finding.about == Some(subject(kill)));
    own.map(|kill| milliseconds(kill.boot_seconds)).max()
}

fn milliseconds(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds)
        .map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Whether the group whose limit was reached no longer exists.
fn is_group_gone(host: &Snapshot, kill: &OomKill) -> bool {
    let of_group = kill.constraint == Some(OomConstraint::Cgroup);
    let group = kill.group.as_ref().filter(|_| of_group);
    group.is_some_and(|path| oom::is_gone(host, path))
}

/// Returns how many seconds ago the kill of this finding was, if its group no longer exists.
pub(crate) fn ended_seconds_ago(interval: &Interval, finding: &Finding) -> Option<f64> {
    let host = &interval.end;
    let is_it = |kill: &&OomKill| {
        is_group_gone(host, kill) && title(host, std::slice::from_ref(kill), kill) == finding.title
    };
    host.kernel_log.kills.iter().rev().find(is_it)?.seconds_ago
}

fn title(host: &Snapshot, kills: &[&OomKill], last: &OomKill) -> String {
    if let (Some(victim), Some(group), true) =
        (&last.victim, &last.group, is_group_gone(host, last))
    {
        let (name, group) = (shorten_name(victim.name.as_str()), shorten_group(group.as_str()));
        return format!("{name} (pid {}) was killed at the limit of {group}, now gone", victim.pid);
    }
    let who = match &last.victim {
        Some(victim) => {
            format!("the kernel killed {} (pid {})", shorten_name(victim.name.as_str()), victim.pid)
        }
        None => "the kernel found no process to kill".to_owned(),
    };
    let place = match (&last.group, is_of_group(kills)) {
        (Some(group), true) => format!(" at the limit of {}", shorten_group(group.as_str())),
        (None, true) => " at a cgroup's memory limit".to_owned(),
        (_, false) => match OomScope::from_kill(last) {
            OomScope::Cpuset => ": the NUMA nodes of a cpuset were full".to_owned(),
            OomScope::Policy => ": the nodes of a NUMA policy were full".to_owned(),
            OomScope::Machine | OomScope::Group => ": the machine ran out of memory".to_owned(),
        },
    };
    format!("{who}{place}")
}

fn describe(host: &Snapshot, kills: &[&OomKill], last: &OomKill) -> String {
    let reports = match kills.len() as u64 {
        1 => String::new(),
        several => {
            format!(". This is the last of {} in the kernel log", count_of(several, "such report"))
        }
    };
    let available = host.memory.available.get().filter(|_| is_of_group(kills));
    let available = available
        .map_or_else(String::new, |size| format!(". The host has {size} of memory available now"));
    let gone = if is_group_gone(host, last) { ". This cgroup no longer exists" } else { "" };
    let boot = if last.earlier_boot.is_some() { ", before this boot" } else { "" };
    let text = format!("{}{boot}, {}", oom::describe_age(last), oom::title(last));
    format!("{text}{reports}{available}{gone}.")
}

fn why(kill: &OomKill) -> &'static str {
    if kill.constraint == Some(OomConstraint::Cgroup) {
        return "If a cgroup is at its memory limit and the kernel can neither drop nor swap out more of its pages, \
                the kernel kills a process in the cgroup, even if the machine has free memory. Run pagewise doctor \
                --oom to see what the memory of the cgroup was used for at that moment, and why swap did not help.";
    }
    if matches!(OomScope::from_kill(kill), OomScope::Cpuset | OomScope::Policy) {
        return "If the NUMA nodes that a process may use have no memory left, the kernel kills a process \
                that may use them, even if other nodes have free memory. Run pagewise doctor --oom to see \
                what memory was used for at that moment, and which processes held it.";
    }
    "When the kernel can neither drop nor swap out more pages, it kills the process that uses the most memory \
     (adjusted by oom_score_adj), whether or not this process caused the shortage. Run pagewise doctor --oom \
     to see what memory was used for at that moment, and which processes held it."
}

fn proof(kill: &OomKill) -> Evidence {
    let who = match &kill.victim {
        Some(victim) => format!("killed process {} ({})", victim.pid, victim.name),
        None => "no killable process".to_owned(),
    };
    let group = kill.group.as_ref().map_or_else(String::new, |group| format!(" in {group}"));
    let limit = oom::limit(kill).filter(|_| kill.constraint == Some(OomConstraint::Cgroup));
    let limit = limit.map_or_else(String::new, |limit| format!(", limit {limit}"));
    let seconds = kill.boot_seconds;
    let boot = if kill.earlier_boot.is_some() { "the start of an earlier boot" } else { "boot" };
    Evidence::new(&kill.source, format!("{who}{group}{limit}, {seconds:.0} s after {boot}"))
}

/// Returns the finding for kills that the kernel log does not contain: how many processes were
/// killed since boot, and in which groups.
fn finding_from_counters(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let all = host.vmstat.get("oom_kill");
    let by_groups = groups_with_kills(host);
    let in_groups = by_groups.iter().filter_map(|group| group.events.oom_kill.get()).max();
    let killed = all.get().or(in_groups).filter(|&kills| kills > 0)?;
    let now = interval.vmstat("oom_kill").filter(|change| change.delta > 0);
    let proof = by_groups.iter().take(NAMED).fold(
        EvidenceList::new().named("oom_kill", &all).changed("oom_kill", now.as_ref()),
        |proof, group| proof.named("oom_kill", &group.events.oom_kill),
    );
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if now.is_some() { Severity::Critical } else { Severity::Info },
        title: format!(
            "{} killed for lack of memory since boot",
            if killed == 1 { "1 process was".to_owned() } else { format!("{} processes were", count(killed)) }
        ),
        what: format!("{}{}.", explain_missing_report(host), describe_kills(now.as_ref(), &by_groups)),
        why: "The kernel's counters show how many processes it killed, but neither which ones nor why. The kernel \
              log shows both, but only until newer messages overwrite them, and only to users who may read it."
            .to_owned(),
        evidence: proof.into_evidence(),
        next: next_without_report(host),
    })
}

/// Returns commands that show where the report of a kill may be; if no log contains it, commands
/// that show which processes use memory now.
fn next_without_report(host: &Snapshot) -> Vec<String> {
    let elsewhere = oom::suggest_other_sources(host);
    if is_uncollected(host) {
        let log =
            "pagewise oom FILE  # a log of this machine from then: dmesg, kern.log, journalctl -k";
        return vec![log.to_owned()];
    }
    if elsewhere.is_empty() {
        let now = "pagewise report --sort size  # who holds memory now; no log has the kill";
        return vec![now.to_owned()];
    }
    elsewhere
}

/// Whether the host's files were copied by somebody without a log.
fn is_uncollected(host: &Snapshot) -> bool {
    host.host.copies.is_some() && host.kernel_log.records.value().is_none()
}

/// Says why the kernel log contains no report of a kill that was counted.
fn explain_missing_report(host: &Snapshot) -> String {
    let log = &host.kernel_log;
    if is_uncollected(host) {
        return "Which ones is not known: no log of the kernel was collected".to_owned();
    }
    let nor = match &log.journal_files.outcome {
        Outcome::Value(_) if log.journal_files_left_out == 0 => {
            ", nor do journald's files".to_owned()
        }
        Outcome::Denied(help) => format!(", and journald's files could not be read ({help})"),
        Outcome::Value(_) | Outcome::Absent(_) => String::new(),
    };
    match &log.records.outcome {
        Outcome::Denied(help) => {
            format!(
                "The kernel log could not be read ({help}, or allow it by kernel.dmesg_restrict=0)"
            )
        }
        Outcome::Absent(_) => "The kernel log could not be read".to_owned(),
        Outcome::Value(_) => match log.oldest_boot_seconds.filter(|_| log.wrapped) {
            Some(seconds) => {
                format!(
                    "The kernel log holds no report of these kills (it begins {seconds:.0} s after boot){nor}"
                )
            }
            None => format!("The kernel log holds no report of these kills{nor}"),
        },
    }
}

fn describe_kills(now: Option<&Change>, groups: &[&Cgroup]) -> String {
    let now = now.map_or_else(String::new, |change| {
        format!("; {} in the last {:.1} s", count_of(change.delta, "kill"), change.seconds)
    });
    let named = groups.iter().take(GROUPS).filter_map(|group| {
        Some(format!("{} in {}", count(group.events.oom_kill.get()?), group.path))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { now } else { format!("{now}; kills in cgroups: {}", named.join(", ")) }
}

/// Returns the groups in which processes were killed. Only the innermost groups are returned,
/// because the counter of a group includes its descendants.
fn groups_with_kills(host: &Snapshot) -> Vec<&Cgroup> {
    let kills = |group: &Cgroup| group.events.oom_kill.get().unwrap_or(0);
    let all = host.cgroups.groups.iter().filter(|group| kills(group) > 0);
    let with_kills: Vec<&Cgroup> = all.filter(|group| group.path.as_str() != "/").collect();
    let below = |group: &Cgroup| {
        with_kills
            .iter()
            .filter(|other| groups::is_below(other, group))
            .map(|other| kills(other))
            .max()
    };
    with_kills.iter().copied().filter(|group| below(group) < Some(kills(group))).collect()
}

#[cfg(test)]
#[path = "../../tests/rules/oom_kills.rs"]
pub(super) mod tests;
