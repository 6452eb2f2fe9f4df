// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of KSM, which merges equal pages.

use super::row::{COUNT, int, sysfs, word};
use super::{Domain, Knob};

const UINT: Domain = int(0, u32::MAX as u64);

pub(super) const ROWS: &[Knob] = &[
    sysfs(
        "ksm.run",
        "sys/kernel/mm/ksm/run",
        int(0, 2),
        "0 stops, 1 merges, 2 stops and unmerges, which may need more memory than is free.",
    )
    .with_default("0")
    .with_couples(&["ksm.merge_across_nodes", "ksm.max_page_sharing"]),
    sysfs(
        "ksm.pages_to_scan",
        "sys/kernel/mm/ksm/pages_to_scan",
        UINT,
        "Pages that one batch looks at; refused while an advisor is active.",
    )
    .with_default("100")
    .with_couples(&["ksm.advisor_mode", "ksm.sleep_millisecs"]),
    sysfs(
        "ksm.sleep_millisecs",
        "sys/kernel/mm/ksm/sleep_millisecs",
        UINT,
        "Rest between batches, in ms.",
    )
    .with_default("20")
    .with_couples(&["ksm.pages_to_scan"]),
    sysfs(
        "ksm.merge_across_nodes",
        "sys/kernel/mm/ksm/merge_across_nodes",
        Domain::Bool,
        "Merges pages of different NUMA nodes too; busy while pages are shared, so unmerge first.",
    )
    .with_default("1")
    .with_couples(&["ksm.run"]),
    sysfs(
        "ksm.max_page_sharing",
        "sys/kernel/mm/ksm/max_page_sharing",
        int(2, i32::MAX as u64),
        "Mappings that one merged page may serve, which bounds how long walking them takes.",
    )
    .with_default("256")
    .with_couples(&["ksm.run"]),
    sysfs(
        "ksm.stable_node_chains_prune_millisecs",
        "sys/kernel/mm/ksm/stable_node_chains_prune_millisecs",
        UINT,
        "How often chains of equal merged pages are cleaned of dead entries, in ms.",
    )
    .with_default("2000"),
    sysfs(
        "ksm.use_zero_pages",
        "sys/kernel/mm/ksm/use_zero_pages",
        Domain::Bool,
        "Maps pages full of zeros to the kernel's zero page instead of a merged one.",
    )
    .with_default("0"),
    sysfs(
        "ksm.smart_scan",
        "sys/kernel/mm/ksm/smart_scan",
        Domain::Bool,
        "Skips for a while pages that found no equal the last times.",
    )
    .with_default("1"),
    sysfs(
        "ksm.advisor_mode",
        "sys/kernel/mm/ksm/advisor_mode",
        word(&["none", "scan-time"]),
        "scan-time sets pages_to_scan by itself to reach the target time within the CPU cap.",
    )
    .with_default("none")
    .with_couples(&[
        "ksm.pages_to_scan",
        "ksm.advisor_max_cpu",
        "ksm.advisor_target_scan_time",
        "ksm.advisor_min_pages_to_scan",
        "ksm.advisor_max_pages_to_scan",
    ]),
    sysfs(
        "ksm.advisor_max_cpu",
        "sys/kernel/mm/ksm/advisor_max_cpu",
        int(0, 100),
        "Most of one CPU that the advisor lets the scanner use, in %.",
    )
    .with_default("70")
    .with_couples(&["ksm.advisor_mode"]),
    sysfs(
        "ksm.advisor_target_scan_time",
        "sys/kernel/mm/ksm/advisor_target_scan_time",
        int(1, u64::MAX),
        "Seconds in which the advisor wants one scan of everything done.",
    )
    .with_default("200")
    .with_couples(&["ksm.advisor_mode"]),
    sysfs(
        "ksm.advisor_min_pages_to_scan",
        "sys/kernel/mm/ksm/advisor_min_pages_to_scan",
        COUNT,
        "Least pages per batch that the advisor may choose.",
    )
    .with_default("500")
    .with_couples(&["ksm.advisor_mode"]),
    sysfs(
        "ksm.advisor_max_pages_to_scan",
        "sys/kernel/mm/ksm/advisor_max_pages_to_scan",
        COUNT,
        "Most pages per batch that the advisor may choose.",
    )
    .with_default("30000")
    .with_couples(&["ksm.advisor_mode"]),
];
