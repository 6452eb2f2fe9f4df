// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule `protection-limited` on made-up hosts.

use super::*;
use crate::testing::{assert_silent, calm, file, mib, only, with};

const SLICE: usize = 1;
const SERVICE: usize = 2;

/// `memory.low` of a service and of its slice.
fn protected(service: Limit, slice: Limit) -> Interval {
    with(|host| {
        for (at, low) in [(SLICE, slice), (SERVICE, service)] {
            let group = &mut host.cgroups.groups[at];
            group.low = file(&format!("/sys/fs/cgroup{}/memory.low", group.path), low);
            group.current = file(&format!("/sys/fs/cgroup{}/memory.current", group.path), mib(300));
            group.max = file(&format!("/sys/fs/cgroup{}/memory.max", group.path), Limit::Max);
            group.high = file(&format!("/sys/fs/cgroup{}/memory.high", group.path), Limit::Max);
        }
    })
}

fn size(size: u64) -> Limit {
    Limit::Bytes(mib(size))
}

pub(crate) fn host_with_finding() -> Interval {
    protected(size(200), size(0))
}

#[test]
fn a_protected_service_in_a_slice_without_protection_is_named() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(
        finding.title,
        "memory.low of /system.slice/db.service is limited by a cgroup above it"
    );
    assert!(finding.what.contains("set to 200.0 MiB, but /system.slice"), "{}", finding.what);
    let needed = "Protecting it takes MemoryLow of at least 200.0 MiB of system.slice, as the sum of what is \
                  protected there.";
    assert!(finding.what.ends_with(needed), "{}", finding.what);
    assert!(finding.next.iter().all(|next| !next.contains("set-property")), "{:?}", finding.next);
    assert!(only(&RULE, &protected(Limit::Max, size(100))).what.contains("set to 300.0 MiB"));
}

#[test]
fn memory_min_is_raised_as_memory_min() {
    let mut interval = host_with_finding();
    for group in &mut interval.end.cgroups.groups[SLICE..=SERVICE] {
        group.min = std::mem::replace(&mut group.low, file("/memory.low", size(0)));
    }
    let finding = only(&RULE, &interval);
    assert!(finding.title.starts_with("memory.min of "), "{}", finding.title);
    assert!(finding.what.contains("takes MemoryMin of at least 200.0 MiB"), "{}", finding.what);
}

#[test]
fn protection_that_counts_is_no_finding() {
    assert_silent(&RULE, &calm());
    assert_silent(&RULE, &protected(size(200), size(200)));
    assert_silent(&RULE, &protected(size(200), Limit::Max));
    assert_silent(&RULE, &protected(size(200), size(190)));
    assert_silent(&RULE, &protected(size(0), size(0)));
    // the slice has a limit, and reclaim for that limit respects protection inside the slice
    let mut limited = host_with_finding();
    limited.end.cgroups.groups[SLICE].max = file("/memory.max", size(400));
    assert_silent(&RULE, &limited);
    // so little of it is in use that no protection is lost
    let mut small = host_with_finding();
    small.end.cgroups.groups[SERVICE].current = file("/memory.current", mib(10));
    assert_silent(&RULE, &small);
}
