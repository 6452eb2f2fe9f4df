// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What zmerge has beyond zram: equal pages are stored once. And what a pass on request gave back.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Choice, Name, Pages, Percent, Reading, Zram};

/// The files of a `/sys/block/zmergeN` that zram has not.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Merging {
    /// `off`, `request`, `inline` or `adaptive`.
    pub mode: Reading<Choice>,
    /// With which pages a page may be merged: `device`, or `cgroup` for those of the same memory cgroup.
    pub domain: Reading<Choice>,
    /// The most memory that a pass may use.
    pub budget: Reading<Bytes>,
    /// How many slots a second a pass examines at most; 0: no limit.
    pub rate: Reading<u64>,
    /// What the pass that runs now has still to look at; 0 where none runs.
    pub slots_left: Reading<u64>,
    /// Slots that need no object of their own.
    pub merged_pages: Reading<Pages>,
    /// What those objects would take.
    pub merged_bytes: Reading<Bytes>,
    /// What the index and the counters of shared objects take.
    pub index_bytes: Reading<Bytes>,
    /// Pages that inline merging looked for and found, since the device was set up.
    pub hits: Reading<u64>,
    /// Pages that it looked for in vain.
    pub misses: Reading<u64>,
    /// `hits` of both; `null` where none was looked for.
    pub hit_percent: Option<Percent>,
}

impl Merging {
    /// Whether pages are looked for before they are stored.
    pub fn is_inline(&self) -> bool {
        self.mode.value().is_some_and(|mode| matches!(mode.active.as_str(), "inline" | "adaptive"))
    }

    /// Whether pages of different memory cgroups are kept apart.
    pub fn is_within_cgroups(&self) -> bool {
        self.domain.value().is_some_and(|domain| domain.active.as_str() == "cgroup")
    }

    /// The pages that inline merging looked for.
    pub fn looked_for(&self) -> Option<u64> {
        Some(self.hits.get()?.saturating_add(self.misses.get()?))
    }
}

/// A pass on request over some devices.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Merge {
    /// Those that were merged, or on which a pass was started.
    pub devices: Vec<MergedDevice>,
    /// Those that were not, where all were asked for.
    pub left_out: Vec<LeftOut>,
    /// How long it waited for a calm moment; left out where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<f64>,
}

/// A device before and after a pass.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MergedDevice {
    /// As `zmerge0`.
    pub name: Name,
    /// Pages of which the device held another one when it was looked at just before, the same word
    /// repeated left out; left out where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_pages: Option<u64>,
    /// Before.
    pub before: Zram,
    /// After the pass, or what became of it; left out where it was only started, or goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Zram>,
    /// Time of the pass, compaction included; left out where it did not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Whether the pass was ended before it had examined all pages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A device that was left out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftOut {
    /// As `zmerge0`.
    pub name: Name,
    /// Why.
    pub why: String,
}
