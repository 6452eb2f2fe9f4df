// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap that is off, or whose pool is full.

use super::*;
use crate::testing::{assert_silent, file, gib, grow, line, mib, on_nvme, only, stall, tier, with};
use pagewise_model::TierKind;

fn on_disk(used: Bytes) -> Interval {
    with(|host| on_nvme(host, used))
}

pub(crate) fn host_with_off_finding() -> Interval {
    on_disk(gib(1))
}

/// zswap is on, and its pool uses `pool` of 16 GiB.
fn pool(pool: Bytes, reads: u64) -> Interval {
    let mut interval = on_disk(gib(5));
    interval.end.zswap.enabled = file("/sys/module/zswap/parameters/enabled", true);
    interval.end.zswap.stored = line("/proc/meminfo", 40, gib(4));
    interval.end.zswap.pool = line("/proc/meminfo", 39, pool);
    grow(&mut interval, "pswpin", reads);
    interval
}

pub(crate) fn host_with_full_finding() -> Interval {
    pool(mib(3000), 5_000)
}

#[test]
fn zswap_that_is_off_while_pages_are_on_a_disk() {
    let finding = only(&RULE, &host_with_off_finding());
    assert_eq!(finding.severity, Severity::Info);
    assert_eq!(finding.what, "zswap is off, and 1.0 GiB of swapped pages are in /dev/nvme0n1p3.");
    let commands: Vec<&str> = finding.next.iter().map(String::as_str).collect();
    assert_eq!(
        commands,
        [
            "echo Y | sudo tee /sys/module/zswap/parameters/shrinker_enabled  # writes; until the next boot",
            "echo lz4 | sudo tee /sys/module/zswap/parameters/compressor  # writes; until the next boot",
            "echo Y | sudo tee /sys/module/zswap/parameters/enabled  # writes; until the next boot",
            "echo 0 | sudo tee /proc/sys/vm/page-cluster  # writes; until the next boot",
            "sudo pagewise trial --allow-shared-swap --a swap=zram:16384M:lz4+file:16384M --b \
             swap=zswap:lz4:20:shrinker+file:16384M --b vm.page-cluster=0 -- CMD",
        ]
    );
    let mut waiting = host_with_off_finding();
    stall(&mut waiting.end.psi.memory.some, 30.0, 20.0);
    assert_eq!(only(&RULE, &waiting).severity, Severity::Warning);
}

#[test]
fn a_full_pool_with_reads_from_the_disk() {
    let finding = only(&RULE, &host_with_full_finding());
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        finding.what,
        "zswap's pool takes 2.9 GiB of RAM (18.3 %, and its limit is 20 %), and 5,000 pages were read from swap on a \
         disk in the last 10.0 s."
    );
    assert!(finding.next[0].contains("shrinker_enabled") && finding.next.len() == 2);
}

#[test]
fn nothing_to_gain_or_not_certain_is_silent() {
    assert_silent(&RULE, &on_disk(Bytes::new(0)));
    assert_silent(&RULE, &pool(mib(2000), 5_000));
    assert_silent(&RULE, &pool(mib(3000), 500));
    let mut shrinks = host_with_full_finding();
    let path = "/sys/module/zswap/parameters/shrinker_enabled";
    shrinks.end.zswap.shrinker_enabled = file(path, true);
    assert_silent(&RULE, &shrinks);
    let mut with_zram = host_with_off_finding();
    with_zram.end.tiers.push(tier("/dev/zram0", TierKind::Zram, mib(1), 100));
    assert_silent(&RULE, &with_zram);
    let mut spins = host_with_off_finding();
    spins.end.tiers[0].disk.rotational = file("/sys/block/nvme0n1/queue/rotational", true);
    assert_silent(&RULE, &spins);
}
