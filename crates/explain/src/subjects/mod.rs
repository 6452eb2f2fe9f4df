// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The subjects, one file for each area.

mod groups;
mod huge_pages;
mod reclaim;
mod room;
mod same_pages;
mod swap;

use crate::Subject;

pub(crate) static ALL: &[Subject] = &[
    Subject { name: "available", title: "how much memory is left", page: room::explain_available },
    Subject {
        name: "watermarks",
        title: "when the kernel begins to reclaim memory",
        page: room::explain_watermarks,
    },
    Subject {
        name: "swappiness",
        title: "which memory the kernel reclaims first",
        page: reclaim::explain_swappiness,
    },
    Subject {
        name: "mglru",
        title: "how the kernel finds cold pages",
        page: reclaim::explain_mglru,
    },
    Subject { name: "psi", title: "how long programs wait for memory", page: reclaim::explain_psi },
    Subject { name: "oom", title: "why the kernel kills a process", page: groups::explain_oom },
    Subject {
        name: "cgroups",
        title: "memory limits of groups of processes",
        page: groups::explain_cgroups,
    },
    Subject { name: "zram", title: "swap in compressed RAM", page: swap::explain_zram },
    Subject {
        name: "mm_stat",
        title: "the nine numbers of a zram device",
        page: swap::explain_mm_stat,
    },
    Subject {
        name: "zswap",
        title: "compressed RAM in front of swap on a disk",
        page: swap::explain_zswap,
    },
    Subject {
        name: "page-cluster",
        title: "how many pages one fault reads from swap",
        page: swap::explain_page_cluster,
    },
    Subject {
        name: "hugepages",
        title: "one large page instead of hundreds of small ones",
        page: huge_pages::explain_huge_pages,
    },
    Subject {
        name: "buddy",
        title: "free memory in blocks, and fragmentation",
        page: room::explain_fragmentation,
    },
    Subject {
        name: "merging",
        title: "identical pages stored once",
        page: same_pages::explain_ksm,
    },
];

/// The subject for each rule of `doctor`. Rules about configuration files and about single programs
/// have no subject.
pub(crate) static OF_RULES: &[(&str, &str)] = &[
    ("memory-pressure", "psi"),
    ("dirty-stall", "psi"),
    ("memory-low", "available"),
    ("memory-grows", "available"),
    ("memory-locked", "available"),
    ("kernel-memory", "available"),
    ("cache-not-cache", "available"),
    ("swap-full", "available"),
    ("watermarks-extreme", "watermarks"),
    ("swap-avoids-anon", "swappiness"),
    ("swap-stuck", "swappiness"),
    ("mglru-off", "mglru"),
    ("min-ttl-set", "mglru"),
    ("oom-kills", "oom"),
    ("commit-limit", "oom"),
    ("group-limit", "cgroups"),
    ("tasks-limit", "cgroups"),
    ("swap-heavy-group", "cgroups"),
    ("protection-limited", "cgroups"),
    ("zram-unused", "zram"),
    ("tier-order", "zram"),
    ("zram-oversized", "zram"),
    ("hibernation-zram", "zram"),
    ("zram-full", "mm_stat"),
    ("zram-incompressible", "mm_stat"),
    ("zswap-unused", "zswap"),
    ("zram-zswap-stacked", "zswap"),
    ("thp-coverage", "hugepages"),
    ("khugepaged-starves", "hugepages"),
    ("thp-bloat-guard-off", "hugepages"),
    ("hugetlb-unused", "hugepages"),
    ("fragmentation", "buddy"),
    ("extfrag-threshold", "buddy"),
    ("ksm-loss", "merging"),
    ("zmerge-few-copies", "merging"),
];
