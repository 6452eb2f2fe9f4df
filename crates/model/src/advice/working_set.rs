// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a memory cgroup uses, how much of that is idle, and which limit it needs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Limit, Name, Percent, Reading};

/// How idle memory was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleMethod {
    /// Accessed bits were cleared and read again later (`clear_refs`, `smaps`). Only mapped memory
    /// has such bits: page cache that no process maps is not covered.
    AccessedBits,
    /// Multi-gen LRU: generations of the group's pages that are at least that old. Reading a file
    /// without mapping it does not move its pages to a younger generation.
    Generations,
    /// Page cache on the inactive list. The list is ordered but has no times, so the idle time is
    /// not known.
    InactiveList,
}

/// Memory of a cgroup that was not used for some time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IdleMemory {
    /// How it was found.
    pub method: IdleMethod,
    /// Seconds for which it was at least idle; `null` if the method gives no times.
    pub seconds: Option<f64>,
    /// Anonymous memory and shmem: it can only be swapped out. `null` if the method does not cover
    /// it.
    pub anon: Option<Bytes>,
    /// Page cache: it can be dropped.
    pub file: Bytes,
    /// What the method does not cover, in a sentence; empty if it covers all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub left_out: String,
}

/// How reliable a suggested limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Idle times are not known, or the observed time is not representative of normal use.
    Low,
    /// Idle times of half a minute or more are known.
    Medium,
    /// Idle times of ten minutes or more are known, and so is the peak.
    High,
}

impl Confidence {
    /// The level in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The verdict on a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitVerdict {
    /// The group needs more than its limit: raise it at least to the size.
    TooLow,
    /// The group needs about its limit.
    Fits,
    /// The group has no limit, or a higher one: the suggested size would leave it what it uses.
    CouldBe,
    /// Unknown; a reason says why.
    NotKnown,
}

/// Which limit a cgroup needs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LimitAdvice {
    /// The verdict on the limit.
    pub verdict: LimitVerdict,
    /// The suggested limit; `null` unless the verdict is `too-low` or `could-be`.
    pub size: Option<Bytes>,
    /// How reliable the verdict is; `null` if nothing is known.
    pub confidence: Option<Confidence>,
    /// The reasons in sentences: first what the size consists of, then what the confidence follows
    /// from.
    pub reasons: Vec<String>,
    /// Commands that set the limit, each with how long it lasts and how to undo it.
    pub commands: Vec<String>,
}

/// One memory cgroup: what it uses, how much of that is idle, and which limit it needs. Usage
/// includes its child groups.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkingSet {
    /// Path below the hierarchy's root, starting with `/`.
    pub group: Name,
    /// Memory charged to it now (`memory.current`).
    pub current: Reading<Bytes>,
    /// Highest `current` since it was created (`memory.peak`; `memory.max_usage_in_bytes` of
    /// version 1).
    pub peak: Reading<Bytes>,
    /// The smaller of its own `memory.high` and `memory.max`.
    pub limit: Reading<Limit>,
    /// What is left below the limit; `null` if there is no limit.
    pub headroom: Option<Bytes>,
    /// Its memory in swap.
    pub swap: Reading<Bytes>,
    /// Refaults of file pages and of swapped pages per second; `null` if the host was read only
    /// once.
    pub refaults_per_second: Option<f64>,
    /// Share of the last minute in which at least one of its tasks waited for memory.
    pub waited: Reading<Percent>,
    /// How often it reached `memory.max` since it was created.
    pub max_events: Reading<u64>,
    /// Processes in it that were killed for lack of memory since it was created.
    pub oom_kills: Reading<u64>,
    /// Memory that cannot be reclaimed at all, mostly because it is locked (`unevictable`).
    pub unevictable: Reading<Bytes>,
    /// Memory that was not used for some time; `null` if no counter shows it.
    pub idle: Option<IdleMemory>,
    /// Memory in RAM that was used recently: its memory minus what is idle; `null` if it is not
    /// known.
    pub hot: Option<Bytes>,
    /// Which limit it needs.
    pub advice: LimitAdvice,
}

/// A process of the selected cgroup.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProcessUse {
    /// Process id.
    pub pid: u32,
    /// The command's name.
    pub name: Name,
    /// Resident memory; shared pages count in full.
    pub resident: Option<Bytes>,
    /// Memory in swap.
    pub swap: Reading<Bytes>,
    /// Memory that is locked into RAM (mlock).
    pub locked: Reading<Bytes>,
    /// Proportional share of its memory that it did not use while it was observed; `null` if it was
    /// not observed.
    pub idle: Option<Bytes>,
}

/// The result of `pagewise limits`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LimitSurvey {
    /// Cgroups, the largest first.
    pub groups: Vec<WorkingSet>,
    /// Processes of the selected cgroup, the largest first; empty if none was selected.
    pub processes: Vec<ProcessUse>,
    /// Cgroups that were left out because there are more than Pagewise reads at once.
    pub left_out: u64,
    /// Why idle times of pages are not known, for each method.
    pub unknown: Vec<String>,
    /// The cost of observing processes; `null` if no accessed bits were cleared.
    pub watched: Option<WatchCost>,
}

/// The cost of clearing accessed bits and reading them again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct WatchCost {
    /// Processes whose accessed bits were cleared and read.
    pub processes: u64,
    /// Processes that exited meanwhile, that we may not read, or that were left out because of a
    /// limit.
    pub not_read: u64,
    /// Seconds between clearing and reading.
    pub seconds: f64,
    /// Seconds spent in the calls that clear and read the bits.
    pub own_seconds: f64,
    /// Proportional size of these processes.
    pub looked_at: Bytes,
}

/// Processes whose accessed bits were cleared and read again later.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchedMemory {
    /// The cost.
    pub cost: WatchCost,
    /// Every process that was read.
    pub processes: Vec<WatchedProcess>,
    /// Highest amount of anonymous memory of the group in RAM meanwhile, read once a second; `None`
    /// if its counters could not be read.
    pub anon_peak: Option<Bytes>,
}

/// Memory that a process did not use since its accessed bits were cleared. Sizes are proportional.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchedProcess {
    /// Process id.
    pub pid: u32,
    /// Mapped memory in RAM.
    pub looked_at: Bytes,
    /// Anonymous memory and shmem that it did not use.
    pub idle_anon: Bytes,
    /// Mapped page cache that it did not use.
    pub idle_file: Bytes,
}
