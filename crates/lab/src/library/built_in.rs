// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments that come with the program, in the same format as a user's files.

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../lab/experiments/", $name, ".toml")))),*]
    };
}

/// Name and text of each built-in experiment.
pub const BUILT_IN: &[(&str, &str)] = built_in![
    "swap",
    "swap-published",
    "zram-contents",
    "zram-disk",
    "zram-tiers",
    "page-cluster",
    "swappiness-zram",
    "swappiness-tiers",
    "extfrag",
    "coldpages",
    "coldpages-min-ttl",
    "coldpages-shared",
    "coldpages-profile",
    "mglru-cgroup",
    "thp-defrag",
    "thp-defrag-fragmented",
    "thp-defrag-redis",
    "thp-khugepaged",
    "thp-sparse",
    "redis-mglru",
    "redis-zram",
    "redis-swap",
    "fits",
    "inversion",
    "incompressible",
    "no-disk",
    "cache",
    "wear",
    "pays",
    "neighbours",
    "charging",
    "real-redis",
];
