// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of an experiment: one arm against another, metric by metric, and the runs.
//!
//! A ratio is B divided by A, with a 95 % confidence interval. Counters of the whole host, as
//! opposed to the command, are marked as such.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lend::{ZramWriteback, ZswapSpec};
use crate::{Ends, Program};

/// The verdict on B compared with A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval excludes "no difference", in the desired direction.
    Better,
    /// The interval excludes "no difference", in the other direction.
    Worse,
    /// The whole interval lies within the smallest effect that matters.
    Equivalent,
    /// None of these: more pairs might decide.
    Undecided,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunEnd {
    /// It exited.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// It was killed by a signal.
    Killed {
        /// The signal.
        signal: i32,
    },
    /// The kernel killed processes of its cgroup for lack of memory.
    OutOfMemory {
        /// How many processes it killed.
        kills: u64,
    },
    /// It exceeded its time limit and was killed.
    TimedOut,
    /// It was not started, because something that its arm needs was refused.
    NotRun,
}

impl RunEnd {
    /// Whether the values of the run may be compared.
    pub fn is_good(self) -> bool {
        self == Self::Exited { status: 0 }
    }
}

/// One run of the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRun {
    /// The run's number, from 1.
    pub number: u32,
    /// The number of its pair, from 1; `null` for a warm-up, which is discarded.
    pub pair: Option<u32>,
    /// Name of the arm: `a`, `b` and so on.
    pub arm: String,
    /// Seconds from the start of the experiment to the start of the run.
    pub started_seconds: f64,
    /// How it ended.
    #[serde(flatten)]
    pub end: RunEnd,
    /// Number of processes that it left behind and that were killed.
    pub left: u32,
    /// Values by metric; metrics that are not available on this host are missing.
    pub values: BTreeMap<String, f64>,
    /// Names of those metrics that were counted for the whole host.
    pub host_wide: Vec<String>,
    /// CPU time of other programs during the run; `null` if `/proc/stat` does not show it.
    pub others_cpu_seconds: Option<f64>,
    /// CPU time that the hypervisor gave to other guests during the run (steal).
    pub stolen_seconds: Option<f64>,
    /// Time that the machine was suspended during the run.
    pub slept_seconds: f64,
    /// Why it was not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Names of the processes of its cgroup that the kernel killed for lack of memory, if its log
    /// names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Details that a workload of Pagewise reports besides its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// A CPU profile of the kernel's reclaim thread: function and number of samples, most samples
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<(String, u64)>,
}

impl TrialRun {
    /// A run that has not been made yet.
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

/// How a workload went over time, which one number cannot show.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// Seconds of each iteration, in order. If there were many, each value is the sum over the same
    /// number of iterations.
    pub iteration_seconds: Vec<f64>,
    /// Index of the first of them in the steady state; `null` if no steady state was reached.
    pub settled_at: Option<u32>,
    /// Histogram of the latencies of single operations in the steady state: upper bound in ns, and
    /// the number between the previous bound and this one.
    pub latency_ns: Vec<(u64, u64)>,
}

/// A setting and the value to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSetting {
    /// Its name in the knob table.
    pub knob: String,
    /// The value to write.
    pub value: String,
}

/// One variant of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenArm", into = "WrittenArm")]
#[schemars(rename = "TrialArm")]
pub struct TrialArm {
    /// Name of the arm: `a`, `b` and so on.
    pub name: String,
    /// Its settings; empty for the machine as it is.
    pub settings: Vec<TrialSetting>,
    /// Its swap areas; `None` for the machine's own swap, empty for no swap at all.
    pub swap: Option<Vec<TrialSwap>>,
    /// The program it runs instead of the experiment's.
    pub program: Option<Program>,
}

/// The representation of an arm in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
struct WrittenArm {
    /// Name of the arm: `a`, `b` and so on.
    name: String,
    /// Its settings; empty for the machine as it is.
    settings: Vec<TrialSetting>,
    /// Its swap areas; missing for the machine's own swap, empty for no swap at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swap: Option<Vec<TrialSwap>>,
    /// The command it runs instead of the experiment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// If the command is a workload of Pagewise: its keys, including `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<Map<String, Value>>,
}

/// An arm has the keys of a workload without the command that runs it.
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

/// A swap area that an arm borrows, or zswap in front of such areas. Areas without a priority are
/// filled in the given order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrialSwap {
    /// On a zram device that the arm creates.
    Zram {
        /// Its uncompressed capacity.
        size_bytes: u64,
        /// The kernel's name of the algorithm; missing for the kernel's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<String>,
        /// Limit on the RAM that it uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mem_limit_bytes: Option<u64>,
        /// The device to which idle pages are written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writeback: Option<ZramWriteback>,
        /// Areas with a higher priority are filled first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// In a file that the arm creates.
    File {
        /// Size of the file.
        size_bytes: u64,
        /// Areas with a higher priority are filled first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// On a block device that the experiment's machine has for this purpose, such as a disk of a
    /// guest. Its contents are lost.
    Device {
        /// Path of the device, such as /dev/vda.
        path: String,
        /// Areas with a higher priority are filled first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// zswap in front of the areas after it: must come first in the list, followed by at least one
    /// area.
    Zswap(ZswapSpec),
}

impl TrialSwap {
    /// The requested priority; zswap has none.
    #[must_use]
    pub fn priority(&self) -> Option<i16> {
        match self {
            Self::Zram { priority, .. }
            | Self::File { priority, .. }
            | Self::Device { priority, .. } => *priority,
            Self::Zswap(_) => None,
        }
    }

    /// The device to which idle pages are written, if it is a zram device with writeback.
    #[must_use]
    pub fn writeback(&self) -> Option<&ZramWriteback> {
        match self {
            Self::Zram { writeback, .. } => writeback.as_ref(),
            Self::File { .. } | Self::Device { .. } | Self::Zswap(_) => None,
        }
    }

    /// The block device of the experiment's machine that it uses: the swap area itself, or the one
    /// for zram's writeback.
    #[must_use]
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::Device { path, .. } => Some(path),
            other => other.writeback().map(|writeback| writeback.device.as_str()),
        }
    }
}

/// The clock of the machine on which a run was measured. It determines which kinds of metrics may
/// be compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The clock of a real or hardware-virtualized machine: all kinds may be compared.
    #[default]
    Real,
    /// The clock of an emulated machine: only counts may be compared, never CPU time or elapsed
    /// time.
    Emulated,
    /// The clock of an emulated machine that advances with the instructions it executes: counts may
    /// be compared, and CPU time, which is a number of instructions there; never elapsed time.
    Counted,
}
/// The kind of a metric, and so how much noise affects it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Events or bytes: hardly affected by noise.
    Count,
    /// CPU time.
    Cpu,
    /// Elapsed time: affected by everything else on the machine.
    Time,
    /// A number in the output of the command.
    Said,
}

/// B compared with A in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialMetric {
    /// Its name; for a number in the command's output, the regular expression.
    pub name: String,
    /// `seconds`, `count`, `pages`, `bytes` or `said` (from the command's output).
    pub unit: String,
    /// The kind of the metric.
    pub kind: MetricKind,
    /// Whether a higher value is better.
    pub higher_is_better: bool,
    /// Whether it was counted for the whole host.
    pub host_wide: bool,
    /// Median of A's runs.
    pub a: Option<f64>,
    /// Median of B's runs.
    pub b: Option<f64>,
    /// B divided by A: the Hodges-Lehmann estimate over pairs. For counts, which may be 0, half an
    /// event is added to both.
    pub b_per_a: Option<f64>,
    /// Its confidence interval; `null` with fewer than six pairs.
    pub interval: Option<Ends<f64>>,
    /// Whether B is better, worse or equivalent.
    pub verdict: Verdict,
    /// Number of further pairs that would probably decide; `null` if it is decided already or no
    /// number would.
    pub more_pairs: Option<u32>,
    /// The smallest effect that these pairs would probably have shown, for example 0.04 for 4 %.
    pub detectable_effect: Option<f64>,
    /// Numbers of the runs that differ much from the others of their arm. They are not excluded.
    pub outliers: Vec<u32>,
    /// Why there is no estimate; missing if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// One arm compared with the first arm.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialComparison {
    /// Name of the arm that takes the place of B.
    pub arm: String,
    /// The verdict of the primary metric.
    pub verdict: Verdict,
    /// Pairs that were compared.
    pub pairs: u32,
    /// Pairs with a failed run; they are not compared.
    pub failed_pairs: u32,
    /// The primary metric first, then counts, CPU times and elapsed times.
    pub metrics: Vec<TrialMetric>,
}

/// An arm that was dropped while the experiment continued with the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrialDropped {
    /// Name of the arm.
    pub arm: String,
    /// The reason.
    pub why: String,
    /// Number of its runs that failed.
    pub failed_runs: u32,
}

/// A point at which an experiment may stop early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialLook {
    /// Number of pairs after which it is checked.
    pub pairs: u32,
    /// Rank, from either end, of the average of two pairs that bounds the confidence interval at
    /// this point; `null` if so few pairs cannot decide.
    pub bound: Option<u32>,
}

/// Interference during an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct TrialNoise {
    /// How many CPUs other programs kept busy, on average.
    pub others_processors: Option<f64>,
    /// How many CPUs the hypervisor gave to other guests (steal), on average.
    pub stolen_processors: Option<f64>,
    /// Time that the machine was suspended.
    pub slept_seconds: f64,
    /// How much runs of the same arm vary in the primary metric, for example 0.02 for 2 %. Computed
    /// from pairs, so slow drift does not affect it.
    pub run_spread: Option<f64>,
}

/// What was predicted before the first pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialForecast {
    /// How much the warm-up runs of the same arm varied.
    pub run_spread: f64,
    /// The smallest effect that the planned pairs will probably show.
    pub detectable_effect: f64,
    /// How many pairs would probably show the smallest effect that matters.
    pub pairs_for_min_effect: u32,
    /// Predicted time of all pairs.
    pub seconds: f64,
}

/// The result of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// The verdict of the primary metric on B compared with A.
    pub verdict: Verdict,
    /// Name of the metric that decides.
    pub primary: String,
    /// The primary metric first, then counts, CPU times and elapsed times.
    pub metrics: Vec<TrialMetric>,
    /// Pairs that were compared.
    pub pairs: u32,
    /// Pairs with a failed run; they are not compared.
    pub failed_pairs: u32,
    /// Planned number of pairs: the maximum.
    pub planned_pairs: u32,
    /// The points at which it could have stopped early.
    pub looks: Vec<TrialLook>,
    /// All arms: A, B, those of `others`, and those that were dropped.
    pub arms: Vec<TrialArm>,
    /// Further arms compared with A.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<TrialComparison>,
    /// The program that was run.
    #[serde(flatten)]
    pub program: Program,
    /// The clock of the machine that it ran on.
    pub clock: Clock,
    /// Arms that were dropped, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<TrialDropped>,
    /// Memory limit of the command; `null` for none.
    pub memory_limit_bytes: Option<u64>,
    /// Effects up to this do not matter, for example 0.02 for 2 %.
    pub min_effect: f64,
    /// Seed of the random order of the runs.
    pub seed: u64,
    /// Warm-up runs, which were discarded.
    pub warm_up_runs: u32,
    /// What was predicted before the first pair; `null` if no prediction was possible.
    pub forecast: Option<TrialForecast>,
    /// Interference during the experiment.
    pub noise: TrialNoise,
    /// Remarks on the result, in sentences.
    pub notes: Vec<String>,
    /// Why there are fewer pairs than planned; `null` if all were made or it stopped because the
    /// result was clear.
    pub stopped: Option<String>,
    /// Duration of the experiment.
    pub seconds: f64,
}

/// Whether two experiments have the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// They differ by no more than their intervals allow.
    Agree,
    /// They differ by more than that.
    Differ,
    /// One of them has no interval.
    Unknown,
}

/// One metric in two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Replicated {
    /// The result of the first experiment.
    pub first: TrialMetric,
    /// The result of the second experiment.
    pub second: TrialMetric,
    /// B per A of the second experiment, divided by that of the first.
    pub second_per_first: Option<f64>,
    /// Its confidence interval.
    pub interval: Option<Ends<f64>>,
    /// Whether the two agree.
    pub agreement: Agreement,
}

/// The result of experiments that compare equal arms: how reliable measurements on a machine are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SelfTest {
    /// Number of experiments.
    pub trials: u32,
    /// Pairs in each experiment.
    pub pairs: u32,
    /// The result for each metric.
    pub metrics: Vec<SelfTestMetric>,
    /// Whether the false alarms are no more than a sound machine has in 99 of 100 such tests.
    pub sound: bool,
    /// Interference during the test.
    pub noise: TrialNoise,
    /// Whether it was stopped early by the user.
    pub stopped: bool,
    /// Duration of the test.
    pub seconds: f64,
}

/// One metric, measured with equal arms.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SelfTestMetric {
    /// Its name.
    pub name: String,
    /// Experiments with the wrong verdict better or worse.
    pub false_alarms: u32,
    /// How much runs vary, for example 0.02 for 2 %: the median over the experiments.
    pub run_spread: Option<f64>,
    /// The smallest effect that 7 pairs of such a short command would probably show here.
    pub detectable_with_7: Option<f64>,
    /// The smallest effect that 20 pairs would probably show.
    pub detectable_with_20: Option<f64>,
}
