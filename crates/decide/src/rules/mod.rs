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
    ("memory-pressure", memory_pressure::tests::host_with_finding),
    ("memory-pressure", memory_pressure::tests::host_with_ended_finding),
    ("memory-pressure", memory_pressure::tests::host_with_disk_finding),
    ("memory-pressure", memory_pressure::tests::host_with_disk_io_finding),
    ("oom-kills", oom_kills::tests::host_with_by_the_host_finding),
    ("oom-kills", oom_kills::tests::host_with_by_a_limit_finding),
    ("oom-kills", oom_kills::tests::host_with_without_a_log_finding),
    ("group-limit", group_limit::tests::host_with_finding),
    ("group-limit", group_limit::tests::host_with_full_finding),
    ("group-limit", group_limit::tests::host_with_v1_finding),
    ("memory-grows", memory_grows::tests::host_with_finding),
    ("memory-grows", memory_grows::tests::host_with_group_finding),
    ("memory-grows", memory_grows::tests::host_with_early_finding),
    ("memory-low", memory_low::tests::host_with_finding),
    ("swap-full", swap_full::tests::host_with_finding),
    ("commit-limit", commit_limit::tests::host_with_finding),
    ("commit-limit", commit_limit::tests::host_with_fork_finding),
    ("tasks-limit", tasks_limit::tests::host_with_finding),
    ("tasks-limit", tasks_limit::tests::host_with_full_finding),
    ("process-limit", process_limit::tests::host_with_finding),
    ("process-limit", process_limit::tests::host_with_data_finding),
    ("zram-unused", zram_unused::tests::not_loaded),
    ("zram-unused", zram_unused::tests::host_with_in_container_finding),
    ("zram-unused", zram_unused::tests::host_with_raw_finding),
    ("zram-unused", zram_unused::tests::interval_with_unsigned_device),
    ("zram-unused", zram_unused::tests::host_with_not_on_finding),
    ("zram-unused", zram_unused::tests::priority),
    ("zram-unused", zram_unused::tests::refused),
    ("zram-unused", zram_unused::tests::swappiness),
    ("zram-unused", zram_unused::tests::cgroups),
    ("zram-unused", zram_unused::tests::never_short),
    ("zswap-unused", zswap_unused::tests::host_with_off_finding),
    ("zswap-unused", zswap_unused::tests::host_with_full_finding),
    ("swap-avoids-anon", swap_avoids_anon::tests::host_with_finding),
    ("swap-avoids-anon", swap_avoids_anon::tests::host_with_without_swap_finding),
    ("swap-needs-memory", swap_needs_memory::tests::host_with_finding),
    ("swap-needs-memory", swap_needs_memory::tests::host_with_zfs_finding),
    ("tier-order", tier_order::tests::host_with_finding),
    ("zram-full", zram_full::tests::host_with_finding),
    ("zram-full", zram_full::tests::host_with_at_its_limit_finding),
    ("zram-zswap-stacked", zram_zswap_stacked::tests::host_with_finding),
    ("zram-incompressible", zram_incompressible::tests::host_with_finding),
    ("zram-oversized", zram_oversized::tests::host_with_finding),
    ("zmerge-few-copies", zmerge_few_copies::tests::host_with_finding),
    ("thp-coverage", thp_coverage::tests::host_with_finding),
    ("thp-coverage", thp_coverage::tests::host_with_on_faults_finding),
    ("khugepaged-starves", khugepaged_starves::tests::host_with_finding),
    ("thp-bloat-guard-off", thp_bloat_guard_off::tests::host_with_finding),
    ("cache-not-cache", cache_not_cache::tests::host_with_finding),
    ("shared-memory-left", shared_memory_left::tests::host_with_finding),
    ("shared-memory-left", shared_memory_left::tests::host_with_queue_finding),
    ("deleted-files", deleted_files::tests::host_with_finding),
    ("deleted-files", deleted_files::tests::host_with_mapped_finding),
    ("hugetlb-unused", hugetlb_unused::tests::host_with_finding),
    ("fragmentation", fragmentation::tests::host_with_finding),
    ("mglru-off", mglru_off::tests::host_with_finding),
    ("dirty-stall", dirty_stall::tests::host_with_finding),
    ("extfrag-threshold", extfrag_threshold::tests::host_with_finding),
    ("kernel-memory", kernel_memory::tests::host_with_finding),
    ("kernel-memory", kernel_memory::tests::host_with_growing_finding),
    ("ksm-loss", ksm_loss::tests::host_with_finding),
    ("memory-locked", memory_locked::tests::host_with_finding),
    ("memory-locked", memory_locked::tests::host_with_ramfs_finding),
    ("memory-unexplained", memory_unexplained::tests::host_with_finding),
    ("memory-unexplained", memory_unexplained::tests::host_with_gpu_finding),
    ("min-ttl-set", min_ttl_set::tests::host_with_finding),
    ("swap-heavy-group", swap_heavy_group::tests::host_with_finding),
    ("protection-limited", protection_limited::tests::host_with_finding),
    ("protection-starves", protection_starves::tests::host_with_finding),
    ("group-swappiness", group_swappiness::tests::host_with_finding),
    ("groups-idle", groups_idle::tests::host_with_frozen_finding),
    ("groups-idle", groups_idle::tests::host_with_dying_finding),
    ("swap-stuck", swap_stuck::tests::host_with_finding),
    ("watermarks-extreme", watermarks_extreme::tests::host_with_finding),
    ("watermarks-extreme", watermarks_extreme::tests::host_with_little_finding),
    ("watermarks-extreme", watermarks_extreme::tests::host_with_far_apart_finding),
    ("settings-differ", settings_differ::tests::host_with_finding),
    ("settings-differ", settings_differ::tests::host_with_lost_finding),
    ("settings-differ", settings_differ::tests::host_with_twice_finding),
    ("settings-differ", settings_differ::tests::host_with_tuned_finding),
    ("settings-differ", settings_differ::tests::host_with_tuned_over_a_file_finding),
    ("managers-fight", managers_fight::tests::host_with_finding),
    ("managers-fight", managers_fight::tests::host_with_killers_finding),
    ("managers-fight", managers_fight::tests::host_with_settings_finding),
    ("managers-fight", managers_fight::tests::host_with_device_finding),
    ("setting-unread", setting_unread::tests::host_with_finding),
    ("setting-unread", setting_unread::tests::host_with_conf_finding),
    ("generator-parameters", generator_parameters::tests::host_with_finding),
    ("hibernation-zram", hibernation_zram::tests::host_with_finding),
];
