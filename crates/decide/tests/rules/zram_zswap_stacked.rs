// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap in front of a device in compressed RAM.

use super::*;
use crate::testing::{assert_silent, calm, file, only, with};

pub(crate) fn host_with_finding() -> Interval {
    with(|host| host.zswap.enabled = file("/sys/module/zswap/parameters/enabled", true))
}

#[test]
fn zswap_in_front_of_zram() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(
        finding.what,
        "zswap is on, and /dev/zram0 is used as swap. 512.0 MiB of swap are in use there, but zswap \
         holds 0 B of swapped pages itself."
    );
    let command =
        "echo N | sudo tee /sys/module/zswap/parameters/enabled  # writes; until the next boot";
    assert_eq!(finding.next[0], command);
}

#[test]
fn zswap_in_front_of_a_disk_is_as_meant() {
    let mut interval = host_with_finding();
    interval.end.tiers[0].kind = TierKind::Partition;
    assert_silent(&RULE, &interval);
    assert_silent(&RULE, &calm());
}
