// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of swap areas.

use pagewise_model::Limit;

use pagewise_model::TierKind;

use super::*;
use crate::testing::{assert_silent, calm, file, gib, line, mib, only, tier, with};

fn tiers(disk: Bytes, disk_priority: i32, zram: Bytes, zram_priority: i32) -> Interval {
    with(|host| {
        host.tiers = vec![
            tier("/swap file", TierKind::File, disk, disk_priority),
            tier("/dev/zram0", TierKind::Zram, zram, zram_priority),
        ];
    })
}

pub(crate) fn host_with_finding() -> Interval {
    tiers(gib(4), 50, mib(300), 5)
}

#[test]
fn a_full_disk_in_front_of_zram() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.title, "swap fills /swap file before the faster /dev/zram0");
    assert_eq!(
        finding.what,
        "The swap area /swap file has priority 50 and holds 4.0 GiB of 4.0 GiB (full). The faster swap \
         area /dev/zram0 has priority 5 and holds 300.0 MiB of 4.0 GiB."
    );
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.next[0].starts_with("sudo swapoff /dev/zram0 && sudo swapon -p 100 "));
}

#[test]
fn equal_priorities_are_filled_in_turn() {
    let finding = only(&RULE, &tiers(mib(10), -2, mib(10), -2));
    assert_eq!(finding.title, "swap fills /swap file and the faster /dev/zram0 in turn");
}

#[test]
fn a_spinning_disk_before_flash() {
    let interval = with(|host| {
        let disk = |path, spins, priority| {
            let mut tier = tier(path, TierKind::Partition, mib(1), priority);
            tier.disk.rotational = file("/sys/block/sda/queue/rotational", spins);
            tier
        };
        host.tiers = vec![disk("/dev/sda2", true, -2), disk("/dev/nvme0n1p3", false, -3)];
    });
    assert_eq!(
        only(&RULE, &interval).title,
        "swap fills /dev/sda2 before the faster /dev/nvme0n1p3"
    );
}

#[test]
fn contents_that_may_not_fit_into_memory_are_not_moved() {
    let mut interval = host_with_finding();
    interval.end.memory.available = line("/proc/meminfo", 3, mib(400));
    assert_eq!(only(&RULE, &interval).next, ["swapon --show=NAME,TYPE,SIZE,USED,PRIO"]);
}

#[test]
fn nor_those_that_their_group_has_no_room_for() {
    let mut interval = host_with_finding();
    let group = &mut interval.end.cgroups.groups[2];
    group.max = file("/sys/fs/cgroup/db/memory.max", Limit::Bytes(gib(1)));
    group.current = file("/sys/fs/cgroup/db/memory.current", gib(1));
    group.swap_current = file("/sys/fs/cgroup/db/memory.swap.current", mib(1));
    assert_eq!(only(&RULE, &interval).next, ["swapon --show=NAME,TYPE,SIZE,USED,PRIO"]);
}

#[test]
fn right_order_and_what_other_rules_tell_are_silent() {
    assert_silent(&RULE, &calm());
    assert_silent(&RULE, &tiers(mib(10), -2, mib(10), 100));
    assert_silent(&RULE, &tiers(mib(10), 50, Bytes::new(0), 5));
    let mut zswap = host_with_finding();
    zswap.end.tiers[0].zswap_in_front = file("/sys/module/zswap/parameters/enabled", true);
    assert_silent(&RULE, &zswap);
}
