// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of collapsing other processes' memory into huge pages: what was done, what was skipped,
//! and the cost.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name};

/// One collapse, over one process or all processes of a cgroup.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Collapse {
    /// The processes whose memory was considered.
    pub processes: Vec<CollapsedProcess>,
    /// How the memory that the budget limits is measured.
    pub measure: BudgetMeasure,
    /// Memory in that measure before the collapse.
    pub memory_before: Bytes,
    /// The budget: memory must not exceed this.
    pub memory_limit: Bytes,
    /// Memory after the collapse.
    pub memory_after: Bytes,
    /// Largest memory measured during the collapse.
    pub memory_peak: Bytes,
    /// Memory that the collapses themselves added, counted page by page.
    pub growth: Bytes,
    /// Before the collapse: anonymous memory in huge pages, and all anonymous memory.
    pub huge_before: Bytes,
    #[expect(missing_docs, reason = "the memory that huge_before is a part of")]
    pub anon_before: Bytes,
    /// The same after the collapse.
    pub huge_after: Bytes,
    #[expect(missing_docs, reason = "the memory that huge_after is a part of")]
    pub anon_after: Bytes,
    /// Blocks that were collapsed; a block that was collapsed twice counts twice.
    pub collapsed: u64,
    /// Blocks that were skipped in the last pass, by reason.
    pub left_alone: LeftAlone,
    /// Calls that the kernel refused, in all passes.
    pub failed: Failed,
    /// CPU time of the whole run, examining memory included.
    pub cpu_seconds: f64,
    /// Elapsed time of the whole run.
    pub wall_seconds: f64,
    /// Passes that found something to do; more than one only if it kept watching.
    pub passes: u64,
    /// Whether nothing was changed (`--dry-run`).
    pub dry_run: bool,
    /// Blocks that would be collapsed, if nothing was changed.
    pub would_collapse: u64,
    /// Why it ended early.
    pub stopped: Option<String>,
    /// What was found out about access, if blocks were chosen by access.
    pub by_access: Option<ByAccess>,
    /// The containers and units that had opted in, if it was done for them. The other fields are
    /// then sums over them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitCollapse>,
}

/// What was done in one container or unit, within a budget of its own.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct UnitCollapse {
    /// Container or unit, such as `docker 5f3c1d0e77aa` or `redis.service`.
    pub unit: String,
    /// The path of its memory cgroup.
    pub cgroup: String,
    /// The result.
    pub collapse: Collapse,
}

impl Collapse {
    /// Adds a later pass over the same memory. Its growth already includes that of earlier passes.
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

    /// Sums over units. The budgets remain those of each unit.
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

/// Which memory was in use, as found in the first pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ByAccess {
    /// Blocks that qualified for a collapse.
    pub blocks: u64,
    /// Of these, the blocks that were seen in use; they were collapsed first.
    pub used: u64,
    /// Why access is not known. The fullest blocks were then collapsed first.
    pub unknown: Option<String>,
}

/// A process that was considered.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CollapsedProcess {
    /// Process id.
    pub pid: u32,
    /// The command's name.
    pub name: Name,
    /// Why the process was left out.
    pub left_out: Option<String>,
}

/// How the memory that a budget limits is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetMeasure {
    /// Proportional size of the processes (`Pss` of smaps_rollup).
    #[default]
    ProportionalSize,
    /// Memory charged to the cgroup.
    CgroupCharge,
}

/// Numbers of blocks that hold memory and were not collapsed, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftAlone {
    /// Another process maps some page: a collapse would copy it.
    pub shared: u64,
    /// Less than half of the pages are present.
    pub sparse: u64,
    /// Some page is in swap.
    pub swapped: u64,
    /// The budget had no room for the missing pages.
    pub over_budget: u64,
    /// Huge pages are disabled for this memory, by the program or by a setting of the kernel.
    pub refused: u64,
    /// The run ended before it got to them.
    pub not_reached: u64,
    /// They changed between being examined and the call, so that none of the other reasons applies.
    pub changed: u64,
}

impl LeftAlone {
    /// The sum of both.
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

    /// The sum of all reasons.
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

/// Collapses that the kernel refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failed {
    /// There was no free huge page, or none could be charged.
    pub no_memory: u64,
    /// A page was in use at that moment.
    pub busy: u64,
}

/// Huge pages that are mostly zeros, and whether they were split.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Restrain {
    /// The processes whose memory was examined.
    pub processes: Vec<CollapsedProcess>,
    /// Huge pages that were examined.
    pub huge_pages: u64,
    /// Of these, the ones of whose examined pages more than half are all zeros.
    pub bloated: u64,
    /// Memory that holds only zeros, in all examined huge pages.
    pub zeros: Bytes,
    /// Of this, in the huge pages counted in `bloated`.
    pub zeros_in_bloated: Bytes,
    /// How many were split; `null` if splitting was not requested.
    pub split: Option<u64>,
    /// Proportional size of the processes before splitting.
    pub memory_before: Option<Bytes>,
    /// The same after splitting.
    pub memory_after: Option<Bytes>,
    /// Why not all huge pages were examined.
    pub partial: Option<String>,
}
