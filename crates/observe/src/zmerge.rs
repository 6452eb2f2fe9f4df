// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads every `/sys/block/zmergeN` into [`Zram`], with the values that only zmerge has:
//! [`Merging`].
//!
//! The files that zram has too are read in the same way. Reading `merge` returns the number of
//! slots that a running pass still has to examine, and starts nothing. `reset`, `compact`,
//! `mem_limit` and `mem_used_max` are write-only and not read. `hot_add` is not read either,
//! although with zmerge that would be harmless.

use pagewise_model::{Bytes, Driver, Merging, Pages, Percent, Tier, Zram};

use crate::mounts::Mounts;
use crate::zram;
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

pub(crate) fn read(host: &HostRoot, tiers: &[Tier], mounts: &Mounts) -> Vec<Zram> {
    let devices = zram::read_of(Driver::Zmerge, host, tiers, mounts).into_iter();
    devices.map(|device| Zram { merging: Some(merging(host, &device)), ..device }).collect()
}

/// Whether the zmerge module is loaded; it may have no device.
pub fn is_zmerge_loaded(host: &HostRoot) -> bool {
    host.exists("sys/class/zmerge-control")
}

fn merging(host: &HostRoot, device: &Zram) -> Merging {
    let file = |name: &str| format!("sys/block/{}/{name}", device.name());
    let number = |name: &str| host.number_at::<u64>(&file(name));
    let (hits, misses) = (number("merge_hits"), number("merge_misses"));
    Merging {
        mode: host.choice_at(&file("merge_mode")),
        domain: host.choice_at(&file("merge_domain")),
        budget: number("merge_budget").map(Bytes::new),
        rate: number("merge_rate"),
        slots_left: number("merge"),
        merged_pages: number("merged_pages").map(Pages::new),
        merged_bytes: number("merged_bytes").map(Bytes::new),
        index_bytes: number("index_bytes").map(Bytes::new),
        hit_percent: hits
            .get()
            .zip(misses.get())
            .and_then(|(hits, misses)| hit_share(hits, misses)),
        hits,
        misses,
    }
}

fn hit_share(hits: u64, misses: u64) -> Option<Percent> {
    let all = hits.saturating_add(misses);
    (all > 0).then(|| Percent::new(hits as f64 * 100.0 / all as f64))
}
