// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel same-page merging.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Millis, Name, Pages, Reading};

/// `/sys/kernel/mm/ksm`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Ksm {
    /// 0 stopped, 1 runs, 2 stopped and everything unmerged.
    pub run: Reading<u32>,
    /// Pages kept for others to share.
    pub pages_shared: Reading<Pages>,
    /// Pages saved: how many more mappings share them.
    pub pages_sharing: Reading<Pages>,
    /// Pages looked at that have no twin.
    pub pages_unshared: Reading<Pages>,
    /// Pages that changed too fast.
    pub pages_volatile: Reading<Pages>,
    /// Pages of zeros mapped to the kernel's zero page.
    pub zero_pages: Reading<Pages>,
    /// Times that all mergeable memory was scanned.
    pub full_scans: Reading<u64>,
    /// Bytes saved minus the bytes of metadata; negative means that KSM costs memory.
    pub general_profit_bytes: Reading<i64>,
    /// Pages looked at before each sleep.
    pub pages_to_scan: Reading<u64>,
    /// The sleep between.
    pub sleep: Reading<Millis>,
    /// Whether the kernel tunes `pages_to_scan` by itself.
    pub advisor_mode: Reading<Name>,
}
