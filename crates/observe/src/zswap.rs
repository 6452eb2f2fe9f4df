// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads zswap into [`Zswap`]: its parameters, and its values in `/proc/meminfo` and
//! `/proc/vmstat`. The caller passes those two, so that they are read only once.
//!
//! `Zswap:` is the memory used by the pool, `Zswapped:` the size of the pages in it before
//! compression.

use pagewise_model::{Counters, Memory, Percent, Reading, Zswap};

use crate::memory::find_other;
use pagewise_hostfs::text::number;
use pagewise_hostfs::{HostRoot, ReadValues};

pub(crate) fn read(host: &HostRoot, memory: &Memory, vmstat: &Counters) -> Zswap {
    Zswap {
        enabled: is_enabled(host),
        compressor: host.name_at(&parameter("compressor")),
        zpool: host.name_at(&parameter("zpool")),
        max_pool_percent: percent(host, "max_pool_percent"),
        accept_threshold_percent: percent(host, "accept_threshold_percent"),
        shrinker_enabled: host.flag_at(&parameter("shrinker_enabled")),
        pool: find_other(memory, "Zswap"),
        stored: find_other(memory, "Zswapped"),
        written_back: vmstat.get("zswpwb"),
    }
}

/// The known parameters of zswap with the current stored amounts.
pub(crate) fn with_stored_amounts(memory: &Memory, vmstat: &Counters, parameters: &Zswap) -> Zswap {
    Zswap {
        pool: find_other(memory, "Zswap"),
        stored: find_other(memory, "Zswapped"),
        written_back: vmstat.get("zswpwb"),
        ..parameters.clone()
    }
}

pub(crate) fn is_enabled(host: &HostRoot) -> Reading<bool> {
    host.flag_at(&parameter("enabled"))
}

fn parameter(name: &str) -> String {
    format!("sys/module/zswap/parameters/{name}")
}

fn percent(host: &HostRoot, name: &str) -> Reading<Percent> {
    let whole = |word: &[u8]| number::<u32>(word).map(|percent| Percent::new(percent.into()));
    host.value(&parameter(name), "a whole number of percent", whole)
}
