// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DAMON (data access monitoring): its general interface and the modules built on it.
//!
//! Only one user can monitor physical addresses at a time: starting a second one fails with EBUSY.
//! Parameters of a running module take effect only after `commit_inputs` is written; while that
//! reads `Y`, none may be written. All times are in µs unless the name says ms.
//!
//! The table lists the files of the general interface that most set-ups need. It does not list
//! filters, destinations, regions, priority weights and probes.

use super::row::{COUNT, int, sysfs, word};
use super::{Domain, Knob, Persist};

const MODULE: &[Persist] = &[Persist::KernelCommandLine, Persist::Tmpfiles];
const PERMILLE: Domain = int(0, 1000);
const STATES: &[&str] = &[
    "on",
    "off",
    "commit",
    "commit_schemes_quota_goals",
    "update_schemes_stats",
    "update_schemes_tried_regions",
    "update_schemes_tried_bytes",
    "clear_schemes_tried_regions",
    "update_schemes_effective_quotas",
    "update_tuned_intervals",
];
const ACTIONS: &[&str] = &[
    "willneed",
    "cold",
    "pageout",
    "hugepage",
    "nohugepage",
    "collapse",
    "lru_prio",
    "lru_deprio",
    "migrate_hot",
    "migrate_cold",
    "stat",
];
const METRICS: &[&str] = &[
    "user_input",
    "some_mem_psi_us",
    "node_mem_used_bp",
    "node_mem_free_bp",
    "node_memcg_used_bp",
    "node_memcg_free_bp",
    "active_mem_bp",
    "inactive_mem_bp",
    "node_eligible_mem_bp",
];

/// Defines the row for a file of `/sys/kernel/mm/damon/admin`, whose value does not survive a
/// reboot.
macro_rules! admin {
    ($name:literal, [$($path:literal),*], $domain:expr, $doc:literal) => {
        sysfs(
            concat!("damon.", $name),
            concat!("sys/kernel/mm/damon/admin/kdamonds/", $($path),*),
            $domain,
            $doc,
        )
        .with_persist(&[Persist::Agent])
    };
}

macro_rules! context {
    ($name:literal, $file:literal, $domain:expr, $doc:literal) => {
        admin!($name, ["{N}/contexts/{N}/", $file], $domain, $doc)
    };
}

macro_rules! scheme {
    ($name:literal, $file:literal, $domain:expr, $doc:literal) => {
        admin!($name, ["{N}/contexts/{N}/schemes/{N}/", $file], $domain, $doc)
    };
}

macro_rules! goal {
    ($name:literal, $file:literal, $domain:expr, $doc:literal) => {
        admin!($name, ["{N}/contexts/{N}/schemes/{N}/quotas/goals/{N}/", $file], $domain, $doc)
    };
}

/// Defines the row for a parameter of a DAMON module. These modules are built in, so modprobe.d
/// options do not apply.
macro_rules! parameter {
    ($module:literal, $name:literal, $domain:expr, $doc:literal) => {
        sysfs(
            concat!($module, ".", $name),
            concat!("sys/module/", $module, "/parameters/", $name),
            $domain,
            $doc,
        )
        .with_persist(MODULE)
    };
}

macro_rules! reclaim {
    ($name:literal, $domain:expr, $doc:literal) => {
        parameter!("damon_reclaim", $name, $domain, $doc)
    };
}

macro_rules! lru_sort {
    ($name:literal, $domain:expr, $doc:literal) => {
        parameter!("damon_lru_sort", $name, $domain, $doc)
    };
}

pub(super) const ADMIN: &[Knob] = &[
    admin!("nr_kdamonds", ["nr_kdamonds"], COUNT, "Folders for monitoring threads; a write removes and makes all of them, refused while one runs.").with_default("0"),
    admin!("kdamond.state", ["{N}/state"], word(STATES), "on and off start and stop the thread, commit takes changed files over, update_* refreshes what it shows.").with_couples(&["damon_reclaim.enabled", "damon_lru_sort.enabled", "damon_stat.enabled"]),
    admin!("kdamond.refresh_ms", ["{N}/refresh_ms"], COUNT, "How often the files that show results follow the thread, in ms; 0 is only on request.").with_default("0"),
    admin!("kdamond.nr_contexts", ["{N}/contexts/nr_contexts"], int(0, 1), "Monitoring contexts of the thread; more than one is not possible yet.").with_default("0"),
    context!("context.operations", "operations", word(&["vaddr", "fvaddr", "paddr"]), "What is monitored: a process's addresses, fixed ranges of them, or physical memory."),
    context!("context.addr_unit", "addr_unit", int(1, u64::MAX), "Bytes per unit of address, for 32-bit kernels with more memory than they can name.").with_default("1"),
    context!("context.pause", "pause", Domain::Bool, "Stops looking and acting, and keeps what was learnt.").with_default("N"),
    context!("context.intervals.sample_us", "monitoring_attrs/intervals/sample_us", COUNT, "Time between looks at one page of each region.").with_default("5000"),
    context!("context.intervals.aggr_us", "monitoring_attrs/intervals/aggr_us", COUNT, "Time over which looks are added up.").with_default("100000"),
    context!("context.intervals.update_us", "monitoring_attrs/intervals/update_us", COUNT, "How often the ranges to look at follow the target's mappings.").with_default("1000000"),
    context!("context.intervals_goal.access_bp", "monitoring_attrs/intervals/intervals_goal/access_bp", COUNT, "Share of looks in 1/10000 that should find an access: intervals are tuned to it; 0 is off.").with_default("0"),
    context!("context.intervals_goal.aggrs", "monitoring_attrs/intervals/intervals_goal/aggrs", COUNT, "Aggregations over which intervals_goal is judged.").with_default("0"),
    context!("context.intervals_goal.min_sample_us", "monitoring_attrs/intervals/intervals_goal/min_sample_us", COUNT, "Shortest sample_us that tuning may choose.").with_default("0"),
    context!("context.intervals_goal.max_sample_us", "monitoring_attrs/intervals/intervals_goal/max_sample_us", COUNT, "Longest sample_us that tuning may choose.").with_default("0"),
    context!("context.nr_regions.min", "monitoring_attrs/nr_regions/min", int(3, u64::MAX), "Regions at least: the fewer, the coarser the picture.").with_default("10"),
    context!("context.nr_regions.max", "monitoring_attrs/nr_regions/max", int(3, u64::MAX), "Regions at most: they bound the cost of monitoring.").with_default("1000"),
    context!("context.nr_targets", "targets/nr_targets", COUNT, "Folders for monitoring targets.").with_default("0"),
    context!("target.pid", "targets/{N}/pid_target", int(0, i32::MAX as u64), "Process whose addresses are monitored; without meaning for physical memory.").with_default("0"),
    context!("context.nr_schemes", "schemes/nr_schemes", COUNT, "Folders for schemes, each of which does something to regions that fit it.").with_default("0"),
    scheme!("scheme.action", "action", word(ACTIONS), "What is done to regions that fit; stat only counts them.").with_default("stat"),
    scheme!("scheme.target_nid", "target_nid", int(-1, i32::MAX as u64), "Node that the migrate actions move pages to."),
    scheme!("scheme.apply_interval_us", "apply_interval_us", COUNT, "How often the scheme is applied; 0 follows aggr_us.").with_default("0"),
    scheme!("scheme.sz.min", "access_pattern/sz/min", COUNT, "Size of a region that fits, in bytes, at least.").with_default("0"),
    scheme!("scheme.sz.max", "access_pattern/sz/max", COUNT, "Size of a region that fits, in bytes, at most.").with_default("0"),
    scheme!("scheme.nr_accesses.min", "access_pattern/nr_accesses/min", COUNT, "Accesses per aggregation of a region that fits, at least.").with_default("0"),
    scheme!("scheme.nr_accesses.max", "access_pattern/nr_accesses/max", COUNT, "Accesses per aggregation of a region that fits, at most.").with_default("0"),
    scheme!("scheme.age.min", "access_pattern/age/min", COUNT, "Aggregations without change of a region that fits, at least.").with_default("0"),
    scheme!("scheme.age.max", "access_pattern/age/max", COUNT, "Aggregations without change of a region that fits, at most.").with_default("0"),
    scheme!("scheme.quotas.ms", "quotas/ms", COUNT, "Most CPU time for the action in one reset interval, in ms; 0 is no limit.").with_default("0"),
    scheme!("scheme.quotas.bytes", "quotas/bytes", COUNT, "Most bytes for the action in one reset interval; 0 is no limit.").with_default("0"),
    scheme!("scheme.quotas.reset_interval_ms", "quotas/reset_interval_ms", COUNT, "Length of the window that the quotas speak of, in ms.").with_default("0"),
    scheme!("scheme.quotas.goal_tuner", "quotas/goal_tuner", word(&["consist", "temporal"]), "How the quota follows its goals: steadily, or all or nothing until they are met.").with_default("consist"),
    scheme!("scheme.quotas.nr_goals", "quotas/goals/nr_goals", COUNT, "Folders for goals that the quota is tuned towards.").with_default("0"),
    goal!("goal.target_metric", "target_metric", word(METRICS), "What the goal measures; user_input takes the number in current_value."),
    goal!("goal.target_value", "target_value", COUNT, "Value of the metric that tuning aims at.").with_default("0"),
    goal!("goal.current_value", "current_value", COUNT, "Present value of the metric; written by the user for user_input.").with_default("0"),
    goal!("goal.nid", "nid", int(-1, i32::MAX as u64), "Node of a metric that speaks of one."),
    scheme!("scheme.watermarks.metric", "watermarks/metric", word(&["none", "free_mem_rate"]), "What wakes the scheme up and puts it to sleep; none keeps it awake.").with_default("none"),
    scheme!("scheme.watermarks.interval_us", "watermarks/interval_us", COUNT, "How often the metric is compared with the watermarks.").with_default("0"),
    scheme!("scheme.watermarks.high", "watermarks/high", COUNT, "Permille of free memory above which the scheme sleeps.").with_default("0"),
    scheme!("scheme.watermarks.mid", "watermarks/mid", COUNT, "Permille of free memory below which the scheme wakes up.").with_default("0"),
    scheme!("scheme.watermarks.low", "watermarks/low", COUNT, "Permille of free memory below which the scheme sleeps as well.").with_default("0"),
    scheme!("scheme.max_nr_snapshots", "stats/max_nr_snapshots", COUNT, "Snapshots after which the scheme stops acting; 0 is never.").with_default("0"),
];

pub(super) const RECLAIM: &[Knob] = &[
    reclaim!(
        "enabled",
        Domain::Bool,
        "Finds cold memory by physical address and pages it out ahead of need."
    )
    .with_default("N")
    .with_couples(&[
        "damon_lru_sort.enabled",
        "damon_stat.enabled",
        "damon.kdamond.state",
        "damon_reclaim.commit_inputs",
    ]),
    reclaim!("min_age", COUNT, "A region counts as cold when nobody touched it for this long.")
        .with_default("120000000")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "quota_ms",
        COUNT,
        "Most CPU time for reclaim in one quota_reset_interval_ms, in ms; 0 is no limit."
    )
    .with_default("10")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "quota_sz",
        COUNT,
        "Most bytes to reclaim in one quota_reset_interval_ms; 0 is no limit."
    )
    .with_default("134217728")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "quota_reset_interval_ms",
        COUNT,
        "Length of the window that the quotas speak of, in ms."
    )
    .with_default("1000")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "quota_mem_pressure_us",
        COUNT,
        "Pressure stall per window that the quota is tuned towards; 0 switches tuning off."
    )
    .with_default("0")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "quota_autotune_feedback",
        COUNT,
        "The user's own score for tuning the quota, 10000 being the goal; 0 is none."
    )
    .with_default("0")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "skip_anon",
        Domain::Bool,
        "Leaves anonymous pages alone: only page cache is reclaimed."
    )
    .with_default("N")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!("wmarks_interval", COUNT, "How often free memory is compared with the watermarks.")
        .with_default("5000000")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!("wmarks_high", PERMILLE, "Permille of free memory above which the module sleeps.")
        .with_default("500")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!("wmarks_mid", PERMILLE, "Permille of free memory below which the module wakes up.")
        .with_default("400")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "wmarks_low",
        PERMILLE,
        "Permille of free memory below which the module leaves all to normal reclaim."
    )
    .with_default("200")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!("sample_interval", COUNT, "Time between looks at one page of each region.")
        .with_default("5000")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!("aggr_interval", COUNT, "Time over which looks are added up.")
        .with_default("100000")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "min_nr_regions",
        int(3, u64::MAX),
        "Regions at least: the fewer, the coarser the picture."
    )
    .with_default("10")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "max_nr_regions",
        int(3, u64::MAX),
        "Regions at most: they bound the cost of monitoring."
    )
    .with_default("1000")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "monitor_region_start",
        COUNT,
        "First monitored physical address; 0 with end 0 takes the largest block of memory."
    )
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!("monitor_region_end", COUNT, "End of the monitored physical addresses.")
        .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "addr_unit",
        int(1, u64::MAX),
        "Bytes per unit of address, for 32-bit kernels with more memory than they can name."
    )
    .with_default("1")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "autotune_monitoring_intervals",
        Domain::Bool,
        "Lets the kernel choose sample_interval and aggr_interval."
    )
    .with_default("N")
    .with_couples(&["damon_reclaim.commit_inputs"]),
    reclaim!(
        "commit_inputs",
        Domain::Bool,
        "Y takes the parameters over in the running module, then turns back to N by itself."
    )
    .with_default("N")
    .with_persist(&[Persist::Agent])
    .without_undo("the parameters are in force already; write them back and commit again")
    .with_couples(&[
        "damon_reclaim.enabled",
        "damon_reclaim.min_age",
        "damon_reclaim.quota_ms",
        "damon_reclaim.quota_sz",
        "damon_reclaim.quota_reset_interval_ms",
        "damon_reclaim.quota_mem_pressure_us",
        "damon_reclaim.quota_autotune_feedback",
        "damon_reclaim.skip_anon",
        "damon_reclaim.wmarks_interval",
        "damon_reclaim.wmarks_high",
        "damon_reclaim.wmarks_mid",
        "damon_reclaim.wmarks_low",
        "damon_reclaim.sample_interval",
        "damon_reclaim.aggr_interval",
        "damon_reclaim.min_nr_regions",
        "damon_reclaim.max_nr_regions",
        "damon_reclaim.monitor_region_start",
        "damon_reclaim.monitor_region_end",
        "damon_reclaim.addr_unit",
        "damon_reclaim.autotune_monitoring_intervals",
    ]),
];

pub(super) const LRU_SORT: &[Knob] = &[
    lru_sort!("enabled", Domain::Bool, "Moves hot and cold memory to where it belongs in the LRU lists.")
        .with_default("N")
        .with_couples(&["damon_reclaim.enabled", "damon_stat.enabled", "damon.kdamond.state", "damon_lru_sort.commit_inputs"]),
    lru_sort!("hot_thres_access_freq", PERMILLE, "A region counts as hot when this permille of looks found it accessed.").with_default("500").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("cold_min_age", COUNT, "A region counts as cold when nobody touched it for this long.").with_default("120000000").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("active_mem_bp", int(0, 10000), "Share of active memory in 1/10000 that the quotas are tuned towards; 0 switches tuning off.").with_default("0").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("filter_young_pages", Domain::Bool, "Asks the page table again before a page is moved, so that fewer move wrongly.").with_default("N").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("quota_ms", COUNT, "Most CPU time for sorting in one quota_reset_interval_ms, in ms; 0 is no limit.").with_default("10").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("quota_reset_interval_ms", COUNT, "Length of the window that the quota speaks of, in ms.").with_default("1000").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("wmarks_interval", COUNT, "How often free memory is compared with the watermarks.").with_default("5000000").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("wmarks_high", PERMILLE, "Permille of free memory above which the module sleeps.").with_default("200").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("wmarks_mid", PERMILLE, "Permille of free memory below which the module wakes up.").with_default("150").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("wmarks_low", PERMILLE, "Permille of free memory below which the module leaves all to normal reclaim.").with_default("50").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("sample_interval", COUNT, "Time between looks at one page of each region.").with_default("5000").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("aggr_interval", COUNT, "Time over which looks are added up.").with_default("100000").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("min_nr_regions", int(3, u64::MAX), "Regions at least: the fewer, the coarser the picture.").with_default("10").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("max_nr_regions", int(3, u64::MAX), "Regions at most: they bound the cost of monitoring.").with_default("1000").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("monitor_region_start", COUNT, "First monitored physical address; 0 with end 0 takes the largest block of memory.").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("monitor_region_end", COUNT, "End of the monitored physical addresses.").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("addr_unit", int(1, u64::MAX), "Bytes per unit of address, for 32-bit kernels with more memory than they can name.").with_default("1").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("autotune_monitoring_intervals", Domain::Bool, "Lets the kernel choose sample_interval and aggr_interval.").with_default("N").with_couples(&["damon_lru_sort.commit_inputs"]),
    lru_sort!("commit_inputs", Domain::Bool, "Y takes the parameters over in the running module, then turns back to N by itself.")
        .with_default("N")
        .with_persist(&[Persist::Agent])
        .without_undo("the parameters are in force already; write them back and commit again")
        .with_couples(&["damon_lru_sort.enabled", "damon_lru_sort.hot_thres_access_freq", "damon_lru_sort.cold_min_age", "damon_lru_sort.active_mem_bp", "damon_lru_sort.filter_young_pages", "damon_lru_sort.quota_ms", "damon_lru_sort.quota_reset_interval_ms", "damon_lru_sort.wmarks_interval", "damon_lru_sort.wmarks_high", "damon_lru_sort.wmarks_mid", "damon_lru_sort.wmarks_low", "damon_lru_sort.sample_interval", "damon_lru_sort.aggr_interval", "damon_lru_sort.min_nr_regions", "damon_lru_sort.max_nr_regions", "damon_lru_sort.monitor_region_start", "damon_lru_sort.monitor_region_end", "damon_lru_sort.addr_unit", "damon_lru_sort.autotune_monitoring_intervals"]),
];

pub(super) const STAT: &[Knob] = &[parameter!(
    "damon_stat",
    "enabled",
    Domain::Bool,
    "Measures how long all memory has been idle, at little cost; on in most builds."
)
.with_couples(&["damon_reclaim.enabled", "damon_lru_sort.enabled", "damon.kdamond.state"])];
