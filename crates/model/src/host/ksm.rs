// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel same-page merging.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Millis, Name, Pages, Reading};

/// `/sys/kernel/mm/ksm`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Ksm {
    /// 0: stopped; 1: running; 2: stopped, and all pages unmerged.
    pub run: Reading<u32>,
    /// Merged pages that KSM keeps.
    pub pages_shared: Reading<Pages>,
    /// Pages saved: further mappings of these pages.
    pub pages_sharing: Reading<Pages>,
    /// Pages that were scanned and have no duplicate.
    pub pages_unshared: Reading<Pages>,
    /// Pages that change too often to be merged.
    pub pages_volatile: Reading<Pages>,
    /// Zero pages that were replaced by the kernel's zero page.
    pub zero_pages: Reading<Pages>,
    /// How often all mergeable memory was scanned.
    pub full_scans: Reading<u64>,
    /// Bytes saved minus the bytes of metadata; negative if KSM costs more than it saves.
    pub general_profit_bytes: Reading<i64>,
    /// Pages scanned before each sleep.
    pub pages_to_scan: Reading<u64>,
    /// Sleep between two scans.
    pub sleep: Reading<Millis>,
    /// Whether and how the kernel adjusts `pages_to_scan` by itself.
    pub advisor_mode: Reading<Name>,
}
