// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings in `/proc/sys/vm`, and settings of the hugetlb pools.
//!
//! Of a pair such as `dirty_ratio` and `dirty_bytes`, one is active and the other reads 0. To
//! restore the pair, write the one that was not 0.

use super::row::{COUNT, SMALL, int, sysctl, sysfs, trigger};
use super::{Access, Domain, Knob, Persist};

const PERCENT: Domain = int(0, 100);

pub(super) const ROWS: &[Knob] = &[
    sysctl(
        "vm.min_free_kbytes",
        "proc/sys/vm/min_free_kbytes",
        SMALL,
        "kB kept free for the kernel, the min watermark; below 1024 breaks, and khugepaged raises it.",
    )
    .with_couples(&["thp.enabled", "thp.size.enabled"]),
    sysctl(
        "vm.watermark_scale_factor",
        "proc/sys/vm/watermark_scale_factor",
        int(1, 3000),
        "Distance of the min, low and high watermarks in 1/10000 of memory: more wakes kswapd earlier.",
    )
    .with_default("10"),
    sysctl(
        "vm.watermark_boost_factor",
        "proc/sys/vm/watermark_boost_factor",
        SMALL,
        "Extra reclaim after blocks of memory were mixed, in 1/10000 of the high watermark; 0 is off.",
    )
    .with_default("15000"),
    sysctl(
        "vm.lowmem_reserve_ratio",
        "proc/sys/vm/lowmem_reserve_ratio",
        Domain::Ints,
        "Protects lower zones from users of higher ones: each gets 1/N of those above, 0 for nothing.",
    )
    .with_default("256 256 32 0 0"),
    sysctl(
        "vm.percpu_pagelist_high_fraction",
        "proc/sys/vm/percpu_pagelist_high_fraction",
        SMALL,
        "Free pages held per CPU as 1/N of the zone, N from 8; 0 leaves the choice to the kernel.",
    )
    .with_default("0"),
    sysctl(
        "vm.vfs_cache_pressure",
        "proc/sys/vm/vfs_cache_pressure",
        SMALL,
        "How much dentries and inodes are reclaimed beside page cache; 0 keeps them until none is left.",
    )
    .with_default("100")
    .with_couples(&["vm.vfs_cache_pressure_denom"]),
    sysctl(
        "vm.vfs_cache_pressure_denom",
        "proc/sys/vm/vfs_cache_pressure_denom",
        int(100, i32::MAX as u64),
        "What vfs_cache_pressure is divided by.",
    )
    .with_default("100")
    .with_couples(&["vm.vfs_cache_pressure"]),
    sysctl(
        "vm.overcommit_memory",
        "proc/sys/vm/overcommit_memory",
        int(0, 2),
        "0 refuses only obvious excess, 1 grants everything, 2 never grants over the commit limit.",
    )
    .with_default("0")
    .with_couples(&[
        "vm.overcommit_ratio",
        "vm.overcommit_kbytes",
        "vm.admin_reserve_kbytes",
        "vm.user_reserve_kbytes",
    ]),
    sysctl(
        "vm.overcommit_ratio",
        "proc/sys/vm/overcommit_ratio",
        SMALL,
        "Commit limit in % of memory beside swap, under overcommit_memory 2.",
    )
    .with_default("50")
    .with_pair(&["vm.overcommit_kbytes"])
    .with_couples(&["vm.overcommit_kbytes", "vm.overcommit_memory"]),
    sysctl(
        "vm.overcommit_kbytes",
        "proc/sys/vm/overcommit_kbytes",
        COUNT,
        "The same limit in kB; a write puts overcommit_ratio to 0, and the other way round.",
    )
    .with_default("0")
    .with_pair(&["vm.overcommit_ratio"])
    .with_couples(&["vm.overcommit_ratio", "vm.overcommit_memory"]),
    sysctl(
        "vm.admin_reserve_kbytes",
        "proc/sys/vm/admin_reserve_kbytes",
        COUNT,
        "kB that only root may commit, so that root can still log in and kill.",
    )
    .with_couples(&["vm.overcommit_memory"]),
    sysctl(
        "vm.user_reserve_kbytes",
        "proc/sys/vm/user_reserve_kbytes",
        COUNT,
        "kB that one process may not commit, under overcommit_memory 2, so that its user can recover.",
    )
    .with_couples(&["vm.overcommit_memory"]),
    sysctl(
        "vm.dirty_ratio",
        "proc/sys/vm/dirty_ratio",
        PERCENT,
        "% of available memory at which a writer must write dirty pages out itself.",
    )
    .with_default("20")
    .with_pair(&["vm.dirty_bytes"]),
    sysctl(
        "vm.dirty_bytes",
        "proc/sys/vm/dirty_bytes",
        int(8192, u64::MAX),
        "The same in bytes, two pages or more; reads 0 while dirty_ratio rules, and 0 is refused.",
    )
    .with_default("0")
    .with_pair(&["vm.dirty_ratio"]),
    sysctl(
        "vm.dirty_background_ratio",
        "proc/sys/vm/dirty_background_ratio",
        PERCENT,
        "% of available memory at which the kernel starts to write dirty pages out.",
    )
    .with_default("10")
    .with_pair(&["vm.dirty_background_bytes"]),
    sysctl(
        "vm.dirty_background_bytes",
        "proc/sys/vm/dirty_background_bytes",
        int(1, u64::MAX),
        "The same in bytes; reads 0 while dirty_background_ratio rules, and 0 is refused.",
    )
    .with_default("0")
    .with_pair(&["vm.dirty_background_ratio"]),
    sysctl(
        "vm.dirty_expire_centisecs",
        "proc/sys/vm/dirty_expire_centisecs",
        SMALL,
        "Age at which dirty pages must be written, in 1/100 s.",
    )
    .with_default("3000")
    .with_couples(&["vm.dirty_writeback_centisecs"]),
    sysctl(
        "vm.dirty_writeback_centisecs",
        "proc/sys/vm/dirty_writeback_centisecs",
        SMALL,
        "How often the writers wake up, in 1/100 s; 0 stops them from waking by themselves.",
    )
    .with_default("500")
    .with_couples(&["vm.dirty_expire_centisecs"]),
    sysctl(
        "vm.zone_reclaim_mode",
        "proc/sys/vm/zone_reclaim_mode",
        int(0, 7),
        "Bits: 1 reclaims on the own node before using another, 2 also writes, 4 also unmaps.",
    )
    .with_default("0")
    .with_couples(&["vm.min_unmapped_ratio", "vm.min_slab_ratio"]),
    sysctl(
        "vm.min_unmapped_ratio",
        "proc/sys/vm/min_unmapped_ratio",
        PERCENT,
        "% of a node in unmapped cache above which zone_reclaim_mode acts; NUMA only.",
    )
    .with_default("1")
    .with_couples(&["vm.zone_reclaim_mode"]),
    sysctl(
        "vm.min_slab_ratio",
        "proc/sys/vm/min_slab_ratio",
        PERCENT,
        "% of a node in reclaimable slab above which zone_reclaim_mode acts on it; NUMA only.",
    )
    .with_default("5")
    .with_couples(&["vm.zone_reclaim_mode"]),
    sysctl(
        "vm.compaction_proactiveness",
        "proc/sys/vm/compaction_proactiveness",
        PERCENT,
        "How eagerly memory is compacted ahead of need, 0 for never; a write above 0 compacts at once.",
    )
    .with_default("20"),
    sysctl(
        "vm.extfrag_threshold",
        "proc/sys/vm/extfrag_threshold",
        int(0, 1000),
        "A zone whose fragmentation index in 1/1000 is not above this is reclaimed, not compacted.",
    )
    .with_default("500"),
    sysctl(
        "vm.compact_unevictable_allowed",
        "proc/sys/vm/compact_unevictable_allowed",
        Domain::Bool,
        "Compaction may move locked pages, which costs their owner a minor fault; 0 on real-time kernels.",
    )
    .with_default("1"),
    trigger(
        "vm.compact_memory",
        "proc/sys/vm/compact_memory",
        int(1, 1),
        "pages have moved already; nothing is lost by it",
        "Writing 1 compacts all zones now.",
    ),
    sysctl(
        "vm.defrag_mode",
        "proc/sys/vm/defrag_mode",
        Domain::Bool,
        "The allocator reclaims and compacts rather than mix blocks; to be set early in the boot.",
    )
    .with_default("0"),
    trigger(
        "vm.drop_caches",
        "proc/sys/vm/drop_caches",
        int(1, 4),
        "the caches are gone and must be read again",
        "1 drops clean cache, 2 dentries and inodes, 3 both, 4 silences the log: for experiments only.",
    ),
    sysctl(
        "vm.nr_hugepages",
        "proc/sys/vm/nr_hugepages",
        COUNT,
        "Huge pages of the default size kept in the pool; it gets fewer when memory is fragmented.",
    )
    .with_default("0")
    .with_couples(&["hugetlb.nr_hugepages", "vm.nr_hugepages_mempolicy"]),
    sysctl(
        "vm.nr_overcommit_hugepages",
        "proc/sys/vm/nr_overcommit_hugepages",
        COUNT,
        "Huge pages of the default size that the pool may grow by on demand.",
    )
    .with_default("0")
    .with_couples(&["hugetlb.nr_overcommit_hugepages"]),
    sysctl(
        "vm.nr_hugepages_mempolicy",
        "proc/sys/vm/nr_hugepages_mempolicy",
        COUNT,
        "As nr_hugepages, spread over the nodes that the writing task's memory policy allows.",
    )
    .with_default("0")
    .with_couples(&["vm.nr_hugepages", "hugetlb.nr_hugepages_mempolicy"]),
    sysctl(
        "vm.hugetlb_shm_group",
        "proc/sys/vm/hugetlb_shm_group",
        int(0, u32::MAX as u64),
        "Group whose members may use SysV shared memory in huge pages.",
    )
    .with_default("0"),
    sysctl(
        "vm.hugetlb_optimize_vmemmap",
        "proc/sys/vm/hugetlb_optimize_vmemmap",
        Domain::Bool,
        "Frees most page descriptors of hugetlb pages, for slower allocation and freeing of them.",
    )
    .with_persist(&[Persist::Sysctl, Persist::KernelCommandLine]),
    sysctl(
        "vm.movable_gigantic_pages",
        "proc/sys/vm/movable_gigantic_pages",
        Domain::Bool,
        "Gigantic pages may come from the movable zone, which can then fail to be unplugged.",
    ),
    sysfs(
        "hugetlb.nr_hugepages",
        "sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages",
        COUNT,
        "Huge pages of this size kept in the pool; gigantic ones are best asked for at boot.",
    )
    .with_default("0")
    .with_persist(&[Persist::Tmpfiles, Persist::KernelCommandLine])
    .with_couples(&[
        "vm.nr_hugepages",
        "hugetlb.nr_hugepages_mempolicy",
        "hugetlb.node.nr_hugepages",
        "hugetlb.demote",
    ]),
    sysfs(
        "hugetlb.nr_overcommit_hugepages",
        "sys/kernel/mm/hugepages/hugepages-{size}/nr_overcommit_hugepages",
        COUNT,
        "Huge pages of this size that the pool may grow by on demand; refused for gigantic ones.",
    )
    .with_default("0")
    .with_couples(&["vm.nr_overcommit_hugepages"]),
    sysfs(
        "hugetlb.nr_hugepages_mempolicy",
        "sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages_mempolicy",
        COUNT,
        "As nr_hugepages of this size, spread by the writing task's memory policy.",
    )
    .with_default("0")
    .with_couples(&["hugetlb.nr_hugepages", "vm.nr_hugepages_mempolicy"]),
    trigger(
        "hugetlb.demote",
        "sys/kernel/mm/hugepages/hugepages-{size}/demote",
        COUNT,
        "pages that were split do not come together again by themselves",
        "Splits this many free huge pages of the pool into the size in demote_size.",
    )
    .with_couples(&["hugetlb.demote_size", "hugetlb.nr_hugepages"]),
    sysfs(
        "hugetlb.demote_size",
        "sys/kernel/mm/hugepages/hugepages-{size}/demote_size",
        Domain::Text,
        "Smaller huge page size that demote splits into, as 2048kB.",
    )
    .with_couples(&["hugetlb.demote"]),
    sysfs(
        "hugetlb.node.nr_hugepages",
        "sys/devices/system/node/node{node}/hugepages/hugepages-{size}/nr_hugepages",
        COUNT,
        "Huge pages of this size kept in the pool of this node.",
    )
    .with_default("0")
    .with_couples(&["hugetlb.nr_hugepages"]),
    sysctl(
        "vm.panic_on_oom",
        "proc/sys/vm/panic_on_oom",
        int(0, 2),
        "Running out of memory: 0 kills a process, 1 panics unless a limit caused it, 2 always panics.",
    )
    .with_default("0"),
    sysctl(
        "vm.oom_kill_allocating_task",
        "proc/sys/vm/oom_kill_allocating_task",
        Domain::Bool,
        "Kills whoever asked for memory last instead of looking for the largest.",
    )
    .with_default("0"),
    sysctl(
        "vm.oom_dump_tasks",
        "proc/sys/vm/oom_dump_tasks",
        Domain::Bool,
        "Logs a line for every task when one is killed.",
    )
    .with_default("1"),
    sysctl(
        "vm.max_map_count",
        "proc/sys/vm/max_map_count",
        SMALL,
        "Mappings that one process may have; madvise and merging split mappings and use them up.",
    )
    .with_default("65530"),
    sysctl(
        "vm.stat_interval",
        "proc/sys/vm/stat_interval",
        SMALL,
        "Seconds between foldings of per-CPU statistics: vmstat may be behind by as much.",
    )
    .with_default("1"),
    sysctl(
        "vm.numa_stat",
        "proc/sys/vm/numa_stat",
        Domain::Bool,
        "Counts NUMA hits and misses; 0 makes allocation a little cheaper and the counters stay zero.",
    )
    .with_default("1"),
    trigger(
        "vm.stat_refresh",
        "proc/sys/vm/stat_refresh",
        Domain::Trigger,
        "statistics have been folded already; nothing is lost by it",
        "Reading or writing it interrupts every CPU to fold its statistics now.",
    )
    .with_access(Access::ReadActs),
    sysctl(
        "vm.unprivileged_userfaultfd",
        "proc/sys/vm/unprivileged_userfaultfd",
        Domain::Bool,
        "Lets plain users handle faults of the kernel too through userfaultfd; a known attack aid.",
    )
    .with_default("0"),
    sysctl(
        "vm.mem_profiling",
        "proc/sys/vm/mem_profiling",
        Domain::Bool,
        "Attributes kernel allocations to lines of source; once off it may refuse to be switched on.",
    )
    .with_persist(&[Persist::Sysctl, Persist::KernelCommandLine]),
];
