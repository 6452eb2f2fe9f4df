// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of collapsing other processes' memory into huge pages: what was done, what was skipped,
//! and the cost.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name};

/// The result of one run that collapses memory of a process, or of all processes of a cgroup.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Collapse {
    /// The processes whose memory was considered.
    pub processes: Vec<CollapsedProcess>,
    /// How the memory that the budget limits is measured.
    pub measure: BudgetMeasure,
    /// Memory before the collapse, measured as `measure` says.
    pub memory_before: Bytes,
    /// The budget: the largest memory that the collapse may lead to, measured the same way.
    pub memory_limit: Bytes,
    /// Memory after the collapse, measured the same way.
    pub memory_after: Bytes,
    /// Largest memory that was measured during the collapse.
    pub memory_peak: Bytes,
    /// Memory that the collapses themselves added, counted page by page.
    pub growth: Bytes,
    /// Anonymous memory in huge pages before the collapse.
    pub huge_before: Bytes,
    #[expect(missing_docs, reason = "the memory that huge_before is a part of")]
    pub anon_before: Bytes,
    /// Anonymous memory in huge pages after the collapse.
    pub huge_after: Bytes,
    #[expect(missing_docs, reason = "the memory that huge_after is a part of")]
    pub anon_after: Bytes,
    /// Number of blocks that were collapsed; a block that was collapsed twice counts twice.
    pub collapsed: u64,
    /// Number of blocks that were skipped in the last pass, by reason.
    pub left_alone: LeftAlone,
    /// Number of calls that the kernel refused, in all passes.
    pub failed: Failed,
    /// CPU time of the whole run in seconds, examining memory included.
    pub cpu_seconds: f64,
    /// Elapsed time of the whole run in seconds.
    pub wall_seconds: f64,
    /// Number of passes that found something to collapse. There is more than one pass only if
    /// Pagewise continued to watch the processes.
    pub passes: u64,
    /// Whether the run changed nothing (`--dry-run`).
    pub dry_run: bool,
    /// Number of blocks that would be collapsed, if the run changed nothing.
    pub would_collapse: u64,
    /// Why the run ended early; missing if it did not.
    pub stopped: Option<String>,
    /// Whether access to the memory is known and how many blocks were in use, if blocks were chosen
    /// by access.
    pub by_access: Option<ByAccess>,
    /// Results for each container and unit that had opted in, if the run was for such units; the
    /// other fields are then sums over these. Otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitCollapse>,
}

/// The result of collapsing memory in one container or unit, within a budget of its own.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct UnitCollapse {
    /// The container or unit, such as `docker 5f3c1d0e77aa` or `redis.service`.
    pub unit: String,
    /// Path of the memory cgroup of the container or unit.
    pub cgroup: String,
    /// The result for this container or unit.
    pub collapse: Collapse,
}

impl Collapse {
    /// Adds the result of a later pass over the same memory. The growth of the later pass already
    /// includes that of earlier passes.
    pub fn add_later_pass(&mut self, pass: Self) {
        let earlier = std::mem::replace(self, pass);
        if self.anon_after == Bytes::new(0) {
            (self.huge_after, self.anon_after) = (earlier.huge_after, earlier.anon_after);
        }
        (self.huge_before, self.anon_before) = (earlier.huge_before, earlier.anon_before);
        self.memory_before = earlier.memory_before;
        self.memory_peak = self.memory_peak.max(earlier.memory_peak);
        self.add_counts(&earlier);
    }

    /// Sums the results over units. The budgets remain those of each unit.
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
            all.add_counts(one);
        }
        Self { units, ..all }
    }

    fn add_counts(&mut self, other: &Self) {
        self.collapsed += other.collapsed;
        self.passes += other.passes;
        self.failed.no_memory += other.failed.no_memory;
        self.failed.busy += other.failed.busy;
        self.cpu_seconds += other.cpu_seconds;
        self.wall_seconds += other.wall_seconds;
    }
}

/// How many blocks of memory were in use, as found in the first pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ByAccess {
    /// Number of blocks that qualified for a collapse.
    pub blocks: u64,
    /// How many of these blocks were found in use; they were collapsed first.
    pub used: u64,
    /// Why it is not known which blocks were in use; missing if it is known. In this case the
    /// fullest blocks were collapsed first.
    pub unknown: Option<String>,
}

/// A process whose memory was considered for a collapse.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CollapsedProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the process's command.
    pub name: Name,
    /// Why the process was left out; missing if it was not.
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
    /// Another process maps some page of the block: a collapse would copy it.
    pub shared: u64,
    /// Less than half of the block's pages are present.
    pub sparse: u64,
    /// Some page of the block is in swap.
    pub swapped: u64,
    /// The budget had no room for the missing pages of the block.
    pub over_budget: u64,
    /// Huge pages are disabled for the block, by the program or by a setting of the kernel.
    pub refused: u64,
    /// The run ended before the block was considered.
    pub not_reached: u64,
    /// The block changed between the examination and the system call, so that none of the other
    /// reasons applies.
    pub changed: u64,
}

impl LeftAlone {
    /// Adds the numbers of `other` to these, reason by reason.
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

    /// Sum over all reasons.
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

/// Numbers of collapses that the kernel refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failed {
    /// There was no free huge page, or none could be charged to the cgroup.
    pub no_memory: u64,
    /// A page of the block was in use when the kernel was called.
    pub busy: u64,
}

/// Number of huge pages that are mostly zeros, and whether they were split.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Restrain {
    /// The processes whose memory was examined.
    pub processes: Vec<CollapsedProcess>,
    /// Number of huge pages that were examined.
    pub huge_pages: u64,
    /// How many of these are mostly zeros: more than half of their examined pages hold only zeros.
    pub bloated: u64,
    /// Memory that holds only zeros, in all examined huge pages together.
    pub zeros: Bytes,
    /// How much of this memory is in the huge pages counted in `bloated`.
    pub zeros_in_bloated: Bytes,
    /// How many huge pages were split; `null` if splitting was not requested.
    pub split: Option<u64>,
    /// Sum of the proportional sizes of the processes before splitting.
    pub memory_before: Option<Bytes>,
    /// Sum of the proportional sizes of the processes after splitting.
    pub memory_after: Option<Bytes>,
    /// Why not all huge pages were examined; missing if all were.
    pub partial: Option<String>,
}
