// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes were killed for lack of memory: by the machine, or by the limit of a cgroup.
//!
//! The kernel log says who, when and by which limit. Where it cannot be read, or no longer holds the
//! report, counters say how many since boot and in which group.
//!
//! The log holds a report for as long as nothing overwrites it, which can be months. A kill is therefore
//! never more severe for being older, nor for being that of a group that no longer exists.

use std::collections::BTreeMap;

use pagewise_model::{
    Cgroup, Change, Evidence, Finding, Hierarchy, Interval, Name, OomConstraint, OomKill, Outcome,
    Severity, Snapshot,
};

use crate::Rule;
use crate::facts::groups;
use crate::oom::{self, change};
use crate::proof::EvidenceList;
use crate::text::{count, counted, short, short_group};

pub(super) const RULE: Rule = Rule {
    id: oom::RULE,
    doc: "The kernel killed processes because the machine ran out of memory or a cgroup reached its memory limit.",
    diagnose,
};

/// A kill is a warning for so long, in seconds.
const DAY: f64 = 86_400.0;
/// The same for a kill in a group that no longer exists: there is nothing left to set right.
const HOUR: f64 = 3_600.0;
/// Groups that get a finding each.
const GROUPS: usize = 3;
/// Kills that are named as proof.
const NAMED: usize = 5;

/// The group whose memory ran out; `None` where it was no group's.
type Owner = Option<Name>;

/// What ran out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OomScope {
    /// The machine, or nobody says what.
    Machine,
    /// The nodes that a cpuset allows.
    Cpuset,
    /// The nodes that a NUMA policy allows.
    Policy,
    /// A cgroup at its limit.
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
    for kill in kills {
        let scarce = OomScope::from_kill(kill);
        let owner = kill.group.clone().filter(|_| scarce == OomScope::Group);
        owners.entry((scarce, owner)).or_default().push(kill);
    }
    // counters are of this boot
    let known = kills.iter().any(|kill| kill.earlier_boot.is_none());
    let counted = if known { None } else { counted_only(interval) };
    let mut all: Vec<Vec<&OomKill>> = owners.into_values().collect();
    // the newest first, and the machine before any group
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
        severity: severity(interval, last),
        title: title(kills, last),
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
        Some(_) if oom::is_recent(interval, kill) => Severity::Critical,
        Some(seconds) if seconds > warns => Severity::Info,
        Some(_) => Severity::Warning,
        // a kill whose time is not known may be one of today
        None if gone => Severity::Info,
        None => Severity::Warning,
    }
}

/// Whether the group at whose limit the kill happened no longer exists. In a container the log names
/// groups by paths of the host, and of a host with too many groups not all are known.
fn is_group_gone(host: &Snapshot, kill: &OomKill) -> bool {
    let cgroups = &host.cgroups;
    let all_known = cgroups.hierarchy != Hierarchy::None
        && !cgroups.groups.is_empty()
        && cgroups.left_out == 0
        && host.host.container.value().is_none();
    let of_group = kill.constraint == Some(OomConstraint::Cgroup);
    let group = kill.group.as_ref().filter(|_| of_group && all_known);
    group.is_some_and(|path| oom::find_group(host, path).is_none())
}

fn title(kills: &[&OomKill], last: &OomKill) -> String {
    let who = match &last.victim {
        Some(victim) => {
            format!("the kernel killed {} (pid {})", short(victim.name.as_str()), victim.pid)
        }
        None => "the kernel found no process to kill".to_owned(),
    };
    let place = match (&last.group, is_of_group(kills)) {
        (Some(group), true) => format!(" at the limit of {}", short_group(group.as_str())),
        (None, true) => " at a cgroup's memory limit".to_owned(),
        (_, false) => match OomScope::from_kill(last) {
            OomScope::Cpuset => ": the NUMA nodes of a cpuset were full".to_owned(),
            OomScope::Policy => ": the nodes of a NUMA policy were full".to_owned(),
            OomScope::Machine | OomScope::Group => ": the machine ran out of memory".to_owned(),
        },
    };
    format!("{who}{place}")
}

/// Names may hold full stops; in a sentence of their own they would look like its end.
fn sentence(text: &str) -> String {
    text.replace(". ", ".")
}

fn describe(host: &Snapshot, kills: &[&OomKill], last: &OomKill) -> String {
    let reports = match kills.len() as u64 {
        1 => String::new(),
        several => {
            format!(". This is the last of {} in the kernel log", counted(several, "such report"))
        }
    };
    let available = host.memory.available.get().filter(|_| is_of_group(kills));
    let available = available
        .map_or_else(String::new, |size| format!(". The host has {size} of memory available now"));
    let gone = if is_group_gone(host, last) { ". This cgroup no longer exists" } else { "" };
    let boot = if last.earlier_boot.is_some() { ", before this boot" } else { "" };
    let text = sentence(&format!("{}{boot}, {}", oom::how_long_ago(last), oom::title(last)));
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

/// Where the log has no report: how many were killed since boot, and where.
fn counted_only(interval: &Interval) -> Option<Finding> {
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
        severity: if now.is_some() { Severity::Critical } else { Severity::Info },
        title: format!(
            "{} killed for lack of memory since boot",
            if killed == 1 { "1 process was".to_owned() } else { format!("{} processes were", count(killed)) }
        ),
        what: sentence(&format!("{}{}", no_report(host), told(now.as_ref(), &by_groups))) + ".",
        why: "The kernel's counters show how many processes it killed, but neither which ones nor why. The kernel \
              log shows both, but only until newer messages overwrite them, and only to users who may read it."
            .to_owned(),
        evidence: proof.done(),
        next: next_without_report(host),
    })
}

/// Where the report may be, or, where no log has it, who holds memory now.
fn next_without_report(host: &Snapshot) -> Vec<String> {
    let elsewhere = oom::elsewhere(host);
    if elsewhere.is_empty() {
        let now = "pagewise report --sort size  # who holds memory now; no log has the kill";
        return vec![now.to_owned()];
    }
    elsewhere
}

/// Why the log says nothing about it.
fn no_report(host: &Snapshot) -> String {
    let log = &host.kernel_log;
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

fn told(now: Option<&Change>, groups: &[&Cgroup]) -> String {
    let now = now.map_or_else(String::new, |change| {
        format!("; {} in the last {:.1} s", counted(change.delta, "kill"), change.seconds)
    });
    let named = groups.iter().take(GROUPS).filter_map(|group| {
        Some(format!("{} in {}", count(group.events.oom_kill.get()?), group.path))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { now } else { format!("{now}; kills in cgroups: {}", named.join(", ")) }
}

/// Groups in which somebody was killed, the innermost: a group counts for those below it, too.
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
pub(super) mod tests {
    use pagewise_model::{Reading, Source};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::kills::{by_host, by_limit};
    use crate::testing::{assert_silent, calm, file, grow, line, only, proof_of, set, with};

    fn ago(seconds: f64, mut kill: OomKill) -> OomKill {
        kill.seconds_ago = Some(seconds);
        kill
    }

    fn with_kills(kills: Vec<OomKill>) -> Interval {
        let mut interval = calm();
        interval.end.kernel_log.kills = kills;
        interval
    }

    pub(crate) fn firing_by_the_host() -> Interval {
        with_kills(vec![ago(90.0, by_host())])
    }

    pub(crate) fn firing_by_a_limit() -> Interval {
        with_kills(vec![ago(90.0, by_limit())])
    }

    pub(crate) fn firing_without_a_log() -> Interval {
        let mut interval = with(|host| set(host, "oom_kill", 3));
        let at = Source::file("/dev/kmsg");
        interval.end.kernel_log.records = Reading::denied("run as root", at);
        grow(&mut interval, "oom_kill", 2);
        let path = "/sys/fs/cgroup/system.slice/db.service/memory.events";
        let mut groups = interval.end.cgroups.groups.iter_mut();
        let db = groups.find(|group| group.path.as_str().ends_with("db.service")).unwrap();
        db.events.oom_kill = line(path, 5, 5);
        interval
    }

    #[test]
    fn a_kill_by_a_limit_is_the_groups_and_never_the_machines() {
        let finding = only(&RULE, &firing_by_a_limit());
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(
            finding.title,
            "the kernel killed nginx (pid 980) at the limit of /system.slice/web.service"
        );
        let all = format!("{finding:?}");
        assert!(!all.contains("machine ran out of memory"), "{all}");
        assert!(
            finding.what.starts_with(
                "90 seconds ago, nginx (pid 980) was killed because the cgroup /system.slice/web.service \
                 reached its memory limit"
            ),
            "{}",
            finding.what
        );
        assert_eq!(finding.next[0], "pagewise doctor --oom");
    }

    #[test]
    fn a_kill_of_the_machine_says_so() {
        let finding = only(&RULE, &firing_by_the_host());
        assert_eq!(finding.title, "the kernel killed java (pid 77): the machine ran out of memory");
        assert!(
            proof_of(&finding)
                .starts_with("/dev/kmsg:500 = killed process 77 (java), 44 s after boot")
        );
    }

    #[test]
    fn a_kill_for_lack_of_some_nodes_is_not_the_machines() {
        let by = |constraint| OomKill { constraint: Some(constraint), ..by_host() };
        let (cpuset, policy) = (by(OomConstraint::Cpuset), by(OomConstraint::Policy));
        let finding = only(&RULE, &with_kills(vec![ago(5.0, cpuset.clone())]));
        assert_eq!(
            finding.title,
            "the kernel killed java (pid 77): the NUMA nodes of a cpuset were full"
        );
        assert!(
            finding
                .what
                .contains("because the NUMA nodes allowed by the cpuset of the allocating task")
        );
        assert!(
            finding.why.contains("If the NUMA nodes that a process may use have no memory left")
        );
        let finding = only(&RULE, &with_kills(vec![ago(5.0, policy.clone())]));
        assert_eq!(
            finding.title,
            "the kernel killed java (pid 77): the nodes of a NUMA policy were full"
        );
        let each = (RULE.diagnose)(&with_kills(vec![cpuset, policy, by_host(), by_limit()]));
        assert_eq!(each.len(), 4, "{each:#?}");
    }

    #[test]
    fn a_kill_matters_less_the_older_it_is() {
        let severity = |seconds| only(&RULE, &with_kills(vec![ago(seconds, by_host())])).severity;
        assert_eq!(severity(0.0), Severity::Critical);
        assert_eq!(severity(600.0), Severity::Critical);
        assert_eq!(severity(601.0), Severity::Warning);
        assert_eq!(severity(86_400.0), Severity::Warning);
        assert_eq!(severity(86_401.0), Severity::Info);
        let mut kill = by_host();
        kill.seconds_ago = None;
        assert_eq!(only(&RULE, &with_kills(vec![kill])).severity, Severity::Warning);
    }

    /// [`by_limit`] in a group that exists.
    fn by_limit_of_db() -> OomKill {
        OomKill { group: Some(Name::from("/system.slice/db.service")), ..by_limit() }
    }

    #[test]
    fn a_kill_in_a_group_that_is_gone_matters_for_an_hour() {
        let finding = |seconds, kill| only(&RULE, &with_kills(vec![ago(seconds, kill)]));
        assert_eq!(finding(600.0, by_limit()).severity, Severity::Critical);
        assert_eq!(finding(3_600.0, by_limit()).severity, Severity::Warning);
        assert_eq!(finding(3_601.0, by_limit()).severity, Severity::Info);
        assert_eq!(finding(3_601.0, by_limit_of_db()).severity, Severity::Warning);
        let what = |kill| finding(3_601.0, kill).what;
        assert!(
            what(by_limit()).ends_with(". This cgroup no longer exists."),
            "{}",
            what(by_limit())
        );
        assert!(!what(by_limit_of_db()).contains("no longer exists"));
    }

    #[test]
    fn a_group_that_may_exist_is_not_called_gone() {
        let severity = |change: fn(&mut Snapshot)| {
            let mut interval = with_kills(vec![ago(7_200.0, by_limit())]);
            change(&mut interval.end);
            only(&RULE, &interval).severity
        };
        assert_eq!(severity(|_| ()), Severity::Info);
        assert_eq!(severity(|host| host.cgroups.left_out = 1), Severity::Warning);
        assert_eq!(severity(|host| host.cgroups.groups.clear()), Severity::Warning);
        assert_eq!(severity(|host| host.cgroups.hierarchy = Hierarchy::None), Severity::Warning);
        let in_docker = |host: &mut Snapshot| {
            host.host.container = file("/.dockerenv", Name::from("docker"));
        };
        assert_eq!(severity(in_docker), Severity::Warning);
    }

    proptest! {
        /// Of two kills that differ in age, or in whether their group still exists, the older one and
        /// the one of the group that is gone are never more severe.
        #[test]
        fn severity_never_rises_with_age_or_with_a_group_that_is_gone(
            seconds in 0.0f64..200_000.0,
            older in 0.0f64..200_000.0,
            of_host: bool,
        ) {
            let there = || if of_host { by_host() } else { by_limit_of_db() };
            let gone = || if of_host { by_host() } else { by_limit() };
            let severity = |seconds, kill| only(&RULE, &with_kills(vec![ago(seconds, kill)])).severity;
            prop_assert!(severity(seconds + older, there()) <= severity(seconds, there()));
            prop_assert!(severity(seconds + older, gone()) <= severity(seconds, gone()));
            prop_assert!(severity(seconds, gone()) <= severity(seconds, there()));
        }

        /// A newer kill beside an old one never makes the finding milder.
        #[test]
        fn a_second_kill_never_makes_it_milder(
            first in 0.0f64..200_000.0,
            second in 0.0f64..200_000.0,
        ) {
            let worst = |kills: &[f64]| {
                let kills = kills.iter().map(|&seconds| ago(seconds, by_host())).collect();
                only(&RULE, &with_kills(kills)).severity
            };
            let (older, newer) = (first.max(second), first.min(second));
            prop_assert!(worst(&[older, newer]) >= worst(&[older]));
        }
    }

    #[test]
    fn the_machine_and_each_group_have_a_finding() {
        let mut other = by_limit();
        other.group = Some(Name::from("/other"));
        let kills = vec![by_limit(), by_host(), by_limit(), other];
        let findings = (RULE.diagnose)(&with_kills(kills));
        assert_eq!(findings.len(), 3, "{findings:#?}");
        assert!(findings[0].title.ends_with("the machine ran out of memory"));
        assert!(
            findings
                .iter()
                .any(|finding| finding.what.contains("This is the last of 2 such reports"))
        );
    }

    #[test]
    fn counters_speak_where_the_log_cannot() {
        let finding = only(&RULE, &firing_without_a_log());
        assert_eq!(finding.title, "5 processes were killed for lack of memory since boot");
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.what.contains("could not be read (run as root, or "), "{}", finding.what);
        assert!(finding.what.contains("5 in /system.slice/db.service"), "{}", finding.what);
        assert_eq!(finding.next[0], "sudo pagewise doctor --oom");
    }

    fn of_earlier_boot(kill: OomKill) -> OomKill {
        OomKill { earlier_boot: Some(Name::from("b00t-1")), ..kill }
    }

    #[test]
    fn a_kill_of_an_earlier_boot_says_so_and_is_as_severe_as_it_is_old() {
        let finding =
            |seconds| only(&RULE, &with_kills(vec![ago(seconds, of_earlier_boot(by_host()))]));
        assert_eq!(finding(90.0).severity, Severity::Critical);
        assert_eq!(finding(86_401.0).severity, Severity::Info);
        assert!(finding(90.0).what.starts_with("90 seconds ago, before this boot, java (pid 77)"));
        assert!(proof_of(&finding(90.0)).contains("44 s after the start of an earlier boot"));
    }

    /// Seconds since boot do not tell which of two boots was first.
    #[test]
    fn the_newest_kill_of_all_boots_decides() {
        let mut old = ago(90_000.0, of_earlier_boot(by_host()));
        old.boot_seconds = 1e6;
        let finding = only(&RULE, &with_kills(vec![old, ago(90.0, by_host())]));
        assert_eq!(finding.severity, Severity::Critical);
        let mut group = ago(90_000.0, of_earlier_boot(by_limit()));
        group.boot_seconds = 1e6;
        let mut newer = ago(60.0, by_limit());
        newer.group = Some(Name::from("/other"));
        let findings = (RULE.diagnose)(&with_kills(vec![group, newer]));
        assert!(findings[0].title.ends_with("/other"), "{findings:#?}");
    }

    #[test]
    fn kills_that_were_counted_in_this_boot_are_told_beside_those_of_an_earlier_one() {
        let mut interval = firing_without_a_log();
        interval.end.kernel_log.kills = vec![ago(90_000.0, of_earlier_boot(by_host()))];
        let findings = (RULE.diagnose)(&interval);
        assert_eq!(findings.len(), 2, "{findings:#?}");
        assert!(findings[0].title.ends_with("since boot"));
    }

    #[test]
    fn a_kill_that_no_log_has_names_who_holds_memory_now() {
        let mut interval = firing_without_a_log();
        let at = Source::file("/dev/kmsg");
        interval.end.kernel_log.records = Reading::absent("a container", at);
        let finding = only(&RULE, &interval);
        assert!(finding.next[0].starts_with("pagewise report --sort size"), "{:?}", finding.next);
        interval.end.kernel_log.journal_files = file("/var/log/journal", 2);
        let finding = only(&RULE, &interval);
        assert!(finding.what.contains("The kernel log could not be read"), "{}", finding.what);
    }

    #[test]
    fn old_kills_that_the_log_lost_are_worth_knowing() {
        let mut interval = with(|host| set(host, "oom_kill", 1));
        interval.end.kernel_log.wrapped = true;
        interval.end.kernel_log.oldest_boot_seconds = Some(812.0);
        let finding = only(&RULE, &interval);
        assert_eq!(finding.severity, Severity::Info);
        assert!(finding.what.contains("begins 812 s after boot)"), "{}", finding.what);
    }

    /// Children come after their parent, and a parent counts for them.
    #[test]
    fn the_innermost_group_is_named() {
        let mut interval = firing_without_a_log();
        for group in &mut interval.end.cgroups.groups {
            if group.path.as_str() == "/system.slice" {
                group.events.oom_kill = line("/sys/fs/cgroup/system.slice/memory.events", 5, 5);
            }
        }
        let named = groups_with_kills(&interval.end);
        assert_eq!(named.len(), 1);
        assert!(named[0].path.as_str().ends_with("db.service"));
    }

    #[test]
    fn nobody_killed_is_silent() {
        assert_silent(&RULE, &calm());
    }
}
