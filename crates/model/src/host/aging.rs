// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aging of a memory cgroup's pages on request: what was done, and how the refaults of the group
//! changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// Counters of a cgroup at one time, those below it included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefaultCounters {
    /// File pages that were refaulted since the group was created.
    pub file: u64,
    /// Anonymous pages that were refaulted (swapped in again) since the group was created.
    pub anon: u64,
    /// Memory of the group in swap; `None` if it is not known.
    pub swap: Option<Bytes>,
}

/// Refaults of a cgroup over some seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refaults {
    /// How long they were counted.
    pub seconds: f64,
    /// File pages that were read again although they had been reclaimed a short time before.
    pub file: u64,
    /// Anonymous pages that were swapped in again.
    pub anon: u64,
    /// Memory of the group in swap at the end of this time; `null` if it is not known.
    pub swap: Option<Bytes>,
}

impl Refaults {
    /// The refaults between two readings.
    pub fn between(start: &RefaultCounters, end: &RefaultCounters, seconds: f64) -> Self {
        Self {
            seconds,
            file: end.file.saturating_sub(start.file),
            anon: end.anon.saturating_sub(start.anon),
            swap: end.swap,
        }
    }

    /// Refaults of both kinds.
    pub fn pages(&self) -> u64 {
        self.file.saturating_add(self.anon)
    }

    /// Refaults of files per second; 0 if no time has passed.
    pub fn file_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.file as f64 / self.seconds } else { 0.0 }
    }

    /// Refaults of both kinds per second; 0 if no time has passed.
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.pages() as f64 / self.seconds } else { 0.0 }
    }
}

/// The youngest generation of a cgroup on a NUMA node, before and after an aging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgedNode {
    /// Path of the cgroup below the hierarchy's root: the requested one or one below it.
    pub group: String,
    /// Number of the NUMA node.
    pub node: u32,
    /// Number of the youngest generation before.
    pub from: u64,
    /// Number of the youngest generation afterwards; `null` if it was not read.
    pub to: Option<u64>,
}

/// One aging of a cgroup, as it is recorded beside the journals: once before the kernel is asked,
/// without `after`, and once afterwards. There is nothing to undo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgingRecord {
    /// When the kernel was asked, in seconds of Unix time.
    pub unix_seconds: u64,
    /// Id of the boot; `null` if it could not be read.
    pub boot_id: Option<String>,
    /// The path of the requested cgroup.
    pub group: String,
    /// Which aging of its run this is, from 1.
    pub round: u32,
    /// Each cgroup and NUMA node that was aged.
    pub nodes: Vec<AgedNode>,
    /// Refaults over the time before this run aged the group for the first time.
    pub before: Refaults,
    /// Refaults over the time after this aging; `null` if the run ended before they were counted.
    pub after: Option<Refaults>,
}

/// Why a run of agings ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgingEnd {
    /// The group had few refaults of files before (less than 50 per second), so that aging had
    /// nothing to improve; it was not aged.
    FewRefaults,
    /// Refaults fell so far that more agings are not needed.
    Fell,
    /// Four agings in a row left the refaults as they were, or one doubled them: the cause is another
    /// one.
    DidNotFall,
    /// The group was aged as often as was allowed.
    Budget,
    /// The user stopped the run.
    Stopped,
}

/// The result of a run of agings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Aging {
    /// Path of the requested cgroup below the hierarchy's root.
    pub group: String,
    /// Refaults over the time before the first aging.
    pub before: Refaults,
    /// The agings, in order.
    pub rounds: Vec<AgingRecord>,
    /// Why the run ended.
    pub ended: AgingEnd,
}

impl Aging {
    /// Refaults over the time after the last aging, if they were counted.
    pub fn after(&self) -> Option<&Refaults> {
        self.rounds.last().and_then(|round| round.after.as_ref())
    }
}

/// What `pagewise age` did, or with `--history` what earlier runs recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct AgingReport {
    /// The agings of this run; `null` with `--history`.
    pub aging: Option<Aging>,
    /// The agings that this and earlier runs recorded, oldest first; empty without `--history`.
    pub history: Vec<AgingRecord>,
    /// Numbers, from 1, of the lines of the record that were changed after they were written.
    pub damaged_lines: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refaults_of_both_kinds_are_counted_per_second() {
        let at = |file, anon| RefaultCounters { file, anon, swap: None };
        let found = Refaults::between(&at(100, 20), &at(600, 30), 5.0);
        assert_eq!((found.file, found.anon, found.pages()), (500, 10, 510));
        assert!((found.per_second() - 102.0).abs() < 1e-9);
        // a counter that went back belongs to another group of the same name
        assert_eq!(Refaults::between(&at(100, 20), &at(1, 1), 0.0).pages(), 0);
    }
}
