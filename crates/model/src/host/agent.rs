// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `pagewise agent` does on this machine: it keeps this in a file in `/run` while it runs, for
//! `pagewise agent status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// A loop of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentLoop {
    /// Ages the pages of a cgroup whose files refault much.
    Aging,
    /// Takes unused memory of a cgroup.
    Reclaim,
    /// Collapses memory of a cgroup into huge pages.
    Hugepages,
    /// Recompresses unused pages of a zram device, and writes them to its backing device.
    Zram,
    /// Switches kernel same-page merging on while it pays.
    Ksm,
}

impl AgentLoop {
    /// The loops that can be switched on and off to find out whether they pay. What KSM has merged
    /// stays merged when it is switched off, so blocks without it would show nothing.
    pub const PROVED: [Self; 4] = [Self::Aging, Self::Reclaim, Self::Hugepages, Self::Zram];

    /// Its name, which is also that of its section in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aging => "aging",
            Self::Reclaim => "reclaim",
            Self::Hugepages => "hugepages",
            Self::Zram => "zram",
            Self::Ksm => "ksm",
        }
    }
}

/// Something for which a loop is switched on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTarget {
    /// The loop.
    #[serde(rename = "loop")]
    pub loop_: AgentLoop,
    /// What it is switched on for: the path of a cgroup, the name of a zram device, or `ksm`.
    pub target: String,
    /// What the loop does about it now, and why, as a sentence for people.
    pub state: String,
    /// What the loop has done and may do.
    #[serde(flatten)]
    pub limit: AgentLimit,
}

/// A limit on what a loop does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentLimit {
    /// A number of actions in an hour.
    Actions {
        /// How many actions were done in the last hour.
        actions_in_hour: u32,
        /// How many are allowed in an hour.
        actions_per_hour: u32,
    },
    /// Bytes written to flash in a day of Unix time.
    Flash {
        /// Bytes that were written today, whoever asked for it.
        flash_bytes_today: Bytes,
        /// Bytes that may be written in a day.
        flash_bytes_per_day: Bytes,
    },
    /// What kernel same-page merging saves and costs.
    Merging {
        /// Bytes that it saves, those of its own records subtracted; negative if it costs more than it saves, `null`
        /// if it is off or that is not known.
        profit_bytes: Option<i64>,
        /// The share of a CPU that its thread used between the last two readings, in percent; `null` if it is not
        /// known.
        cpu_percent: Option<f64>,
        /// The share that it may use, in percent.
        cpu_percent_limit: f64,
    },
    /// Memory in huge pages, and by how much collapses made the cgroup grow.
    Growth {
        /// Bytes that collapses have added to the cgroup, since the agent or its programs were started.
        growth_bytes: Bytes,
        /// Bytes that they may add.
        growth_limit_bytes: Bytes,
        /// Anonymous memory of the cgroup that is in huge pages.
        huge_bytes: Bytes,
        /// All of its anonymous memory.
        anon_bytes: Bytes,
    },
    /// Memory that was taken from a cgroup, and what of it is in swap.
    Reclaimed {
        /// Bytes by which the cgroup became smaller, since the agent was started.
        reclaimed_bytes: Bytes,
        /// Memory of the cgroup that is in swap now, whoever moved it there.
        swapped_bytes: Bytes,
        /// RAM that the compressed copies of it use now, which no cgroup is charged for; `null` if that is
        /// not known, or if zswap charges it to the cgroup.
        uncharged_bytes: Option<Bytes>,
        /// What the cgroup keeps at least, as far as that is known.
        floor_bytes: Bytes,
    },
}

/// The kind of memory that the kernel is asked to reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimKind {
    /// The kernel chooses.
    Any,
    /// Only anonymous memory.
    Anon,
    /// Only page cache.
    File,
}

/// What is known about whether a loop pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProofVerdict {
    /// The work is better with the loop, or less memory is held at a cost that is too small to count.
    Pays,
    /// The work is worse with the loop.
    Harms,
    /// Neither the work nor the memory held is better by as much as would count.
    DoesNotPay,
    /// It is not known yet.
    NotShownYet,
}

/// A number with and without a loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofEffect {
    /// The median of the blocks with the loop.
    pub with_loop: f64,
    /// The median of the blocks without the loop.
    pub without_loop: f64,
    /// The number with the loop, divided by the number without it, from blocks at the same time of day.
    pub ratio: f64,
    /// The interval of `ratio`; `null` if there are too few pairs of blocks.
    pub interval: Option<[f64; 2]>,
}

/// A loop that is switched on and off by plan, and what that has shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentProof {
    /// The loop.
    #[serde(rename = "loop")]
    pub loop_: AgentLoop,
    /// What is compared as the work of the cgroup, in words.
    pub measured: String,
    /// Whether more of it is better.
    pub is_more_better: bool,
    /// Whether the loop may act now.
    pub is_on: bool,
    /// Until when that is so, in seconds of Unix time.
    pub until_unix_seconds: u64,
    /// When the loop was switched off because it harms, in seconds of Unix time; `null` if it was not.
    pub stopped_unix_seconds: Option<u64>,
    /// Why nothing is measured now; `null` if something is.
    pub trouble: Option<String>,
    /// What is known. It is computed after each month of 30 days; large harm is found after 10 or 20 days.
    pub verdict: ProofVerdict,
    /// If it is not shown yet: how many more days are probably needed; `null` if a year is not enough.
    pub more_days: Option<u64>,
    /// Number of blocks that were measured and are kept.
    pub blocks: u64,
    /// Number of days that were judged; 0 before the first month has ended.
    pub days: u64,
    /// Number of pairs of blocks, one with and one without the loop, that were compared.
    pub pairs: u64,
    /// The share of experiments in which each interval contains the true ratio.
    pub confidence: f64,
    /// The work; `null` before the first month has ended.
    pub work: Option<ProofEffect>,
    /// Refaults of the cgroup per second.
    pub refaults_per_second: Option<ProofEffect>,
    /// Memory that the cgroup holds, with the RAM that its pages in zram take, in bytes.
    pub memory_bytes: Option<ProofEffect>,
}

/// A decision of a loop, or of the agent itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDecision {
    /// When, in seconds of Unix time.
    pub unix_seconds: u64,
    /// What it is about: the path of a cgroup or the name of a zram device; `null` for the agent itself.
    pub target: Option<String>,
    /// What was decided and why, as a sentence for people.
    pub text: String,
}

/// The state of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStatus {
    /// Process ID of the agent.
    pub pid: u32,
    /// When it was started, in seconds of Unix time.
    pub started_unix_seconds: u64,
    /// When this was written, in seconds of Unix time.
    pub written_unix_seconds: u64,
    /// The configuration files that are in force, the first one first.
    pub configuration: Vec<String>,
    /// Why the configuration that was read last is not in force; `null` if it is.
    pub refused_configuration: Option<String>,
    /// CPU seconds that the agent has used since it was started.
    pub cpu_seconds: f64,
    /// CPU seconds that it may use per minute.
    pub cpu_seconds_per_minute: f64,
    /// Seconds for which it does nothing because it used more than that; 0 if it may act.
    pub waits_seconds: f64,
    /// Everything for which a loop is switched on.
    pub targets: Vec<AgentTarget>,
    /// The loops that are proved by switchback.
    #[serde(default)]
    pub proofs: Vec<AgentProof>,
    /// The last decisions, oldest first.
    pub decisions: Vec<AgentDecision>,
}

/// What `pagewise agent status` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct AgentReport {
    /// Whether an agent runs now.
    pub is_running: bool,
    /// The state of the agent that runs, or of the last one since this boot; `null` if none ran.
    pub agent: Option<AgentStatus>,
}
