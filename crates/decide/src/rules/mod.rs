// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules, in the order in which their findings are reported.

mod cache_not_cache;
mod commit_limit;
mod deleted_files;
mod dirty_stall;
mod extfrag_threshold;
mod fragmentation;
mod generator_parameters;
mod group_limit;
mod group_swappiness;
mod groups_idle;
mod hibernation_zram;
mod hugetlb_unused;
mod kernel_memory;
mod khugepaged_starves;
mod ksm_loss;
mod managers_fight;
mod memory_grows;
mod memory_locked;
mod memory_low;
mod memory_pressure;
mod memory_unexplained;
mod mglru_off;
mod min_ttl_set;
mod oom_kills;
mod process_limit;
mod protection_limited;
mod protection_starves;
mod setting_unread;
mod settings_differ;
mod shared_memory_left;
mod swap_avoids_anon;
mod swap_full;
mod swap_heavy_group;
mod swap_needs_memory;
mod swap_stuck;
mod tasks_limit;
mod thp_bloat_guard_off;
mod thp_coverage;
mod tier_order;
mod watermarks_extreme;
mod zmerge_few_copies;
mod zram_full;
mod zram_incompressible;
mod zram_oversized;
mod zram_unused;
mod zram_zswap_stacked;
mod zswap_unused;

use crate::Rule;

pub(crate) use kernel_memory::bytes_in as kernel_memory_in;
pub(crate) use memory_pressure::ID as PRESSURE;
pub(crate) use memory_unexplained::BALLOON_TITLE;
pub(crate) use oom_kills::{
    ended_seconds_ago as kill_ended_seconds_ago, newest_event as newest_kill,
};

/// Maximum number of findings that a rule reports at once; `None` if it has no maximum. If a rule
/// has reached its maximum, a missing finding may only be less severe than those that are reported.
pub(crate) fn most_findings(id: &str) -> Option<usize> {
    let limits = [
        (group_limit::RULE.id, group_limit::TOLD),
        (memory_grows::RULE.id, memory_grows::TOLD),
        (tasks_limit::RULE.id, tasks_limit::TOLD),
        (process_limit::RULE.id, process_limit::TOLD),
        (oom_kills::RULE.id, oom_kills::GROUPS),
    ];
    limits.into_iter().find_map(|(rule, most)| (rule == id).then_some(most))
}

/// All rules, in the order in which their findings are reported.
pub(crate) static ALL: &[Rule] = &[
    memory_low::RULE,
    protection_starves::RULE,
    memory_pressure::RULE,
    oom_kills::RULE,
    group_limit::RULE,
    memory_grows::RULE,
    commit_limit::RULE,
    tasks_limit::RULE,
    process_limit::RULE,
    swap_full::RULE,
    swap_needs_memory::RULE,
    kernel_memory::RULE,
    memory_unexplained::RULE,
    swap_heavy_group::RULE,
    protection_limited::RULE,
    groups_idle::RULE,
    group_swappiness::RULE,
    dirty_stall::RULE,
    watermarks_extreme::RULE,
    memory_locked::RULE,
    ksm_loss::RULE,
    min_ttl_set::RULE,
    zram_unused::RULE,
    zswap_unused::RULE,
    swap_avoids_anon::RULE,
    tier_order::RULE,
    zram_full::RULE,
    zram_zswap_stacked::RULE,
    zram_incompressible::RULE,
    zram_oversized::RULE,
    zmerge_few_copies::RULE,
    thp_coverage::RULE,
    khugepaged_starves::RULE,
    thp_bloat_guard_off::RULE,
    cache_not_cache::RULE,
    shared_memory_left::RULE,
    deleted_files::RULE,
    hugetlb_unused::RULE,
    fragmentation::RULE,
    mglru_off::RULE,
    managers_fight::RULE,
    settings_differ::RULE,
    setting_unread::RULE,
    generator_parameters::RULE,
    hibernation_zram::RULE,
    swap_stuck::RULE,
    extfrag_threshold::RULE,
];

/// The id of a rule, and a function that creates a host for which the rule reports a finding.
#[cfg(test)]
pub(crate) type Firing = (&'static str, fn() -> pagewise_model::Interval);

/// At least one host for each rule, and one for each reason of a rule that has several reasons.
#[cfg(test)]
pub(crate) static FIRING: &[Firing] = &[
    ("memory-pressure", memory_pressure::tests::firing),
    ("memory-pressure", memory_pressure::tests::firing_ended),
    ("memory-pressure", memory_pressure::tests::firing_disk),
    ("memory-pressure", memory_pressure::tests::firing_disk_io),
    ("oom-kills", oom_kills::tests::firing_by_the_host),
    ("oom-kills", oom_kills::tests::firing_by_a_limit),
    ("oom-kills", oom_kills::tests::firing_without_a_log),
    ("group-limit", group_limit::tests::firing),
    ("group-limit", group_limit::tests::firing_full),
    ("group-limit", group_limit::tests::firing_v1),
    ("memory-grows", memory_grows::tests::firing),
    ("memory-grows", memory_grows::tests::firing_group),
    ("memory-grows", memory_grows::tests::firing_early),
    ("memory-low", memory_low::tests::firing),
    ("swap-full", swap_full::tests::firing),
    ("commit-limit", commit_limit::tests::firing),
    ("commit-limit", commit_limit::tests::firing_fork),
    ("tasks-limit", tasks_limit::tests::firing),
    ("tasks-limit", tasks_limit::tests::firing_full),
    ("process-limit", process_limit::tests::firing),
    ("process-limit", process_limit::tests::firing_data),
    ("zram-unused", zram_unused::tests::not_loaded),
    ("zram-unused", zram_unused::tests::firing_in_container),
    ("zram-unused", zram_unused::tests::firing_raw),
    ("zram-unused", zram_unused::tests::interval_with_unsigned_device),
    ("zram-unused", zram_unused::tests::firing_not_on),
    ("zram-unused", zram_unused::tests::priority),
    ("zram-unused", zram_unused::tests::refused),
    ("zram-unused", zram_unused::tests::swappiness),
    ("zram-unused", zram_unused::tests::cgroups),
    ("zram-unused", zram_unused::tests::never_short),
    ("zswap-unused", zswap_unused::tests::firing_off),
    ("zswap-unused", zswap_unused::tests::firing_full),
    ("swap-avoids-anon", swap_avoids_anon::tests::firing),
    ("swap-avoids-anon", swap_avoids_anon::tests::firing_without_swap),
    ("swap-needs-memory", swap_needs_memory::tests::firing),
    ("swap-needs-memory", swap_needs_memory::tests::firing_zfs),
    ("tier-order", tier_order::tests::firing),
    ("zram-full", zram_full::tests::firing),
    ("zram-full", zram_full::tests::firing_at_its_limit),
    ("zram-zswap-stacked", zram_zswap_stacked::tests::firing),
    ("zram-incompressible", zram_incompressible::tests::firing),
    ("zram-oversized", zram_oversized::tests::firing),
    ("zmerge-few-copies", zmerge_few_copies::tests::firing),
    ("thp-coverage", thp_coverage::tests::firing),
    ("thp-coverage", thp_coverage::tests::firing_on_faults),
    ("khugepaged-starves", khugepaged_starves::tests::firing),
    ("thp-bloat-guard-off", thp_bloat_guard_off::tests::firing),
    ("cache-not-cache", cache_not_cache::tests::firing),
    ("shared-memory-left", shared_memory_left::tests::firing),
    ("shared-memory-left", shared_memory_left::tests::firing_queue),
    ("deleted-files", deleted_files::tests::firing),
    ("deleted-files", deleted_files::tests::firing_mapped),
    ("hugetlb-unused", hugetlb_unused::tests::firing),
    ("fragmentation", fragmentation::tests::firing),
    ("mglru-off", mglru_off::tests::firing),
    ("dirty-stall", dirty_stall::tests::firing),
    ("extfrag-threshold", extfrag_threshold::tests::firing),
    ("kernel-memory", kernel_memory::tests::firing),
    ("kernel-memory", kernel_memory::tests::firing_growing),
    ("ksm-loss", ksm_loss::tests::firing),
    ("memory-locked", memory_locked::tests::firing),
    ("memory-locked", memory_locked::tests::firing_ramfs),
    ("memory-unexplained", memory_unexplained::tests::firing),
    ("memory-unexplained", memory_unexplained::tests::firing_gpu),
    ("min-ttl-set", min_ttl_set::tests::firing),
    ("swap-heavy-group", swap_heavy_group::tests::firing),
    ("protection-limited", protection_limited::tests::firing),
    ("protection-starves", protection_starves::tests::firing),
    ("group-swappiness", group_swappiness::tests::firing),
    ("groups-idle", groups_idle::tests::firing_frozen),
    ("groups-idle", groups_idle::tests::firing_dying),
    ("swap-stuck", swap_stuck::tests::firing),
    ("watermarks-extreme", watermarks_extreme::tests::firing),
    ("watermarks-extreme", watermarks_extreme::tests::firing_little),
    ("watermarks-extreme", watermarks_extreme::tests::firing_far_apart),
    ("settings-differ", settings_differ::tests::firing),
    ("settings-differ", settings_differ::tests::firing_lost),
    ("settings-differ", settings_differ::tests::firing_twice),
    ("settings-differ", settings_differ::tests::firing_tuned),
    ("settings-differ", settings_differ::tests::firing_tuned_over_a_file),
    ("managers-fight", managers_fight::tests::firing),
    ("managers-fight", managers_fight::tests::firing_killers),
    ("managers-fight", managers_fight::tests::firing_settings),
    ("managers-fight", managers_fight::tests::firing_device),
    ("setting-unread", setting_unread::tests::firing),
    ("setting-unread", setting_unread::tests::firing_conf),
    ("generator-parameters", generator_parameters::tests::firing),
    ("hibernation-zram", hibernation_zram::tests::firing),
];
