// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What zmerge, which stores equal pages only once, has in addition to zram; and the result of a
//! merge pass that a user requested.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Choice, Name, Pages, Percent, Reading, Zram};

/// Settings and counters of zmerge: the files of `/sys/block/zmergeN` that zram does not have.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Merging {
    /// When the device merges equal pages: `off`, `request`, `inline` or `adaptive`.
    pub mode: Reading<Choice>,
    /// Which pages the device may merge: `device` for any pages, `cgroup` for pages of the same
    /// memory cgroup only.
    pub domain: Reading<Choice>,
    /// Limit on the memory that a merge pass may use.
    pub budget: Reading<Bytes>,
    /// Limit on the slots per second that a merge pass examines; 0 for no limit.
    pub rate: Reading<u64>,
    /// Number of slots that the current pass has yet to examine; 0 if no pass is running.
    pub slots_left: Reading<u64>,
    /// Number of slots that share the stored object of another slot.
    pub merged_pages: Reading<Pages>,
    /// Memory that these slots would take if each had its own object.
    pub merged_bytes: Reading<Bytes>,
    /// Memory that the index takes, together with the reference counters of shared objects.
    pub index_bytes: Reading<Bytes>,
    /// Number of pages for which inline merging found an equal page, since the device was set up.
    pub hits: Reading<u64>,
    /// Number of pages for which inline merging found no equal page.
    pub misses: Reading<u64>,
    /// `hits` in percent of `hits` and `misses`; `null` if both are 0.
    pub hit_percent: Option<Percent>,
}

impl Merging {
    /// Whether the device searches the index for an equal page before it stores a page.
    pub fn is_inline(&self) -> bool {
        self.mode.value().is_some_and(|mode| matches!(mode.active.as_str(), "inline" | "adaptive"))
    }

    /// Whether only pages of the same memory cgroup are merged.
    pub fn is_within_cgroups(&self) -> bool {
        self.domain.value().is_some_and(|domain| domain.active.as_str() == "cgroup")
    }

    /// Number of pages for which inline merging searched for an equal page.
    pub fn count_searches(&self) -> Option<u64> {
        Some(self.hits.get()?.saturating_add(self.misses.get()?))
    }
}

/// The result of a merge pass that a user requested, over one or several devices.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Merge {
    /// Devices that were merged, or on which a pass was started.
    pub devices: Vec<MergedDevice>,
    /// Devices that were skipped; empty unless all devices were requested.
    pub left_out: Vec<LeftOut>,
    /// How long Pagewise waited for low memory pressure, in seconds; missing if it did not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<f64>,
}

/// A device before and after a merge pass.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MergedDevice {
    /// Name of the device, such as `zmerge0`.
    pub name: Name,
    /// Number of pages with a duplicate on the device just before the pass, same-filled pages
    /// excluded; missing unless the prediction was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_pages: Option<u64>,
    /// The device before the pass.
    pub before: Zram,
    /// The device after the pass; missing if the pass was only started, or is still running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Zram>,
    /// Duration of the pass in seconds, including compaction; missing if it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Whether the pass was stopped before it had examined all pages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A device that a requested merge pass skipped.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Name of the device, such as `zmerge0`.
    pub name: Name,
    /// Why the device was skipped.
    pub why: String,
}
