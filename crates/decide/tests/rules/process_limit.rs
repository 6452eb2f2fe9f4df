// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process at its limit of address space.

use pagewise_model::Name;

use super::*;
use crate::testing::{assert_silent, calm, file, gib, line, mib, only, proof_of, with};

/// The database has 1,990 of 2,048 MiB of address space.
pub(in crate::rules) fn host_with_finding() -> Interval {
    with(|host| {
        let process = &mut host.processes.list[0];
        process.cgroup = file("/proc/4121/cgroup", Name::from("/system.slice/db.service"));
        process.virtual_size = line("/proc/4121/status", 18, mib(1990));
        process.address_space_limit = line("/proc/4121/limits", 11, Limit::Bytes(gib(2)));
        process.data_limit = line("/proc/4121/limits", 4, Limit::Max);
    })
}

/// The same with the private writable part.
pub(in crate::rules) fn host_with_data_finding() -> Interval {
    with(|host| {
        let process = &mut host.processes.list[0];
        process.data = line("/proc/4121/status", 26, mib(1990));
        process.data_limit = line("/proc/4121/limits", 4, Limit::Bytes(gib(2)));
    })
}

#[test]
fn the_process_its_limit_and_the_place_of_the_limit_are_named() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.title, "postgres (pid 4121) has 58.0 MiB of its RLIMIT_AS left");
    assert_eq!(
        finding.what,
        "The address space of postgres (pid 4121) is 1.9 GiB, and its limit (RLIMIT_AS) is 2.0 GiB: an allocation of \
         more than 58.0 MiB fails, although 9.0 GiB of memory are available."
    );
    assert!(finding.why.contains("LimitAS= of db.service (to raise it: systemctl edit"));
    assert_eq!(
        finding.next,
        [
            "grep -E 'address space|data size' /proc/4121/limits",
            "systemctl show --property=LimitAS,LimitASSoft db.service"
        ]
    );
    let proof = proof_of(&finding);
    assert!(proof.contains("/proc/4121/limits:11 = RLIMIT_AS 2.0 GiB"), "{proof}");
}

#[test]
fn private_writable_memory_has_a_limit_of_its_own() {
    let finding = only(&RULE, &host_with_data_finding());
    assert_eq!(finding.title, "postgres (pid 4121) has 58.0 MiB of its RLIMIT_DATA left");
    // it is in no known unit
    assert!(finding.why.contains("it comes from ulimit -d in the shell"), "{}", finding.why);
    assert_eq!(finding.next.len(), 1);
}

#[test]
fn processes_of_one_name_share_a_finding() {
    let mut interval = host_with_finding();
    for pid in [5001, 5002] {
        let mut worker = interval.end.processes.list[0].clone();
        worker.pid = pid;
        worker.virtual_size = line(&format!("/proc/{pid}/status"), 18, mib(1980));
        interval.end.processes.list.push(worker);
    }
    let what = only(&RULE, &interval).what;
    assert!(what.ends_with("2 other processes of this name are near their limits, too."), "{what}");
}

#[test]
fn a_limit_that_is_far_small_or_unknown_is_no_trouble() {
    assert_silent(&RULE, &calm());
    let changes: [fn(&mut Process); 5] = [
        |process| process.virtual_size = line("/proc/4121/status", 18, mib(1940)),
        |process| process.virtual_size = Reading::not_read(),
        |process| process.address_space_limit = Reading::not_read(),
        |process| process.address_space_limit = line("/proc/4121/limits", 11, Limit::Max),
        |process| {
            process.virtual_size = line("/proc/4121/status", 18, mib(63));
            process.address_space_limit = line("/proc/4121/limits", 11, Limit::Bytes(mib(63)));
        },
    ];
    for change in changes {
        let mut interval = host_with_finding();
        change(&mut interval.end.processes.list[0]);
        assert_silent(&RULE, &interval);
    }
    // a limit that was lowered below what the process has
    let mut lowered = host_with_finding();
    lowered.end.processes.list[0].virtual_size = line("/proc/4121/status", 18, gib(3));
    assert!(only(&RULE, &lowered).title.contains("has 0 B of its RLIMIT_AS left"));
}
