// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a memory cgroup uses, what of it was idle, and which limit it needs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Limit, Name, Percent, Reading};

/// How idle memory was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleMethod {
    /// Accessed bits were cleared, and read again after a while (`clear_refs`, `smaps`): memory that
    /// processes map. File cache that nobody maps has no such bits.
    AccessedBits,
    /// Multi-gen LRU: generations of the group's pages that are so old. A file that is read without a
    /// mapping does not get younger by that.
    Generations,
    /// File cache on the inactive list. The list has an order but no times: no idle time is known.
    InactiveList,
}

/// Memory of a cgroup that nobody used for a while.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IdleMemory {
    /// How it was found.
    pub method: IdleMethod,
    /// It was not used for at least so many seconds; `null` if the method knows no times.
    pub seconds: Option<f64>,
    /// Anonymous memory and shmem: it can only be swapped out. `null` if the method knows nothing of it.
    pub anon: Option<Bytes>,
    /// File cache: it can be dropped.
    pub file: Bytes,
    /// The method left something out, in a sentence; empty if it did not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub left_out: String,
}

/// How well a suggested limit is founded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// No idle times are known, or what was seen does not stand for normal use.
    Low,
    /// Idle times are known over half a minute or more.
    Medium,
    /// Idle times are known over ten minutes or more, and so is the peak.
    High,
}

impl Confidence {
    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What is said of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitVerdict {
    /// The group needs more than its limit: raise it at least to the size.
    TooLow,
    /// The group needs about its limit.
    Fits,
    /// A limit of the size would leave the group what it uses.
    CouldBe,
    /// Nothing can be said; a reason says why.
    NotKnown,
}

/// Which limit a cgroup needs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LimitAdvice {
    /// What is said of the limit.
    pub verdict: LimitVerdict,
    /// The suggested limit; `null` unless the verdict is that it is too low, or could be so much.
    pub size: Option<Bytes>,
    /// How well the verdict is founded; `null` if nothing is known.
    pub confidence: Option<Confidence>,
    /// Why, in sentences: what the size is made of first, then what the confidence follows from.
    pub reasons: Vec<String>,
    /// Commands that set the limit, each with how long it lasts and how it is undone.
    pub commands: Vec<String>,
}

/// One memory cgroup: what it uses, what of it is idle, and which limit it needs. Usage includes the groups
/// below it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkingSet {
    /// Path below the hierarchy's root, starting with `/`.
    pub group: Name,
    /// Memory charged to it now (`memory.current`).
    pub current: Reading<Bytes>,
    /// The most it was charged since it was created (`memory.peak`; `memory.max_usage_in_bytes` of version 1).
    pub peak: Reading<Bytes>,
    /// The smaller one of its own `memory.high` and `memory.max`.
    pub limit: Reading<Limit>,
    /// What is left under the limit; `null` without one.
    pub headroom: Option<Bytes>,
    /// Its memory in swap.
    pub swap: Reading<Bytes>,
    /// Pages that were read again, of files and from swap, per second; `null` if the host was read once.
    pub refaults_per_second: Option<f64>,
    /// Share of the last minute in which one of its tasks waited for memory.
    pub waited: Reading<Percent>,
    /// How often it reached `memory.max` since it was created.
    pub max_events: Reading<u64>,
    /// Processes in it that were killed for lack of memory since it was created.
    pub oom_kills: Reading<u64>,
    /// Memory that cannot be reclaimed at all, mostly because it is locked (`unevictable`).
    pub unevictable: Reading<Bytes>,
    /// What nobody used for a while; `null` if no counter says it.
    pub idle: Option<IdleMemory>,
    /// What it used lately, in RAM: its memory without what is idle; `null` if it is not known.
    pub hot: Option<Bytes>,
    /// Which limit it needs.
    pub advice: LimitAdvice,
}

/// A process of a selected cgroup.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProcessUse {
    /// Process id.
    pub pid: u32,
    /// The command's name.
    pub name: Name,
    /// Resident memory, shared pages in full.
    pub resident: Option<Bytes>,
    /// Memory in swap.
    pub swap: Reading<Bytes>,
    /// Memory that is locked into RAM.
    pub locked: Reading<Bytes>,
    /// Its share of what it did not use over the time that was watched; `null` if nobody watched it.
    pub idle: Option<Bytes>,
}

/// What `pagewise limits` says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LimitSurvey {
    /// Cgroups, the largest first.
    pub groups: Vec<WorkingSet>,
    /// Processes of the selected cgroup, the largest first; empty if none was selected.
    pub processes: Vec<ProcessUse>,
    /// Cgroups that were left out because there were more than are read at one time.
    pub left_out: u64,
    /// Why idle times of pages are not known, for each way to find them.
    pub unknown: Vec<String>,
    /// What watching cost; `null` if no accessed bits were cleared.
    pub watched: Option<WatchCost>,
}

/// What clearing accessed bits and reading them again cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct WatchCost {
    /// Processes whose accessed bits were cleared and read.
    pub processes: u64,
    /// Processes that ended meanwhile, were refused, or were left out by a limit.
    pub not_read: u64,
    /// Seconds between clearing and reading.
    pub seconds: f64,
    /// Seconds that the calls took that clear and read the bits.
    pub own_seconds: f64,
    /// Memory of these processes, in proportional shares.
    pub looked_at: Bytes,
}

/// Accessed bits of processes that were cleared, and read again after a while.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchedMemory {
    /// What it cost.
    pub cost: WatchCost,
    /// Every process that was read.
    pub processes: Vec<WatchedProcess>,
    /// The most anonymous memory that the group had in RAM meanwhile, read once a second; `None` if its
    /// counters could not be read.
    pub anon_peak: Option<Bytes>,
}

/// What a process did not use since its accessed bits were cleared, in proportional shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchedProcess {
    /// Process id.
    pub pid: u32,
    /// Memory that it maps and that is in RAM.
    pub looked_at: Bytes,
    /// Anonymous memory and shmem that it did not use.
    pub idle_anon: Bytes,
    /// File cache that it maps and did not use.
    pub idle_file: Bytes,
}
