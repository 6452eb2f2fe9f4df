// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap.

use pagewise_hostfs::HostRoot;
use pagewise_model::{Bytes, Name, Percent, Reading, Source, Zswap};
use proptest::prelude::*;

use crate::glance;
use crate::testing::{host, mangle};

fn zswap(host: &HostRoot) -> Zswap {
    glance(host).zswap
}

#[test]
fn parameters_and_counts_come_together() {
    let zswap = zswap(&host([
        ("proc/meminfo", "MemTotal: 9 kB\nZswap: 3 kB\nZswapped: 8 kB\n"),
        ("proc/vmstat", "zswpout 9\nzswpwb 4\n"),
        ("sys/module/zswap/parameters/enabled", "Y\n"),
        ("sys/module/zswap/parameters/compressor", "lzo\n"),
        ("sys/module/zswap/parameters/max_pool_percent", "20\n"),
        ("sys/module/zswap/parameters/accept_threshold_percent", "90\n"),
        ("sys/module/zswap/parameters/shrinker_enabled", "N\n"),
    ]));
    assert_eq!((zswap.enabled.get(), zswap.shrinker_enabled.get()), (Some(true), Some(false)));
    assert_eq!(zswap.compressor.value(), Some(&Name::from("lzo")));
    assert_eq!(zswap.zpool.value(), None);
    assert_eq!(zswap.max_pool_percent.get(), Some(Percent::new(20.0)));
    assert_eq!(zswap.accept_threshold_percent.get(), Some(Percent::new(90.0)));
    assert_eq!(zswap.pool.get(), Some(Bytes::new(3072)));
    assert_eq!(zswap.stored, Reading::found(Bytes::new(8192), Source::line("/proc/meminfo", 3)));
    assert_eq!(zswap.written_back, Reading::found(4, Source::line("/proc/vmstat", 2)));
}

#[test]
fn a_kernel_without_zswap_has_no_pool_rather_than_an_empty_one() {
    let zswap =
        zswap(&host([("proc/meminfo", "MemTotal: 9 kB\n"), ("proc/vmstat", "pgfault 1\n")]));
    assert_eq!(
        (zswap.enabled.get(), zswap.pool.get(), zswap.written_back.get()),
        (None, None, None)
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(flag in mangle("Y\n"), word in mangle("lzo\n"), share in mangle("20\n")) {
        zswap(&host([
            ("sys/module/zswap/parameters/enabled", flag),
            ("sys/module/zswap/parameters/compressor", word),
            ("sys/module/zswap/parameters/max_pool_percent", share),
        ]));
    }
}
