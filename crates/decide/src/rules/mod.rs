// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules, in the order in which their findings are told.

mod cache_not_cache;
mod cgroup_v1_limits;
mod fragmentation;
mod hugetlb_unused;
mod khugepaged_starves;
mod memory_pressure;
mod mglru_off;
mod swap_avoids_anon;
mod thp_bloat_guard_off;
mod thp_coverage;
mod tier_order;
mod zram_full;
mod zram_incompressible;
mod zram_oversized;
mod zram_unused;
mod zram_zswap_stacked;

use crate::Rule;

pub(crate) static ALL: &[Rule] = &[
    memory_pressure::RULE,
    zram_unused::RULE,
    swap_avoids_anon::RULE,
    tier_order::RULE,
    zram_full::RULE,
    zram_zswap_stacked::RULE,
    zram_incompressible::RULE,
    zram_oversized::RULE,
    thp_coverage::RULE,
    khugepaged_starves::RULE,
    thp_bloat_guard_off::RULE,
    cache_not_cache::RULE,
    hugetlb_unused::RULE,
    fragmentation::RULE,
    mglru_off::RULE,
    cgroup_v1_limits::RULE,
];
