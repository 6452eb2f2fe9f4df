// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a memory cgroup uses, how much of that is idle, and which limit it needs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Limit, Name, Percent, Reading};

/// The method by which idle memory was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleMethod {
    /// Accessed bits were cleared and read again later (`clear_refs`, `smaps`). Only mapped memory
    /// has such bits: page cache that no process maps is not covered.
    AccessedBits,
    /// Multi-gen LRU: the idle memory is the pages in generations that are at least that old.
    /// Reading a file without mapping it does not move its pages to a younger generation.
    Generations,
    /// The idle memory is the page cache on the inactive list. The list is ordered but has no
    /// times, so the idle time is not known.
    InactiveList,
}

/// Memory of a cgroup that was not used for some time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IdleMemory {
    /// The method by which the idle memory was measured.
    pub method: IdleMethod,
    /// Seconds for which the memory was idle at least; `null` if the method gives no times.
    pub seconds: Option<f64>,
    /// Idle anonymous memory and shmem, which can only be swapped out. `null` if the method does
    /// not cover them.
    pub anon: Option<Bytes>,
    /// Idle page cache, which can be dropped.
    pub file: Bytes,
    /// Which memory the method does not cover, in a sentence; empty if it covers all.
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
    /// The confidence as a word: `low`, `medium` or `high`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Whether the memory limit of a cgroup is too low, about right, or could be lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitVerdict {
    /// The group needs more than its limit, which should be raised at least to the suggested size.
    TooLow,
    /// The group needs about as much memory as its limit allows.
    Fits,
    /// The group has no limit, or a limit higher than the suggested size. The suggested size is
    /// enough for what the group uses.
    CouldBe,
    /// The needed limit is not known; one of the reasons says why.
    NotKnown,
}

/// The suggested memory limit of a cgroup, with the reasons and the commands that set it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LimitAdvice {
    /// The verdict on the limit.
    pub verdict: LimitVerdict,
    /// The suggested memory limit; `null` unless the verdict is `too-low` or `could-be`.
    pub size: Option<Bytes>,
    /// How reliable the verdict is; `null` if nothing is known.
    pub confidence: Option<Confidence>,
    /// The reasons in sentences: first the parts that add up to the suggested limit, then what the
    /// confidence is based on.
    pub reasons: Vec<String>,
    /// Commands that set the limit, each with how long it lasts and how to undo it.
    pub commands: Vec<String>,
}

/// One memory cgroup: what it uses, how much of that is idle, and which limit it needs. Usage
/// includes its child groups.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkingSet {
    /// Path of the cgroup below the hierarchy's root, starting with `/`.
    pub group: Name,
    /// Memory that is charged to the group now (`memory.current`).
    pub current: Reading<Bytes>,
    /// Highest `current` since the group was created (`memory.peak`; `memory.max_usage_in_bytes` of
    /// version 1).
    pub peak: Reading<Bytes>,
    /// The smaller of the group's own `memory.high` and `memory.max`.
    pub limit: Reading<Limit>,
    /// How much more memory the group may use before it reaches its limit; `null` if there is no
    /// limit.
    pub headroom: Option<Bytes>,
    /// Memory of the group that is in swap.
    pub swap: Reading<Bytes>,
    /// Refaults of file pages and of swapped pages per second; `null` if the host was read only
    /// once.
    pub refaults_per_second: Option<f64>,
    /// Share of the last minute in which at least one task of the group waited for memory.
    pub waited: Reading<Percent>,
    /// How often the group reached `memory.max` since it was created.
    pub max_events: Reading<u64>,
    /// Processes in the group that were killed for lack of memory since it was created.
    pub oom_kills: Reading<u64>,
    /// Memory of the group that cannot be reclaimed at all, mostly because it is locked
    /// (`unevictable`).
    pub unevictable: Reading<Bytes>,
    /// Memory of the group that was not used for some time; `null` if no counter shows it.
    pub idle: Option<IdleMemory>,
    /// Memory of the group in RAM that was used recently: its memory minus what is idle; `null` if
    /// it is not known.
    pub hot: Option<Bytes>,
    /// Which limit the group needs.
    pub advice: LimitAdvice,
}

/// The memory of one process of the selected cgroup.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProcessUse {
    /// Process id of the process.
    pub pid: u32,
    /// Name of the process's command.
    pub name: Name,
    /// Resident memory of the process; pages that it shares with others count in full.
    pub resident: Option<Bytes>,
    /// Memory of the process that is in swap.
    pub swap: Reading<Bytes>,
    /// Memory that the process locked into RAM (mlock).
    pub locked: Reading<Bytes>,
    /// Memory that the process did not use while it was observed (its proportional share of shared
    /// pages); `null` if it was not observed.
    pub idle: Option<Bytes>,
}

/// The result of `pagewise limits`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LimitSurvey {
    /// The examined cgroups, the largest first.
    pub groups: Vec<WorkingSet>,
    /// Processes of the selected cgroup, the largest first; empty if none was selected.
    pub processes: Vec<ProcessUse>,
    /// Cgroups that were left out because there are more than Pagewise reads at once.
    pub left_out: u64,
    /// Why the idle times of pages are not known: a reason for each method that did not work.
    pub unknown: Vec<String>,
    /// The cost of observing processes; `null` if no accessed bits were cleared.
    pub watched: Option<WatchCost>,
}

/// The cost of clearing accessed bits of processes and reading them again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct WatchCost {
    /// Processes whose accessed bits were cleared and read.
    pub processes: u64,
    /// Processes that exited meanwhile, that we may not read, or that were left out because of a
    /// limit.
    pub not_read: u64,
    /// Seconds between clearing the bits and reading them.
    pub seconds: f64,
    /// Seconds that this program spent in the system calls that clear and read the bits.
    pub own_seconds: f64,
    /// Sum of the proportional sizes of the processes whose bits were read.
    pub looked_at: Bytes,
}

/// Processes whose accessed bits were cleared and read again later.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchedMemory {
    /// The cost of clearing and reading the accessed bits.
    pub cost: WatchCost,
    /// The idle memory of every process whose bits were read.
    pub processes: Vec<WatchedProcess>,
    /// Highest amount of anonymous memory of the group in RAM during the observation, read once a
    /// second; `None` if the group's counters could not be read.
    pub anon_peak: Option<Bytes>,
}

/// Memory that a process did not use since its accessed bits were cleared. All sizes are
/// proportional: each shared page is divided by the number of its users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchedProcess {
    /// Process id of the process.
    pub pid: u32,
    /// Memory in RAM that the process has mapped.
    pub looked_at: Bytes,
    /// Anonymous memory and shmem that the process did not use.
    pub idle_anon: Bytes,
    /// Mapped page cache that the process did not use.
    pub idle_file: Bytes,
}
