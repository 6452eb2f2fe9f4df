// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Choice, Counters, Millis, Nanos, Reading};

/// `/sys/kernel/mm/transparent_hugepage`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the file of the same name")]
pub struct Thp {
    pub enabled: Reading<Choice>,
    pub defrag: Reading<Choice>,
    pub shmem_enabled: Reading<Choice>,
    pub use_zero_page: Reading<bool>,
    /// Whether the kernel splits huge pages that are mostly zeros, under pressure.
    pub shrink_underused: Reading<bool>,
    pub pmd_size: Reading<Bytes>,
    /// Per size, smallest first; empty on kernels that have only the PMD size.
    pub sizes: Vec<ThpSize>,
    pub khugepaged: Khugepaged,
}

/// `hugepages-<size>kB`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ThpSize {
    /// The size.
    pub bytes: Bytes,
    /// Policy for anonymous memory; absent where this size is for shmem only.
    pub enabled: Reading<Choice>,
    /// Policy for shmem; absent where this size is for anonymous memory only.
    pub shmem_enabled: Reading<Choice>,
    /// `stats/*`, by file name. Of a size that is allowed to nobody, and of which no page was ever
    /// given out, only those that tell so.
    pub stats: Counters,
}

/// The kernel thread that collapses small pages into huge ones afterwards.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Khugepaged {
    /// Whether it may reclaim and compact.
    pub defrag: Reading<bool>,
    /// Pages per pass.
    pub pages_to_scan: Reading<u64>,
    /// Rest after each pass.
    pub scan_sleep: Reading<Millis>,
    /// Rest after an allocation failed.
    pub alloc_sleep: Reading<Millis>,
    /// Empty entries that a collapse may fill: the memory-growth knob.
    pub max_ptes_none: Reading<u64>,
    /// Swapped entries that a collapse may read in.
    pub max_ptes_swap: Reading<u64>,
    /// Shared entries that a collapse may copy.
    pub max_ptes_shared: Reading<u64>,
    /// Huge pages made since boot.
    pub pages_collapsed: Reading<u64>,
    /// Passes over all candidates.
    pub full_scans: Reading<u64>,
    /// Its process id; changes when THP is switched off and on.
    pub pid: Reading<u32>,
    /// CPU time it used (`schedstat`).
    pub cpu_time: Reading<Nanos>,
    /// Time it waited for a CPU (`schedstat`): large beside `cpu_time` means that it starves.
    pub run_queue_wait: Reading<Nanos>,
}
