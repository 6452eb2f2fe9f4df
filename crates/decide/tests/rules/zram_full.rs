// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A swap device in compressed RAM that accepts no more pages.

use pagewise_model::TierKind;

use super::*;
use crate::testing::{assert_silent, calm, gib, line, mib, only, tier, with};

pub(crate) fn host_with_finding() -> Interval {
    with(|host| host.tiers = vec![tier("/dev/zram0", TierKind::Zram, gib(4), 100)])
}

pub(crate) fn host_with_at_its_limit_finding() -> Interval {
    let mut interval = with(|host| {
        host.zram[0].mm_stat.memory_used = line("/sys/block/zram0/mm_stat", 1, mib(950));
        host.zram[0].mm_stat.memory_limit = line("/sys/block/zram0/mm_stat", 1, gib(1));
    });
    interval.end.zram[0].io_stat.failed_writes = line("/sys/block/zram0/io_stat", 1, 7);
    interval
}

#[test]
fn full_with_nothing_behind_is_critical_when_little_is_available() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.title, "/dev/zram0 is full");
    assert_eq!(
        finding.what,
        "The device holds 4.0 GiB of uncompressed data, and its size is 4.0 GiB; no other swap area has room."
    );
    assert_eq!(finding.severity, Severity::Warning);
    let mut low = host_with_finding();
    low.end.memory.available = line("/proc/meminfo", 3, mib(700));
    assert_eq!(only(&RULE, &low).severity, Severity::Critical);
}

#[test]
fn full_with_a_disk_behind_is_a_warning() {
    let mut interval = host_with_finding();
    interval.end.tiers.push(tier("/swapfile", TierKind::File, mib(1), -2));
    let finding = only(&RULE, &interval);
    assert!(finding.what.ends_with("the kernel now swaps pages to /swapfile instead."));
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn near_its_limit_and_refusing_writes() {
    let finding = only(&RULE, &host_with_at_its_limit_finding());
    assert_eq!(finding.title, "zram0 uses 93 % of the memory that its mem_limit allows");
    assert!(
        finding.what.ends_with(", and 7 writes to the device failed in the last 10.0 s."),
        "{}",
        finding.what
    );
    assert_eq!(finding.severity, Severity::Critical);
}

#[test]
fn a_full_zmerge_device_is_told_by_its_own_name_and_files() {
    let mut interval = host_with_finding();
    let host = &mut interval.end;
    host.tiers = vec![tier("/dev/zmerge0", TierKind::Zmerge, gib(4), 100)];
    host.zmerge = host.zram.drain(..).map(|it| Zram { driver: Driver::Zmerge, ..it }).collect();
    let finding = only(&RULE, &interval);
    assert_eq!(finding.title, "/dev/zmerge0 is full");
    assert!(finding.why.starts_with("The size of a zmerge device limits"), "{}", finding.why);
    assert!(finding.next[0].starts_with("grep . /sys/block/zmerge0/disksize"));
}

#[test]
fn room_and_no_limit_are_silent() {
    assert_silent(&RULE, &calm());
    let roomy = with(|host| {
        host.zram[0].mm_stat.memory_limit = line("/sys/block/zram0/mm_stat", 1, gib(1));
    });
    assert_silent(&RULE, &roomy);
}
