// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of metrics that every run has, provided that the host supports them.

use pagewise_model::MetricKind;

use crate::name::{
    CPU, DIRECT_SCANS, DISK_SWAP_READS, DISK_SWAP_WRITES, KEPT_OUT, KSWAPD_CPU, MAJOR_FAULTS,
    MEMORY_STALL, NEIGHBOUR_FAULTS, NEIGHBOUR_KILLS, NEIGHBOUR_PEAK, NEIGHBOUR_POOL, PEAK_MEMORY,
    POOL, REFAULTS, REFAULTS_ANON, REFAULTS_FILE, REFUSED_SHARE, SCAN_EFFICIENCY, SCANNED, STOLEN,
    SWAP_INS, SWAP_USED, SWAPPED_IN, SWAPPED_OUT, TIME, WRITTEN_BACK, ZERO_IN, ZERO_OUT, ZSWAP_IN,
    ZSWAP_OUT, ZSWAP_REFUSED,
};

/// A metric that every run has, provided that the host supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandardMetric {
    /// Name of the metric, as typed and printed.
    pub name: &'static str,
    /// Unit of the metric's values.
    pub unit: &'static str,
    /// The kind of quantity that the metric measures.
    pub kind: MetricKind,
    /// Whether larger values of the metric are better.
    pub higher_is_better: bool,
    /// A sentence that says what the metric counts, or where its value comes from.
    pub doc: &'static str,
}

/// All standard metrics, sorted by reliability: counts, then CPU time, then elapsed time.
pub const KNOWN: &[StandardMetric] = &[
    count(MAJOR_FAULTS, "count", "page faults of the command's processes that had to read a page"),
    count(REFAULTS, "pages", "pages read again soon after they were dropped or swapped out"),
    count(REFAULTS_ANON, "pages", "refaulted pages that were swapped in"),
    count(REFAULTS_FILE, "pages", "refaulted pages that were read from files"),
    count(SCANNED, "pages", "pages that the kernel scanned for reclaim"),
    count(DIRECT_SCANS, "pages", "pages scanned while an allocating task waited (direct reclaim)"),
    count(STOLEN, "pages", "pages that the kernel reclaimed"),
    share(SCAN_EFFICIENCY, "share of the scanned pages that were reclaimed"),
    share(KEPT_OUT, "share of the reclaimed pages that were not read again soon"),
    count(SWAPPED_IN, "pages", "pages read from swap devices"),
    count(SWAPPED_OUT, "pages", "pages written to swap devices"),
    count(ZSWAP_IN, "pages", "pages swapped in from zswap's pool"),
    count(ZSWAP_OUT, "pages", "pages swapped out to zswap's pool"),
    count(ZERO_IN, "pages", "pages of zeros swapped in, without a read from a device or pool"),
    count(ZERO_OUT, "pages", "pages of zeros swapped out, recorded without being written"),
    count(
        SWAP_INS,
        "pages",
        "pages swapped in from wherever they were: a device, zswap's pool, zeros",
    ),
    count(DISK_SWAP_READS, "pages", "pages read from swap on disks and in files"),
    count(DISK_SWAP_WRITES, "pages", "pages written to swap on disks and in files"),
    count(WRITTEN_BACK, "pages", "pages written from zswap's pool to the swap behind it"),
    count(
        ZSWAP_REFUSED,
        "pages",
        "pages that zswap did not accept, so that they went to the swap behind it",
    ),
    waste(REFUSED_SHARE, "share of the swapped-out pages that zswap did not accept"),
    count(SWAP_USED, "bytes", "peak swap use, sampled ten times a second"),
    count(
        POOL,
        "bytes",
        "peak memory of compressed pages in the arm's zram devices and in the zswap pool",
    ),
    count(PEAK_MEMORY, "bytes", "peak memory usage of the cgroup"),
    count(NEIGHBOUR_FAULTS, "count", "major page faults in the cgroup of the program beside it"),
    count(NEIGHBOUR_PEAK, "bytes", "peak memory usage of the cgroup of the program beside it"),
    count(
        NEIGHBOUR_POOL,
        "bytes",
        "peak memory of that program's pages in zswap's pool, sampled ten times a second",
    ),
    count(NEIGHBOUR_KILLS, "count", "processes of that program killed for lack of memory"),
    seconds(CPU, MetricKind::Cpu, "user and system time of the command and all its descendants"),
    seconds(KSWAPD_CPU, MetricKind::Cpu, "CPU time of kswapd, the kernel's reclaim thread"),
    seconds(TIME, MetricKind::Time, "from the command's start to its exit"),
    seconds(
        MEMORY_STALL,
        MetricKind::Time,
        "time in which no task could proceed for lack of memory (PSI, full)",
    ),
];

const fn count(name: &'static str, unit: &'static str, doc: &'static str) -> StandardMetric {
    StandardMetric { name, unit, kind: MetricKind::Count, higher_is_better: false, doc }
}

const fn share(name: &'static str, doc: &'static str) -> StandardMetric {
    StandardMetric { name, unit: SHARE, kind: MetricKind::Count, higher_is_better: true, doc }
}

const fn waste(name: &'static str, doc: &'static str) -> StandardMetric {
    StandardMetric { higher_is_better: false, ..share(name, doc) }
}

const fn seconds(name: &'static str, kind: MetricKind, doc: &'static str) -> StandardMetric {
    StandardMetric { name, unit: "seconds", kind, higher_is_better: false, doc }
}

/// The unit of a fraction from 0 to 1.
pub(crate) const SHARE: &str = "share";
