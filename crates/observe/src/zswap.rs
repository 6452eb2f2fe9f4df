// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads zswap into [`Zswap`]: its parameters, and what `/proc/meminfo` and `/proc/vmstat` count of
//! it. Those two are read once per host and handed in.
//!
//! `Zswap:` is the memory that the pool takes, `Zswapped:` what the pages in it were before.

use pagewise_model::{Counters, Memory, Percent, Reading, Zswap};

use crate::memory::other;
use pagewise_files::text::number;
use pagewise_files::{HostRoot, ReadValues};

pub(crate) fn read(host: &HostRoot, memory: &Memory, vmstat: &Counters) -> Zswap {
    Zswap {
        enabled: host.flag_at(&parameter("enabled")),
        compressor: host.name_at(&parameter("compressor")),
        zpool: host.name_at(&parameter("zpool")),
        max_pool_percent: percent(host, "max_pool_percent"),
        accept_threshold_percent: percent(host, "accept_threshold_percent"),
        shrinker_enabled: host.flag_at(&parameter("shrinker_enabled")),
        pool: other(memory, "Zswap"),
        stored: other(memory, "Zswapped"),
        written_back: vmstat.get("zswpwb"),
    }
}

fn parameter(name: &str) -> String {
    format!("sys/module/zswap/parameters/{name}")
}

fn percent(host: &HostRoot, name: &str) -> Reading<Percent> {
    let whole = |word: &[u8]| number::<u32>(word).map(|percent| Percent::new(percent.into()));
    host.value(&parameter(name), "a whole number of percent", whole)
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Bytes, Name, Source};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangled};
    use crate::{counters, memory};

    fn zswap(host: &HostRoot) -> Zswap {
        read(host, &memory::read(host), &counters::read(host, "proc/vmstat"))
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
        assert_eq!(
            zswap.stored,
            Reading::found(Bytes::new(8192), Source::line("/proc/meminfo", 3))
        );
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
        fn no_bytes_make_it_panic(flag in mangled("Y\n"), word in mangled("lzo\n"), share in mangled("20\n")) {
            zswap(&host([
                ("sys/module/zswap/parameters/enabled", flag),
                ("sys/module/zswap/parameters/compressor", word),
                ("sys/module/zswap/parameters/max_pool_percent", share),
            ]));
        }
    }
}
