// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The module parameters of zswap. The limits of each cgroup are in [`super::cgroup`].

use super::row::{int, sysfs};
use super::{Domain, Knob, Persist};

const MODULE: &[Persist] = &[Persist::KernelCommandLine, Persist::Tmpfiles];

pub(super) const ROWS: &[Knob] = &[
    sysfs(
        "zswap.enabled",
        "sys/module/zswap/parameters/enabled",
        Domain::Bool,
        "Keeps swapped pages compressed in memory first; in front of zram it compresses twice.",
    )
    .with_persist(MODULE),
    sysfs(
        "zswap.compressor",
        "sys/module/zswap/parameters/compressor",
        Domain::Text,
        "Crypto API name of the compressor; pages stored before a change keep their old one.",
    )
    .with_persist(MODULE),
    sysfs(
        "zswap.zpool",
        "sys/module/zswap/parameters/zpool",
        Domain::Text,
        "Allocator of the pool (zsmalloc, zbud, z3fold); newer kernels have only zsmalloc.",
    )
    .with_persist(&[Persist::KernelCommandLine]),
    sysfs(
        "zswap.max_pool_percent",
        "sys/module/zswap/parameters/max_pool_percent",
        int(0, 100),
        "Cap on the pool in % of memory.",
    )
    .with_default("20")
    .with_persist(MODULE)
    .with_couples(&["zswap.accept_threshold_percent"]),
    sysfs(
        "zswap.accept_threshold_percent",
        "sys/module/zswap/parameters/accept_threshold_percent",
        int(0, 100),
        "A full pool takes pages again below this % of its cap; 100 switches the waiting off.",
    )
    .with_default("90")
    .with_persist(MODULE)
    .with_couples(&["zswap.max_pool_percent"]),
    sysfs(
        "zswap.shrinker_enabled",
        "sys/module/zswap/parameters/shrinker_enabled",
        Domain::Bool,
        "Under pressure, writes cold pages of the pool on to the swap device.",
    )
    .with_persist(MODULE),
    sysfs(
        "zswap.same_filled_pages_enabled",
        "sys/module/zswap/parameters/same_filled_pages_enabled",
        Domain::Bool,
        "Stores same-filled pages as one word; always on where the file is gone.",
    )
    .with_default("Y")
    .with_persist(MODULE),
    sysfs(
        "zswap.non_same_filled_pages_enabled",
        "sys/module/zswap/parameters/non_same_filled_pages_enabled",
        Domain::Bool,
        "Stores pages that are not same-filled; always on where the file is gone.",
    )
    .with_default("Y")
    .with_persist(MODULE),
];
