// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protected memory for which others wait.

use pagewise_model::{Limit, Reading};

use super::*;
use crate::testing::{assert_silent, calm, file, gib, line, only, proof_of, stall, with};

const SLICE: &str = "/sys/fs/cgroup/system.slice";

/// A database whose memory.min keeps 9 of 16 GiB, in a slice that is protected as well, while tasks
/// elsewhere wait.
pub(in crate::rules) fn host_with_finding() -> Interval {
    with(|host| {
        stall(&mut host.psi.memory.some, 20.0, 15.0);
        let slice = &mut host.cgroups.groups[1];
        slice.min = file(&format!("{SLICE}/memory.min"), Limit::Bytes(gib(10)));
        slice.current = file(&format!("{SLICE}/memory.current"), gib(11));
        let group = &mut host.cgroups.groups[2];
        group.min = file(&format!("{SLICE}/db.service/memory.min"), Limit::Bytes(gib(10)));
        group.current = file(&format!("{SLICE}/db.service/memory.current"), gib(9));
    })
}

#[test]
fn the_group_with_its_protection_and_what_remains_are_named() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        finding.title,
        "memory.min keeps 9.0 GiB for /system.slice/db.service while others wait"
    );
    assert_eq!(
        finding.what,
        "The kernel may not reclaim 9.0 of 16.0 GiB of RAM, because the cgroup /system.slice/db.service has \
         memory.min set to 10.0 GiB. 7.0 GiB remain for everything else."
    );
    assert_eq!(finding.next[0], "pagewise limits --cgroup /system.slice/db.service");
    assert!(proof_of(&finding).contains("db.service/memory.min = min 10.0 GiB"));
}

#[test]
fn the_cgroup_that_waits_is_named() {
    let mut interval = host_with_finding();
    let mut web = interval.end.cgroups.groups[2].clone();
    web.path = "/web".into();
    web.min = file("/sys/fs/cgroup/web/memory.min", Limit::Bytes(Bytes::new(0)));
    web.pressure.some.avg60 = line("/sys/fs/cgroup/web/memory.pressure", 1, Percent::new(4.0));
    interval.end.cgroups.groups.push(web);
    let what = only(&RULE, &interval).what;
    assert!(what.contains("cgroups /web waited the most (4.0 % of the last minute)."), "{what}");
}

type Change = fn(&mut Snapshot);

#[test]
fn protection_is_not_blamed_without_cause() {
    let changes: [(&str, Change); 6] = [
        ("nobody waits", |host| stall(&mut host.psi.memory.some, 0.0, 0.0)),
        ("it holds little", |host| {
            host.cgroups.groups[2].current = file("/sys/fs/cgroup/x/memory.current", gib(1));
            host.cgroups.groups[1].current = file("/sys/fs/cgroup/x/memory.current", gib(1));
        }),
        ("the slice above is not protected", |host| {
            host.cgroups.groups[1].min =
                file("/sys/fs/cgroup/x/memory.min", Limit::Bytes(Bytes::new(0)));
        }),
        ("the slice above is not known", |host| {
            host.cgroups.groups[1].min = Reading::not_read();
            host.cgroups.groups[2].min = Reading::not_read();
        }),
        ("it waits itself", |host| {
            stall(&mut host.cgroups.groups[2].pressure.some, 20.0, 15.0);
        }),
        ("its usage is not known", |host| {
            host.cgroups.groups[1].current = Reading::not_read();
            host.cgroups.groups[2].current = Reading::not_read();
        }),
    ];
    for (what, change) in changes {
        let mut interval = host_with_finding();
        change(&mut interval.end);
        let findings = (RULE.diagnose)(&interval);
        assert!(findings.is_empty(), "{what}: {findings:#?}");
    }
    assert_silent(&RULE, &calm());
}
