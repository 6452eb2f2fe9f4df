// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and counters of kernel same-page merging (KSM).

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Millis, Name, Pages, Reading};

/// Settings and counters of KSM in `/sys/kernel/mm/ksm`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Ksm {
    /// State of KSM. 0: stopped; 1: running; 2: stopped, and all pages unmerged.
    pub run: Reading<u32>,
    /// Number of pages of RAM that hold merged contents.
    pub pages_shared: Reading<Pages>,
    /// Number of pages that merging saved: mappings of the merged pages beyond the first of each.
    pub pages_sharing: Reading<Pages>,
    /// Number of pages that were scanned and have no duplicate.
    pub pages_unshared: Reading<Pages>,
    /// Number of pages that change too often to be merged.
    pub pages_volatile: Reading<Pages>,
    /// Number of pages of zeros that were replaced by the kernel's zero page.
    pub zero_pages: Reading<Pages>,
    /// How often all mergeable memory was scanned.
    pub full_scans: Reading<u64>,
    /// Bytes that merging saves minus the bytes of its metadata; negative if KSM costs more than it
    /// saves.
    pub general_profit_bytes: Reading<i64>,
    /// Number of pages scanned before each sleep.
    pub pages_to_scan: Reading<u64>,
    /// How long KSM sleeps between two scans.
    pub sleep: Reading<Millis>,
    /// Whether and how the kernel adjusts `pages_to_scan` by itself.
    pub advisor_mode: Reading<Name>,
}
