// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule `oom-kills` on made-up hosts.

use pagewise_model::{Hierarchy, Reading, Source};
use proptest::prelude::*;

use super::*;
use crate::testing::kills::{by_host, by_limit};
use crate::testing::{assert_silent, calm, file, grow, line, only, proof_of, set_knob, with};

fn ago(seconds: f64, mut kill: OomKill) -> OomKill {
    kill.seconds_ago = Some(seconds);
    kill
}

fn with_kills(kills: Vec<OomKill>) -> Interval {
    let mut interval = calm();
    interval.end.kernel_log.kills = kills;
    interval
}

pub(crate) fn host_with_by_the_host_finding() -> Interval {
    with_kills(vec![ago(90.0, by_host())])
}

pub(crate) fn host_with_by_a_limit_finding() -> Interval {
    with_kills(vec![ago(90.0, by_limit())])
}

pub(crate) fn host_with_without_a_log_finding() -> Interval {
    let mut interval = with(|host| set_knob(host, "oom_kill", 3));
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
    let of_db = only(&RULE, &with_kills(vec![ago(90.0, by_limit_of_db())]));
    assert_eq!(of_db.severity, Severity::Critical);
    let title = "the kernel killed nginx (pid 980) at the limit of /system.slice/db.service";
    assert_eq!(of_db.title, title);
    let interval = host_with_by_a_limit_finding();
    let finding = only(&RULE, &interval);
    assert_eq!(crate::ended_seconds_ago(&interval, &finding), Some(90.0));
    assert_eq!(finding.severity, Severity::Warning);
    let title = "nginx (pid 980) was killed at the limit of /system.slice/web.service, now gone";
    assert_eq!(finding.title, title);
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
    let finding = only(&RULE, &host_with_by_the_host_finding());
    assert_eq!(finding.title, "the kernel killed java (pid 77): the machine ran out of memory");
    assert!(
        proof_of(&finding).starts_with("/dev/kmsg:500 = killed process 77 (java), 44 s after boot")
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
    assert!(finding.why.contains("If the NUMA nodes that a process may use have no memory left"));
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

/// [`by_limit`] in a group that still exists.
fn by_limit_of_db() -> OomKill {
    OomKill { group: Some(Name::from("/system.slice/db.service")), ..by_limit() }
}

#[test]
fn a_kill_in_a_group_that_is_gone_matters_for_an_hour() {
    let finding = |seconds, kill| only(&RULE, &with_kills(vec![ago(seconds, kill)]));
    assert_eq!(finding(600.0, by_limit_of_db()).severity, Severity::Critical);
    assert_eq!(finding(600.0, by_limit()).severity, Severity::Warning);
    assert_eq!(finding(3_600.0, by_limit()).severity, Severity::Warning);
    assert_eq!(finding(3_601.0, by_limit()).severity, Severity::Info);
    assert_eq!(finding(3_601.0, by_limit_of_db()).severity, Severity::Warning);
    let what = |kill| finding(3_601.0, kill).what;
    assert!(what(by_limit()).ends_with(". This cgroup no longer exists."), "{}", what(by_limit()));
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
    /// Of two kills that differ only in age, or in whether their group still exists, the older one
    /// and the one of the removed group are never more severe.
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

    /// A second kill, of any age, never makes the finding milder.
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
        findings.iter().any(|finding| finding.what.contains("This is the last of 2 such reports"))
    );
}

#[test]
fn counters_speak_where_the_log_cannot() {
    let finding = only(&RULE, &host_with_without_a_log_finding());
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

/// Seconds since boot cannot be compared between boots.
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
    assert!(findings[0].title.ends_with("/other, now gone"), "{findings:#?}");
}

#[test]
fn kills_that_were_counted_in_this_boot_are_told_beside_those_of_an_earlier_one() {
    let mut interval = host_with_without_a_log_finding();
    interval.end.kernel_log.kills = vec![ago(90_000.0, of_earlier_boot(by_host()))];
    let findings = (RULE.diagnose)(&interval);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings[0].title.ends_with("since boot"));
}

#[test]
fn a_kill_that_no_log_has_names_who_holds_memory_now() {
    let mut interval = host_with_without_a_log_finding();
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
    let mut interval = with(|host| set_knob(host, "oom_kill", 1));
    interval.end.kernel_log.wrapped = true;
    interval.end.kernel_log.oldest_boot_seconds = Some(812.0);
    let finding = only(&RULE, &interval);
    assert_eq!(finding.severity, Severity::Info);
    assert!(finding.what.contains("begins 812 s after boot)"), "{}", finding.what);
}

/// Children follow their parent in the list, and the parent's counter includes them.
#[test]
fn the_innermost_group_is_named() {
    let mut interval = host_with_without_a_log_finding();
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
