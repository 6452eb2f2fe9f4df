// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap areas.

use pagewise_hostfs::HostRoot;
use pagewise_model::{Bytes, Reading, Source, Tier, TierKind};
use proptest::prelude::*;

use crate::glance;
use crate::testing::host;

fn tiers(host: &HostRoot) -> Vec<Tier> {
    glance(host).tiers
}

const SWAPS: &str = "\
Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/dev/sda2                               partition\t4194300\t\t1024\t\t-2
/swap\\040file\\040(deleted)               file\t\t1048572\t\t0\t\t-3
/dev/zram0                              partition\t8388604\t\t524288\t\t100
/dev/zram1                              partition\t8388604\t\t0\t\t100
";

#[test]
fn tiers_stand_in_the_order_of_filling() {
    let tiers = tiers(&host([("proc/swaps", SWAPS)]));
    let shown: Vec<_> = tiers.iter().map(|t| (t.path.as_str(), t.kind, t.priority.get())).collect();
    assert_eq!(
        shown,
        [
            ("/dev/zram0", TierKind::Zram, Some(100)),
            ("/dev/zram1", TierKind::Zram, Some(100)),
            ("/dev/sda2", TierKind::Partition, Some(-2)),
            ("/swap file (deleted)", TierKind::File, Some(-3)),
        ]
    );
    assert_eq!(
        tiers[0].used,
        Reading::found(Bytes::new(512 << 20), Source::line("/proc/swaps", 4))
    );
    assert_eq!(tiers[2].size.get(), Bytes::from_kib(4_194_300));
    assert!(tiers[0].disk.name.value().is_none());
}

#[test]
fn zmerge_is_compressed_ram_and_no_disk() {
    let lines = "Filename Type Size Used Priority\n/dev/zmerge0 partition 8 4 100\n\
                 /dev/zmerged partition 8 4 5\n/dev/zmerge1 file 8 4 3\n";
    let tiers = tiers(&host([("proc/swaps", lines)]));
    let kinds: Vec<_> = tiers.iter().map(|tier| tier.kind).collect();
    assert_eq!(kinds, [TierKind::Zmerge, TierKind::Partition, TierKind::File]);
    assert!(tiers[0].kind.is_ram() && !tiers[1].kind.is_ram());
    assert!(tiers[0].disk.name.value().is_none());
}

#[test]
fn the_disk_of_a_deleted_file_is_still_found() {
    let host = host([
        ("proc/swaps", SWAPS),
        ("proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/root rw\n"),
        ("sys/dev/block/254:0/uevent", "DEVNAME=vda\n"),
        ("sys/block/vda/queue/rotational", "1\n"),
    ]);
    let tiers = tiers(&host);
    let file = tiers.iter().find(|tier| tier.kind == TierKind::File).unwrap();
    assert_eq!(file.disk.name.value().unwrap().as_str(), "vda");
    assert_eq!(file.disk.rotational.get(), Some(true));
    assert_eq!(file.disk.file_system.value().unwrap().as_str(), "ext4");
}

#[test]
fn areas_beyond_what_a_kernel_has_are_left_out_and_the_number_is_told() {
    let line = |at: usize| format!("/f{at} file 8 0 {at}\n");
    let text = (0..500).map(line).fold("Filename\n".to_owned(), |text, line| text + &line);
    let host = host([("proc/swaps", text)]);
    let found = glance(&host);
    assert_eq!(found.tiers.len(), 64);
    let told = found.problems[0].to_string();
    assert_eq!(told, "/proc/swaps:66: 501 lines: only the first 65 were read");
}

#[test]
fn zswap_stands_before_every_tier() {
    let on = host([("proc/swaps", SWAPS), ("sys/module/zswap/parameters/enabled", "Y\n")]);
    assert!(tiers(&on).iter().all(|tier| tier.zswap_in_front.get() == Some(true)));
    let without = host([("proc/swaps", SWAPS)]);
    assert!(tiers(&without).iter().all(|tier| tier.zswap_in_front.value().is_none()));
}

#[test]
fn garbled_columns_become_problems_and_the_rest_stands() {
    let host = host([(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda2 partition 99999999999999999999999999999999 7\nnone virtual 1 0 0\n",
    )]);
    let found = glance(&host);
    let tiers = found.tiers;
    assert_eq!(tiers.len(), 1);
    assert_eq!(tiers[0].used.get(), Bytes::from_kib(7));
    assert!(tiers[0].size.value().is_none() && tiers[0].priority.value().is_none());
    let lines: Vec<_> = found.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [Some(2), Some(2), Some(3)]);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = tiers(&host([("proc/swaps", bytes)]));
    }

    /// Priorities are in descending order, and equal ones keep the order of the file.
    #[test]
    fn the_order_is_stable_and_falling(priorities in proptest::collection::vec(-3i32..3, 0..12)) {
        let line = |(at, p): (usize, &i32)| format!("/f{at} file 8 0 {p}\n");
        let text: String = priorities.iter().enumerate().map(line).collect();
        let shown: Vec<_> = tiers(&host([("proc/swaps", &text)]))
            .iter()
            .map(|tier| (tier.priority.get().unwrap(), tier.path.as_str().to_owned()))
            .collect();
        let mut expected: Vec<_> = priorities.iter().enumerate().collect();
        expected.sort_by_key(|(at, p)| (-**p, *at));
        let expected: Vec<_> = expected.iter().map(|(at, p)| (**p, format!("/f{at}"))).collect();
        prop_assert_eq!(shown, expected);
    }
}
