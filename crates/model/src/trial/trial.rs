// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment found: one arm against another, metric by metric, and the runs behind it.
//!
//! A ratio is B per A. Its interval holds the truth in 95 of 100 experiments. Counters that are not
//! of the command alone but of the whole host say so.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lend::{ZramWriteback, ZswapSpec};
use crate::{Ends, Program};

/// What may be said of B against A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval leaves out "no difference", on the side that is wanted.
    Better,
    /// The same on the other side.
    Worse,
    /// The whole interval is nearer to "no difference" than the least effect that matters.
    Equivalent,
    /// Neither: more pairs might tell.
    Undecided,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunEnd {
    /// By itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// By a signal.
    Killed {
        /// The signal.
        signal: i32,
    },
    /// The kernel killed in its cgroup, for lack of memory.
    OutOfMemory {
        /// How often.
        kills: u64,
    },
    /// It lasted too long and was ended.
    TimedOut,
    /// It was never started: something that its arm needs was refused.
    NotRun,
}

impl RunEnd {
    /// Whether its values may be compared.
    pub fn is_good(self) -> bool {
        self == Self::Exited { status: 0 }
    }
}

/// One run of the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRun {
    /// The how many-th it was, from 1.
    pub number: u32,
    /// Which pair it belongs to, from 1; none for a warm-up, which is discarded.
    pub pair: Option<u32>,
    /// `a`, `b` and so on.
    pub arm: String,
    /// When it began, after the experiment did.
    pub started_seconds: f64,
    /// How it ended.
    #[serde(flatten)]
    pub end: RunEnd,
    /// Processes that it left and that were ended.
    pub left: u32,
    /// By metric; what cannot be told here is missing.
    pub values: BTreeMap<String, f64>,
    /// Those of them that were counted for the whole host.
    pub host_wide: Vec<String>,
    /// Processor time of others meanwhile; missing where `/proc/stat` does not tell.
    pub others_cpu_seconds: Option<f64>,
    /// Processor time that the host of a virtual machine kept.
    pub stolen_seconds: Option<f64>,
    /// Time that the machine slept meanwhile.
    pub slept_seconds: f64,
    /// Why it was never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Names of the processes of its cgroup that the kernel killed for lack of memory, where its log tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// What a workload of ours says beside its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// Where the kernel's reclaim thread spent its time: samples by function, the most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<(String, u64)>,
}

impl TrialRun {
    /// One that has not been made, of which nothing is known yet.
    #[must_use]
    pub fn not_yet(number: u32, pair: Option<u32>, arm: &str) -> Self {
        Self {
            number,
            pair,
            arm: arm.to_owned(),
            started_seconds: 0.0,
            end: RunEnd::NotRun,
            left: 0,
            values: BTreeMap::new(),
            host_wide: Vec::new(),
            others_cpu_seconds: Some(0.0),
            stolen_seconds: Some(0.0),
            slept_seconds: 0.0,
            refused: None,
            victims: Vec::new(),
            course: None,
            profile: Vec::new(),
        }
    }
}

/// How a workload went, beside what can be said in one number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// Seconds of each iteration, in order; where there were many, of equal numbers of them together.
    pub iteration_seconds: Vec<f64>,
    /// The first of them that belongs to the steady state; none where it never settled.
    pub settled_at: Option<u32>,
    /// Latencies of single operations in the steady state: a bound in ns, and how many lay between the
    /// bound before it and this one.
    pub latency_ns: Vec<(u64, u64)>,
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSetting {
    /// The name in the knob table.
    pub knob: String,
    /// What is written.
    pub value: String,
}

/// One variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenArm", into = "WrittenArm")]
#[schemars(rename = "TrialArm")]
pub struct TrialArm {
    /// `a`, `b` and so on.
    pub name: String,
    /// What it sets; nothing for the machine as it is.
    pub settings: Vec<TrialSetting>,
    /// The swap that it has; missing for the machine's own, empty for none at all.
    pub swap: Option<Vec<TrialSwap>>,
    /// What it runs instead of the experiment's program.
    pub program: Option<Program>,
}

/// One variant.
#[derive(Serialize, Deserialize, JsonSchema)]
struct WrittenArm {
    /// `a`, `b` and so on.
    name: String,
    /// What it sets; nothing for the machine as it is.
    settings: Vec<TrialSetting>,
    /// The swap that it has; missing for the machine's own, empty for none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swap: Option<Vec<TrialSwap>>,
    /// What it runs instead of the experiment's command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// If that is a workload of Pagewise: its keys, `kind` among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<Map<String, Value>>,
}

/// Keys of a workload without the command that runs it.
#[derive(Debug, thiserror::Error)]
#[error("arm {0}: expected a command beside workload, found none")]
struct NoCommand(String);

impl TryFrom<WrittenArm> for TrialArm {
    type Error = NoCommand;

    fn try_from(arm: WrittenArm) -> Result<Self, NoCommand> {
        let WrittenArm { name, settings, swap, command, workload } = arm;
        let program = match (command, workload) {
            (None, None) => None,
            (None, Some(_)) => return Err(NoCommand(name)),
            (Some(argv), None) => Some(Program::Argv(argv)),
            (Some(argv), Some(keys)) => Some(Program::Workload { argv, keys }),
        };
        Ok(Self { name, settings, swap, program })
    }
}

impl From<TrialArm> for WrittenArm {
    fn from(TrialArm { name, settings, swap, program }: TrialArm) -> Self {
        let workload = program.as_ref().and_then(Program::workload).cloned();
        let command = program.map(|program| program.argv().to_vec());
        Self { name, settings, swap, command, workload }
    }
}

/// A swap area that an arm borrows, or zswap in front of them. Areas without a priority are used in the order
/// given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrialSwap {
    /// On a zram device of its own.
    Zram {
        /// Its uncompressed capacity.
        size_bytes: u64,
        /// The kernel's name of the algorithm; its own choice where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<String>,
        /// The most memory it may use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mem_limit_bytes: Option<u64>,
        /// Where its idle pages are written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writeback: Option<ZramWriteback>,
        /// Higher is used first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// In a file of its own.
    File {
        /// How large.
        size_bytes: u64,
        /// Higher is used first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// On a block device that the experiment's machine has for it, as a guest's disk: what it holds is lost.
    Device {
        /// As /dev/vda.
        path: String,
        /// Higher is used first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// zswap in front of the areas after it: the first of the list, and not alone.
    Zswap(ZswapSpec),
}

impl TrialSwap {
    /// The priority that was asked for; zswap has none.
    #[must_use]
    pub fn priority(&self) -> Option<i16> {
        match self {
            Self::Zram { priority, .. }
            | Self::File { priority, .. }
            | Self::Device { priority, .. } => *priority,
            Self::Zswap(_) => None,
        }
    }

    /// Where its idle pages are written, if it is a zram device that does so.
    #[must_use]
    pub fn writeback(&self) -> Option<&ZramWriteback> {
        match self {
            Self::Zram { writeback, .. } => writeback.as_ref(),
            Self::File { .. } | Self::Device { .. } | Self::Zswap(_) => None,
        }
    }

    /// The block device of the experiment's machine that it uses: its own, or the one behind zram.
    #[must_use]
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::Device { path, .. } => Some(path),
            other => other.writeback().map(|writeback| writeback.device.as_str()),
        }
    }
}

/// Whose clock a run was measured with, and so what may be judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// A machine's: all may be.
    #[default]
    Real,
    /// An emulated machine's: counts may be, processor time and time never.
    Emulated,
    /// An emulated machine's that goes with the instructions it executes: counts and processor time,
    /// which is a count of instructions there; time never.
    Counted,
}
/// What a metric is of, and so how far it is to be trusted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Events or bytes: noise hardly reaches them.
    Count,
    /// Processor time.
    Cpu,
    /// Time: everything reaches it.
    Time,
    /// What the command said of itself.
    Said,
}

/// B against A in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialMetric {
    /// Its name; of what the command said the regular expression.
    pub name: String,
    /// `seconds`, `count`, `pages`, `bytes` or `said`.
    pub unit: String,
    /// What it is of.
    pub kind: MetricKind,
    /// Whether more of it is wanted.
    pub higher_is_better: bool,
    /// Whether it was counted for the whole host.
    pub host_wide: bool,
    /// Median of A's runs.
    pub a: Option<f64>,
    /// Median of B's runs.
    pub b: Option<f64>,
    /// How much B is of A: Hodges and Lehmann's estimate over pairs. Half an event is added to both
    /// sides of a count, which may be 0.
    pub b_per_a: Option<f64>,
    /// Its interval; none with fewer than six pairs.
    pub interval: Option<Ends<f64>>,
    /// What follows.
    pub verdict: Verdict,
    /// So many more pairs would probably tell; missing where it is decided or none would.
    pub more_pairs: Option<u32>,
    /// The least effect that these pairs would probably have shown, as 0.04 for 4 %.
    pub detectable_effect: Option<f64>,
    /// Numbers of runs that lie far from the others of their arm. They are not left out.
    pub outliers: Vec<u32>,
    /// Why there is no estimate, where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// One arm against the first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialComparison {
    /// The arm that takes B's place.
    pub arm: String,
    /// What the primary metric says.
    pub verdict: Verdict,
    /// Pairs that were compared.
    pub pairs: u32,
    /// Pairs of which a run failed.
    pub failed_pairs: u32,
    /// The primary first, then counts, processor time and time.
    pub metrics: Vec<TrialMetric>,
}

/// An arm that was given up while the others went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrialDropped {
    /// Which.
    pub arm: String,
    /// Why, in words.
    pub why: String,
    /// Runs of it that ended otherwise than well.
    pub failed_runs: u32,
}

/// Where an experiment may stop early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialLook {
    /// After so many pairs.
    pub pairs: u32,
    /// Which average of two pairs, from either end, bounds the interval then; none where so few pairs
    /// cannot tell.
    pub bound: Option<u32>,
}

/// What else happened while it ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct TrialNoise {
    /// How many processors others kept busy, on average.
    pub others_processors: Option<f64>,
    /// How many processors the host of a virtual machine kept for itself, on average.
    pub stolen_processors: Option<f64>,
    /// Time that the machine slept.
    pub slept_seconds: f64,
    /// How much a run of the same arm varies in the primary metric, as 0.02 for 2 %: the spread of
    /// pairs, which is free of drift.
    pub run_spread: Option<f64>,
}

/// What was said before the first pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialForecast {
    /// How much runs of the same arm varied while warming up.
    pub run_spread: f64,
    /// The least effect that the planned pairs will probably show.
    pub detectable_effect: f64,
    /// How many pairs would probably show the least effect that matters.
    pub pairs_for_min_effect: u32,
    /// What all pairs take.
    pub seconds: f64,
}

/// What an experiment found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// What the primary metric says of B against A.
    pub verdict: Verdict,
    /// The metric that decides.
    pub primary: String,
    /// The primary first, then counts, processor time and time.
    pub metrics: Vec<TrialMetric>,
    /// Pairs that were compared.
    pub pairs: u32,
    /// Pairs of which a run failed; they are not compared.
    pub failed_pairs: u32,
    /// Pairs that were wanted at most.
    pub planned_pairs: u32,
    /// Where it might have stopped before.
    pub looks: Vec<TrialLook>,
    /// A, B, those of `others`, and those that were given up.
    pub arms: Vec<TrialArm>,
    /// Further arms against A.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<TrialComparison>,
    /// What was run.
    #[serde(flatten)]
    pub program: Program,
    /// Whose clock it was.
    pub clock: Clock,
    /// Arms that were given up, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<TrialDropped>,
    /// The most memory it had.
    pub memory_limit_bytes: Option<u64>,
    /// Effects up to this do not matter, as 0.02 for 2 %.
    pub min_effect: f64,
    /// Draws the order of the runs.
    pub seed: u64,
    /// Runs that were discarded.
    pub warm_up_runs: u32,
    /// What was said before the first pair; missing where it could not be.
    pub forecast: Option<TrialForecast>,
    /// What else happened.
    pub noise: TrialNoise,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// Why there are fewer pairs than planned, where that was not because it was clear.
    pub stopped: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Whether two experiments found the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// What lies between them is no more than their intervals allow.
    Agree,
    /// It is more.
    Differ,
    /// One of them has no interval.
    Unknown,
}

/// One metric in two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Replicated {
    /// In the first.
    pub first: TrialMetric,
    /// In the second.
    pub second: TrialMetric,
    /// The second's B per A, per the first's.
    pub second_per_first: Option<f64>,
    /// Its interval.
    pub interval: Option<Ends<f64>>,
    /// What follows.
    pub agreement: Agreement,
}

/// What experiments in which nothing differs say about a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SelfTest {
    /// How many there were.
    pub trials: u32,
    /// Pairs in each.
    pub pairs: u32,
    /// For each metric.
    pub metrics: Vec<SelfTestMetric>,
    /// Whether there were no more false alarms than in one of 100 such tests of a sound machine.
    pub sound: bool,
    /// What else happened.
    pub noise: TrialNoise,
    /// Whether somebody ended it early.
    pub stopped: bool,
    /// How long it took.
    pub seconds: f64,
}

/// One metric where nothing differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SelfTestMetric {
    /// Its name.
    pub name: String,
    /// Experiments that called it better or worse.
    pub false_alarms: u32,
    /// How much a run varies, as 0.02 for 2 %: the median over experiments.
    pub run_spread: Option<f64>,
    /// The least effect that 7 pairs of so short a command would probably show here.
    pub detectable_with_7: Option<f64>,
    /// The least effect that 20 pairs would.
    pub detectable_with_20: Option<f64>,
}
