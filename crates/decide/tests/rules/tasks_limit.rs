// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup at its limit of tasks.

use pagewise_model::{Name, Reading};

use super::*;
use crate::testing::{assert_silent, calm, file, line, only, proof_of, with};

const SLICE: &str = "/sys/fs/cgroup/system.slice";

fn limit(host: &mut Snapshot, group: usize, folder: &str, current: u64, max: u64) {
    let pids = &mut host.cgroups.groups[group].pids;
    pids.current = file(&format!("{folder}/pids.current"), current);
    pids.max = file(&format!("{folder}/pids.max"), TaskLimit::Tasks(max));
    pids.refused = line(&format!("{folder}/pids.events"), 1, 3);
}

/// The database has as many tasks as its limit allows.
pub(in crate::rules) fn host_with_full_finding() -> Interval {
    with(|host| {
        limit(host, 2, &format!("{SLICE}/db.service"), 512, 512);
        let process = &mut host.processes.list[0];
        process.cgroup = file("/proc/4121/cgroup", Name::from("/system.slice/db.service"));
        process.threads = line("/proc/4121/status", 35, 480);
        let mut small = process.clone();
        (small.pid, small.name) = (4200, "sh".into());
        small.threads = line("/proc/4200/status", 35, 1);
        host.processes.list.push(small);
    })
}

/// Forks are refused as well.
pub(in crate::rules) fn host_with_finding() -> Interval {
    let mut interval = host_with_full_finding();
    refuse(&mut interval, 2, 38);
    interval
}

/// Counts refused forks in a group during the interval.
fn refuse(interval: &mut Interval, group: usize, times: u64) {
    let path = interval.end.cgroups.groups[group].path.clone();
    let at = format!("/sys/fs/cgroup{path}/pids.events");
    let start = interval.start.as_mut().unwrap();
    start.cgroups.groups[group].pids.refused = line(&at, 1, 3);
    interval.end.cgroups.groups[group].pids.refused = line(&at, 1, 3 + times);
}

#[test]
fn refused_forks_are_a_warning_with_the_group_its_limit_and_its_program() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.title, "forks are refused in /system.slice/db.service: its pids.max is 512");
    let seconds = host_with_finding().seconds().unwrap();
    assert_eq!(
        finding.what,
        format!(
            "The cgroup /system.slice/db.service has 512 of at most 512 tasks (pids.max); in {seconds:.1} s, 38 forks \
             were refused. The most are of postgres (pid 4121): 480 threads."
        )
    );
    assert!(finding.why.contains("TasksMax= of db.service"), "{}", finding.why);
    assert_eq!(
        finding.next[0],
        format!(
            "grep . {0}/pids.current {0}/pids.max {0}/pids.events",
            format!("{SLICE}/db.service")
        )
    );
    let proof = proof_of(&finding);
    assert!(proof.contains("db.service/pids.max = pids.max 512"), "{proof}");
    assert!(proof.contains("pids.events max +38"), "{proof}");
    assert!(proof.contains("Threads 480"), "{proof}");
}

#[test]
fn a_full_group_without_a_refused_fork_is_for_information() {
    let finding = only(&RULE, &host_with_full_finding());
    assert_eq!(finding.severity, Severity::Info);
    assert_eq!(finding.title, "/system.slice/db.service has 512 of at most 512 tasks");
    assert!(finding.what.contains("none was refused between the two readings"), "{}", finding.what);
    let mut one_left = host_with_full_finding();
    one_left.end.cgroups.groups[2].pids.current = file(SLICE, 511);
    assert_eq!(only(&RULE, &one_left).severity, Severity::Info);
    // without the counter, refused forks are not mentioned
    let mut unknown = host_with_full_finding();
    unknown.end.cgroups.groups[2].pids.refused = Reading::not_read();
    assert!(!only(&RULE, &unknown).what.contains("refused"));
}

#[test]
fn equal_programs_are_counted_together() {
    let mut interval = host_with_finding();
    let worker = interval.end.processes.list[1].clone();
    for pid in 5000..5600 {
        let mut worker = worker.clone();
        worker.pid = pid;
        interval.end.processes.list.push(worker);
    }
    let what = only(&RULE, &interval).what;
    assert!(what.ends_with("The most are of sh: 601 threads in 601 processes."), "{what}");
}

/// Linux before 6.11 counts in the group of the task that forked, later kernels in the group with
/// the limit and above: either way the group whose limit was reached is named.
#[test]
fn the_group_whose_limit_was_reached_is_named_on_either_kernel() {
    let full = || with(|host| limit(host, 1, SLICE, 100, 100));
    let title = "forks are refused in /system.slice: its pids.max is 100";
    let mut later = full();
    refuse(&mut later, 1, 5);
    assert_eq!(only(&RULE, &later).title, title);
    let mut before = full();
    refuse(&mut before, 2, 5);
    let finding = only(&RULE, &before);
    assert_eq!(finding.title, title);
    // nobody raises the limit of a slice
    assert!(!finding.why.contains("TasksMax"), "{}", finding.why);
    // a slice whose unit reached its own limit refused nothing
    let mut below = host_with_finding();
    limit(&mut below.end, 1, SLICE, 520, 4000);
    refuse(&mut below, 1, 38);
    assert_eq!(only(&RULE, &below).title, only(&RULE, &host_with_finding()).title);
    // a unit far below its own limit, in a slice that is full
    let mut unit = full();
    limit(&mut unit.end, 2, &format!("{SLICE}/db.service"), 20, 512);
    refuse(&mut unit, 2, 5);
    assert_eq!(only(&RULE, &unit).title, title);
}

#[test]
fn other_groups_and_unknown_values_are_no_trouble() {
    assert_silent(&RULE, &calm());
    let changes: [fn(&mut Snapshot); 5] = [
        |host| host.cgroups.groups[2].pids.current = file(SLICE, 510),
        |host| host.cgroups.groups[2].pids.current = Reading::not_read(),
        |host| host.cgroups.groups[2].pids.max = Reading::denied("run as root", Default::default()),
        |host| host.cgroups.groups[2].pids.max = file(SLICE, TaskLimit::Max),
        |host| host.cgroups.groups[2].path = "/pagewise-12-1".into(),
    ];
    for change in changes {
        let mut interval = host_with_full_finding();
        change(&mut interval.end);
        assert_silent(&RULE, &interval);
    }
    // a service that may not fork, and does not
    assert_silent(&RULE, &with(|host| limit(host, 2, SLICE, 1, 1)));
}
