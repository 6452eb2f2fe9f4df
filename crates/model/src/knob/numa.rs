// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NUMA nodes, memory tiers, and settings that fit no other module.

use super::row::{info, int, sysctl, sysfs, trigger};
use super::{Access, Domain, Knob, Persist};

pub(super) const ROWS: &[Knob] = &[
    sysctl(
        "kernel.numa_balancing",
        "proc/sys/kernel/numa_balancing",
        int(0, 3),
        "Bits: 1 moves pages to the node that uses them, 2 promotes hot pages out of slow tiers.",
    )
    .with_couples(&["kernel.numa_balancing_promote_rate_limit_MBps"]),
    sysctl(
        "kernel.numa_balancing_promote_rate_limit_MBps",
        "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
        int(0, u32::MAX as u64),
        "Most MB per second that promotion may move between tiers.",
    )
    .with_default("65536")
    .with_couples(&["kernel.numa_balancing"]),
    sysfs(
        "numa.demotion_enabled",
        "sys/kernel/mm/numa/demotion_enabled",
        Domain::Bool,
        "Reclaim moves cold pages to a slower memory tier before it swaps them.",
    )
    .with_default("false"),
    sysfs(
        "numa.weighted_interleave",
        "sys/kernel/mm/mempolicy/weighted_interleave/node{node}",
        int(1, 255),
        "The node's share of pages under weighted interleave; a write switches automatic weights off.",
    )
    .with_couples(&[
        "numa.weighted_interleave_auto",
        "numa.weighted_interleave_auto_type",
    ]),
    sysfs(
        "numa.weighted_interleave_auto",
        "sys/kernel/mm/mempolicy/weighted_interleave/auto",
        Domain::Bool,
        "Weights follow the bandwidth that the firmware reports for each node.",
    )
    .with_couples(&["numa.weighted_interleave"]),
    sysfs(
        "numa.weighted_interleave_auto_type",
        "sys/kernel/mm/mempolicy/weighted_interleave/__auto_type",
        Domain::Bool,
        "As weighted_interleave/auto, under the name that a macro gave it on kernels such as 6.18.",
    )
    .with_couples(&["numa.weighted_interleave"]),
    info(
        "numa.tier_nodes",
        "sys/devices/virtual/memory_tiering/memory_tier{N}/nodelist",
        Domain::Text,
        "The nodes of a memory tier; a smaller tier number is faster memory.",
    ),
    trigger(
        "page_idle.bitmap",
        "sys/kernel/mm/page_idle/bitmap",
        Domain::Text,
        "accessed bits have been cleared already",
        "Marks pages idle by a bit per page frame; reading walks and clears accessed bits too.",
    )
    .with_access(Access::ReadActs),
    sysfs(
        "page_reporting.order",
        "sys/module/page_reporting/parameters/page_reporting_order",
        int(0, u32::MAX as u64),
        "Smallest free block that a guest reports to its host, as a power of two of pages.",
    )
    .with_persist(&[Persist::KernelCommandLine, Persist::Tmpfiles])
    .with_couples(&["page_reporting.delay_ms"]),
    sysfs(
        "page_reporting.delay_ms",
        "sys/module/page_reporting/parameters/page_reporting_delay_ms",
        int(0, u32::MAX as u64),
        "How long a guest waits before it reports free pages to its host, in ms.",
    )
    .with_persist(&[Persist::KernelCommandLine, Persist::Tmpfiles])
    .with_couples(&["page_reporting.order"]),
];
