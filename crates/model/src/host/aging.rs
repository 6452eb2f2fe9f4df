// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aging of a memory cgroup's pages with multi-gen LRU, requested by the user: what was done, and
//! how the refaults of the group changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// Counters of a cgroup at one time; descendant cgroups are included.
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
    /// Seconds over which the refaults were counted.
    pub seconds: f64,
    /// File pages that were read again although they had been reclaimed a short time before.
    pub file: u64,
    /// Anonymous pages that were swapped in again.
    pub anon: u64,
    /// Memory of the group in swap at the end of the measurement; `null` if it is not known.
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

    /// Number of refaults of file and anonymous pages together.
    pub fn pages(&self) -> u64 {
        self.file.saturating_add(self.anon)
    }

    /// Refaults of files per second; 0 if no time has passed.
    pub fn file_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.file as f64 / self.seconds } else { 0.0 }
    }

    /// Refaults of file and anonymous pages together per second; 0 if no time has passed.
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.pages() as f64 / self.seconds } else { 0.0 }
    }
}

/// The youngest generation of a cgroup on a NUMA node, before and after the pages were aged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgedNode {
    /// Path of the cgroup below the hierarchy's root: the requested cgroup or a descendant of it.
    pub group: String,
    /// Number of the NUMA node.
    pub node: u32,
    /// Number of the youngest generation before the aging.
    pub from: u64,
    /// Number of the youngest generation after the aging; `null` if it was not read.
    pub to: Option<u64>,
}

/// One aging of a cgroup, as it is recorded in a file beside the journals. It is recorded twice:
/// before the request to the kernel, without `after`, and afterwards. An aging cannot be undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgingRecord {
    /// Time of the request to the kernel, in seconds since 1970.
    pub unix_seconds: u64,
    /// Id of the boot; `null` if it could not be read.
    pub boot_id: Option<String>,
    /// The path of the requested cgroup.
    pub group: String,
    /// The number of this aging within its run, counted from 1.
    pub round: u32,
    /// The cgroups and NUMA nodes that were aged.
    pub nodes: Vec<AgedNode>,
    /// Refaults measured before this run aged the group for the first time.
    pub before: Refaults,
    /// Refaults measured after this aging; `null` if the run ended before they were counted.
    pub after: Option<Refaults>,
}

/// Why a run of several agings ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgingEnd {
    /// The group was not aged, because it had fewer than 50 file refaults per second before: there
    /// was nothing to improve.
    FewRefaults,
    /// Refaults fell so far that more agings are not needed.
    Fell,
    /// Four agings in a row did not change the refaults, or one aging doubled them: the refaults
    /// have another cause than wrong ages.
    DidNotFall,
    /// The group was aged as often as the user allowed.
    Budget,
    /// The user stopped the run.
    Stopped,
}

/// The result of a run of several agings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Aging {
    /// Path of the requested cgroup below the hierarchy's root.
    pub group: String,
    /// Refaults measured before the first aging.
    pub before: Refaults,
    /// The agings, in order.
    pub rounds: Vec<AgingRecord>,
    /// Why the run ended.
    pub ended: AgingEnd,
}

impl Aging {
    /// Refaults measured after the last aging, if they were counted.
    pub fn after(&self) -> Option<&Refaults> {
        self.rounds.last().and_then(|round| round.after.as_ref())
    }
}

/// What `pagewise age` did; with `--history`, what earlier runs recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct AgingReport {
    /// The agings of this run; `null` with `--history`.
    pub aging: Option<Aging>,
    /// The agings that this and earlier runs recorded, oldest first; empty without `--history`.
    pub history: Vec<AgingRecord>,
    /// Line numbers, from 1, of the lines in the record that were changed after Pagewise wrote
    /// them.
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
        // counters that are lower than before belong to another group of the same name
        assert_eq!(Refaults::between(&at(100, 20), &at(1, 1), 0.0).pages(), 0);
    }
}
