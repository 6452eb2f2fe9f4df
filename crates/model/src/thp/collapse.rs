// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a collapse from outside did: made, left alone, and at which price.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name};

/// One collapse, of one process or of all in a cgroup.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Collapse {
    /// Whose memory.
    pub processes: Vec<CollapsedProcess>,
    /// What the budget was counted on.
    pub measure: BudgetMeasure,
    /// That measure before anything was done.
    pub memory_before: Bytes,
    /// The most that it may become.
    pub memory_limit: Bytes,
    /// Afterwards.
    pub memory_after: Bytes,
    /// The most that was measured in between.
    pub memory_peak: Bytes,
    /// What the collapses themselves added, counted page by page.
    pub growth: Bytes,
    /// Anonymous memory in huge pages: before, and of how much.
    pub huge_before: Bytes,
    #[expect(missing_docs, reason = "the memory that huge_before is a part of")]
    pub anon_before: Bytes,
    /// The same afterwards.
    pub huge_after: Bytes,
    #[expect(missing_docs, reason = "the memory that huge_after is a part of")]
    pub anon_after: Bytes,
    /// Blocks that were collapsed, each time that they were.
    pub collapsed: u64,
    /// Blocks that were not, and why: those of the last pass.
    pub left_alone: LeftAlone,
    /// What the kernel refused, all passes together.
    pub failed: Failed,
    /// Processor time that it took, looking included.
    pub cpu_seconds: f64,
    /// Time from begin to end.
    pub wall_seconds: f64,
    /// Passes with something to do; more than one only where it went on watching.
    pub passes: u64,
    /// Nothing was done: only looked.
    pub dry_run: bool,
    /// What it would do, where nothing was done.
    pub would_collapse: u64,
    /// Why it ended before all was done.
    pub stopped: Option<String>,
    /// What was found out about access, where that was asked for.
    pub by_access: Option<ByAccess>,
    /// The containers and units that had asked for it, where it was done for them; then the other values are their
    /// sums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitCollapse>,
}

/// What was done in one container or unit, within its own budget.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct UnitCollapse {
    /// As `docker 5f3c1d0e77aa` or `redis.service`.
    pub unit: String,
    /// The path of its memory cgroup.
    pub cgroup: String,
    /// What was done.
    pub collapse: Collapse,
}

impl Collapse {
    /// Takes in a later pass over the same memory, whose growth includes what came before.
    pub fn follow(&mut self, pass: Self) {
        let earlier = std::mem::replace(self, pass);
        if self.anon_after == Bytes::new(0) {
            (self.huge_after, self.anon_after) = (earlier.huge_after, earlier.anon_after);
        }
        (self.huge_before, self.anon_before) = (earlier.huge_before, earlier.anon_before);
        self.memory_before = earlier.memory_before;
        self.memory_peak = self.memory_peak.max(earlier.memory_peak);
        self.count_in(&earlier);
    }

    /// The sums over units; the budgets stay theirs.
    pub fn sum(units: Vec<UnitCollapse>) -> Self {
        let mut all = Self::default();
        for UnitCollapse { collapse: one, .. } in &units {
            all.processes.extend(one.processes.iter().cloned());
            all.memory_before += one.memory_before;
            all.memory_limit += one.memory_limit;
            all.memory_after += one.memory_after;
            all.memory_peak += one.memory_peak;
            all.growth += one.growth;
            all.huge_before += one.huge_before;
            all.anon_before += one.anon_before;
            all.huge_after += one.huge_after;
            all.anon_after += one.anon_after;
            all.would_collapse += one.would_collapse;
            all.dry_run |= one.dry_run;
            all.left_alone = all.left_alone.plus(one.left_alone);
            all.count_in(one);
        }
        Self { units, ..all }
    }

    fn count_in(&mut self, other: &Self) {
        self.collapsed += other.collapsed;
        self.passes += other.passes;
        self.failed.no_memory += other.failed.no_memory;
        self.failed.busy += other.failed.busy;
        self.cpu_seconds += other.cpu_seconds;
        self.wall_seconds += other.wall_seconds;
    }
}

/// Which memory was in use, in the first pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ByAccess {
    /// Blocks worth a collapse.
    pub blocks: u64,
    /// Those of them that were seen in use, with which it began.
    pub used: u64,
    /// Why nothing is known, where that is so: then the fullest blocks came first.
    pub unknown: Option<String>,
}

/// A process among those.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CollapsedProcess {
    /// Process id.
    pub pid: u32,
    /// The command's name.
    pub name: Name,
    /// Why it was left out.
    pub left_out: Option<String>,
}

/// What a budget is counted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetMeasure {
    /// Proportional size of the processes (`Pss` of smaps_rollup).
    #[default]
    ProportionalSize,
    /// What the cgroup is charged for.
    CgroupCharge,
}

/// Blocks that hold memory and were not collapsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftAlone {
    /// Some page is mapped by another process too: collapsing would copy it.
    pub shared: u64,
    /// Less than half of the pages are there.
    pub sparse: u64,
    /// Some page is in swap.
    pub swapped: u64,
    /// The budget had no room for the pages that are missing.
    pub over_budget: u64,
    /// The program, or the kernel for this mapping, does not want huge pages.
    pub refused: u64,
    /// It was stopped before their turn.
    pub not_reached: u64,
    /// They changed between look and call, so that they fit none of the above any more.
    pub changed: u64,
}

impl LeftAlone {
    /// Both together.
    fn plus(self, other: Self) -> Self {
        Self {
            shared: self.shared + other.shared,
            sparse: self.sparse + other.sparse,
            swapped: self.swapped + other.swapped,
            over_budget: self.over_budget + other.over_budget,
            refused: self.refused + other.refused,
            not_reached: self.not_reached + other.not_reached,
            changed: self.changed + other.changed,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.shared
            + self.sparse
            + self.swapped
            + self.over_budget
            + self.refused
            + self.not_reached
            + self.changed
    }
}

/// Calls that the kernel refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failed {
    /// There was no free huge page, or none could be charged.
    pub no_memory: u64,
    /// Some page was in use just then.
    pub busy: u64,
}

/// Huge pages that are mostly empty, and what became of them.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Restrain {
    /// Whose memory.
    pub processes: Vec<CollapsedProcess>,
    /// Huge pages of which pages were looked at.
    pub huge_pages: u64,
    /// Of those, with more than half of what was seen all zeros.
    pub bloated: u64,
    /// What holds only zeros, in all of them.
    pub zeros: Bytes,
    /// Of that, in those that are bloated.
    pub zeros_in_bloated: Bytes,
    /// How many were split; absent where nothing was to be split.
    pub split: Option<u64>,
    /// Proportional size of the processes before splitting.
    pub memory_before: Option<Bytes>,
    /// The same after it.
    pub memory_after: Option<Bytes>,
    /// Why not everything was looked at.
    pub partial: Option<String>,
}
