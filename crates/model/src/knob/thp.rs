// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages and khugepaged. A change does not affect existing mappings, and even with
//! `never` everywhere a process can collapse its own pages.
//!
//! Limits that count pages are at most the number of base pages in a huge page minus one: 511 with
//! base pages of 4 KiB, 8191 with 64 KiB.

use super::row::{int, sysfs, word};
use super::{Access, Domain, Knob, Persist, Undo};

const BOOT: &[Persist] = &[Persist::KernelCommandLine, Persist::Tmpfiles];
const UINT: Domain = int(0, u32::MAX as u64);
const PTES: Domain = int(0, 8191);

pub(super) const ROWS: &[Knob] = &[
    sysfs(
        "thp.enabled",
        "sys/kernel/mm/transparent_hugepage/enabled",
        word(&["always", "madvise", "never"]),
        "Which anonymous memory may get huge pages; sizes that say inherit follow it.",
    )
    .with_persist(BOOT)
    .with_couples(&["thp.size.enabled", "vm.min_free_kbytes"]),
    sysfs(
        "thp.size.enabled",
        "sys/kernel/mm/transparent_hugepage/hugepages-{size}/enabled",
        word(&["always", "inherit", "madvise", "never"]),
        "The same for one size; unset it is inherit for the PMD size and never for all others.",
    )
    .with_persist(BOOT)
    .with_couples(&["thp.enabled", "vm.min_free_kbytes"]),
    sysfs(
        "thp.defrag",
        "sys/kernel/mm/transparent_hugepage/defrag",
        word(&["always", "defer", "defer+madvise", "madvise", "never"]),
        "How hard a page fault tries for a huge page; always can stall it for compaction.",
    )
    .with_default("madvise"),
    sysfs(
        "thp.use_zero_page",
        "sys/kernel/mm/transparent_hugepage/use_zero_page",
        Domain::Bool,
        "Read faults in huge areas share one huge page of zeros.",
    )
    .with_default("1"),
    sysfs(
        "thp.shrink_underused",
        "sys/kernel/mm/transparent_hugepage/shrink_underused",
        Domain::Bool,
        "Pressure splits huge pages with more zero pages than max_ptes_none, so never while that is 511.",
    )
    .with_default("1")
    .with_couples(&["thp.khugepaged.max_ptes_none"]),
    Knob {
        access: Access::ReadOnly,
        persist: &[],
        undo: Undo::Never { because: "the processor fixes it" },
        ..sysfs(
            "thp.hpage_pmd_size",
            "sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
            Domain::Size,
            "Bytes in the huge page that one entry of the second page-table level maps.",
        )
    },
    sysfs(
        "thp.shmem_enabled",
        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
        word(&["always", "within_size", "advise", "never", "deny", "force"]),
        "Huge pages for internal shared memory; deny and force override every tmpfs mount too.",
    )
    .with_default("never")
    .with_persist(BOOT)
    .with_couples(&["thp.size.shmem_enabled"]),
    sysfs(
        "thp.size.shmem_enabled",
        "sys/kernel/mm/transparent_hugepage/hugepages-{size}/shmem_enabled",
        word(&["always", "inherit", "within_size", "advise", "never"]),
        "The same for one size; unset it is inherit for the PMD size and never for all others.",
    )
    .with_persist(BOOT)
    .with_couples(&["thp.shmem_enabled"]),
    sysfs(
        "thp.khugepaged.defrag",
        "sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        Domain::Bool,
        "khugepaged may reclaim and compact to get a huge page.",
    )
    .with_default("1"),
    sysfs(
        "thp.khugepaged.pages_to_scan",
        "sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
        int(1, u32::MAX as u64),
        "Pages that khugepaged looks at before it rests.",
    )
    .with_default("4096")
    .with_couples(&["thp.khugepaged.scan_sleep_millisecs"]),
    sysfs(
        "thp.khugepaged.scan_sleep_millisecs",
        "sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        UINT,
        "Rest of khugepaged between passes, in ms; 0 keeps a CPU busy.",
    )
    .with_default("10000")
    .with_couples(&["thp.khugepaged.pages_to_scan"]),
    sysfs(
        "thp.khugepaged.alloc_sleep_millisecs",
        "sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs",
        UINT,
        "Rest of khugepaged after it found no huge page, in ms; 0 keeps a CPU busy.",
    )
    .with_default("60000"),
    sysfs(
        "thp.khugepaged.max_ptes_none",
        "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
        PTES,
        "Empty pages that a collapse may fill with zeros: the larger, the more memory grows.",
    )
    .with_default("511")
    .with_couples(&["thp.shrink_underused"]),
    sysfs(
        "thp.khugepaged.max_ptes_swap",
        "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_swap",
        PTES,
        "Swapped pages that a collapse may bring back in.",
    )
    .with_default("64"),
    sysfs(
        "thp.khugepaged.max_ptes_shared",
        "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_shared",
        PTES,
        "Pages shared with other processes that a collapse may copy.",
    )
    .with_default("256"),
];
