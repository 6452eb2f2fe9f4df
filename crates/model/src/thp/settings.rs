// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and counters of transparent huge pages.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Choice, Counters, Millis, Nanos, Reading};

/// Settings in `/sys/kernel/mm/transparent_hugepage`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the file of the same name")]
pub struct Thp {
    pub enabled: Reading<Choice>,
    pub defrag: Reading<Choice>,
    pub shmem_enabled: Reading<Choice>,
    pub use_zero_page: Reading<bool>,
    /// Whether, under memory pressure, the kernel splits huge pages that are mostly zeros.
    pub shrink_underused: Reading<bool>,
    pub pmd_size: Reading<Bytes>,
    /// Settings for each size of huge pages, smallest first; empty on kernels that support only the
    /// PMD size.
    pub sizes: Vec<ThpSize>,
    pub khugepaged: Khugepaged,
}

/// Settings for huge pages of one size, from a folder `hugepages-<size>kB`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ThpSize {
    /// Size of the huge pages.
    pub bytes: Bytes,
    /// Policy for using this size in anonymous memory; absent if this size is only for shmem.
    pub enabled: Reading<Choice>,
    /// Policy for using this size in shmem; absent if this size is only for anonymous memory.
    pub shmem_enabled: Reading<Choice>,
    /// Counters from the files of the folder `stats`, by file name. If the size is disabled
    /// everywhere and no page of it was ever allocated, only the counters that show this were read.
    pub stats: Counters,
}

/// Settings and counters of khugepaged, the kernel thread that collapses base pages into huge
/// pages.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Khugepaged {
    /// Whether khugepaged may reclaim and compact memory to get a huge page.
    pub defrag: Reading<bool>,
    /// Number of pages that khugepaged scans per pass.
    pub pages_to_scan: Reading<u64>,
    /// How long khugepaged sleeps after each pass.
    pub scan_sleep: Reading<Millis>,
    /// How long khugepaged sleeps after a failed allocation of a huge page.
    pub alloc_sleep: Reading<Millis>,
    /// How many unmapped page table entries a collapse may fill: the higher, the more memory grows.
    pub max_ptes_none: Reading<u64>,
    /// How many pages a collapse may swap in.
    pub max_ptes_swap: Reading<u64>,
    /// How many shared pages a collapse may copy.
    pub max_ptes_shared: Reading<u64>,
    /// Number of huge pages that khugepaged made since boot.
    pub pages_collapsed: Reading<u64>,
    /// Number of full scans of all candidates since boot.
    pub full_scans: Reading<u64>,
    /// Process id of khugepaged, which changes when THP is disabled and enabled.
    pub pid: Reading<u32>,
    /// CPU time that khugepaged used (`schedstat`).
    pub cpu_time: Reading<Nanos>,
    /// Time that khugepaged waited for a CPU (`schedstat`): if this is large compared with
    /// `cpu_time`, the thread is starved.
    pub run_queue_wait: Reading<Nanos>,
}
