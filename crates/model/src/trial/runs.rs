// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of an experiment: one variant (*arm* B) compared with another (*arm* A) in each
//! metric, and the runs.
//!
//! A ratio is B's value divided by A's, with a 95 % confidence interval. Metrics that were counted
//! for the whole host instead of the command are marked as `host_wide`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lend::{ZramWriteback, ZswapSpec};
use crate::{Ends, Program};

/// The verdict on arm B compared with arm A in one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better: the confidence interval excludes "no difference", in the desired direction.
    Better,
    /// B is worse: the confidence interval excludes "no difference", in the other direction.
    Worse,
    /// The arms are equivalent: the whole confidence interval lies within the smallest effect that
    /// matters.
    Equivalent,
    /// The result is undecided: more pairs of runs might lead to one of the other verdicts.
    Undecided,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunEnd {
    /// The command exited.
    Exited {
        /// Exit status of the command.
        status: i32,
    },
    /// The command was killed by a signal.
    Killed {
        /// Number of the signal.
        signal: i32,
    },
    /// The kernel killed processes of the run's cgroup for lack of memory.
    OutOfMemory {
        /// Number of processes that the kernel killed.
        kills: u64,
    },
    /// The command exceeded its time limit and was killed.
    TimedOut,
    /// The command was not started, because something that the run's arm needs was refused.
    NotRun,
}

impl RunEnd {
    /// Whether the values of the run may be compared.
    pub fn is_good(self) -> bool {
        self == Self::Exited { status: 0 }
    }
}

/// One run of an experiment's command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRun {
    /// Number of the run, from 1.
    pub number: u32,
    /// Number of the pair that the run belongs to, from 1; `null` for a warm-up, which is
    /// discarded.
    pub pair: Option<u32>,
    /// Name of the run's arm: `a`, `b` and so on.
    pub arm: String,
    /// Seconds from the start of the experiment to the start of the run.
    pub started_seconds: f64,
    /// How the run ended.
    #[serde(flatten)]
    pub end: RunEnd,
    /// Number of processes that the command left running; Pagewise killed them.
    pub left: u32,
    /// Measured values by metric; metrics that are not available on this host are missing.
    pub values: BTreeMap<String, f64>,
    /// Names of the metrics that were counted for the whole host.
    pub host_wide: Vec<String>,
    /// CPU time of other programs during the run, in seconds; `null` if `/proc/stat` does not show
    /// it.
    pub others_cpu_seconds: Option<f64>,
    /// CPU time in seconds that the hypervisor gave to other guests during the run (steal).
    pub stolen_seconds: Option<f64>,
    /// Time that the machine was suspended during the run, in seconds.
    pub slept_seconds: f64,
    /// Why the command was not started; missing if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Names of the processes of the run's cgroup that the kernel killed for lack of memory, if the
    /// kernel log names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Details that a workload of Pagewise reports in addition to its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// A CPU profile of the kernel's reclaim thread: pairs of a function and its number of samples,
    /// most samples first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<(String, u64)>,
}

impl TrialRun {
    /// Creates a run that was not started yet; its values are filled in later.
    #[must_use]
    pub fn new_unstarted(number: u32, pair: Option<u32>, arm: &str) -> Self {
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

/// The speed of a workload over time, which a single number cannot describe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// Seconds that each iteration took, in order. If there were many, each value is the sum over
    /// the same number of iterations.
    pub iteration_seconds: Vec<f64>,
    /// Index of the first value in `iteration_seconds` that belongs to the steady state; `null` if
    /// no steady state was reached.
    pub settled_at: Option<u32>,
    /// Histogram of the latencies of single operations in the steady state: pairs of an upper bound
    /// in ns and the number of operations between the previous bound and this one.
    pub latency_ns: Vec<(u64, u64)>,
}

/// A setting of an arm, and the value to write to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSetting {
    /// Name of the setting in the knob table.
    pub knob: String,
    /// The value to write to the setting.
    pub value: String,
}

/// One variant of an experiment, called an arm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenArm", into = "WrittenArm")]
#[schemars(rename = "TrialArm")]
pub struct TrialArm {
    /// Name of the arm: `a`, `b` and so on.
    pub name: String,
    /// Settings that the arm changes; empty if it runs with the machine's own settings.
    pub settings: Vec<TrialSetting>,
    /// Swap areas of the arm: `None` for the machine's own swap; an empty list for no swap at all.
    pub swap: Option<Vec<TrialSwap>>,
    /// The program that the arm runs instead of the experiment's program; `None` if it runs that
    /// program.
    pub program: Option<Program>,
}

/// The representation of an arm in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
struct WrittenArm {
    /// Name of the arm: `a`, `b` and so on.
    name: String,
    /// Settings that the arm changes; empty if it runs with the machine's own settings.
    settings: Vec<TrialSetting>,
    /// Swap areas of the arm: missing for the machine's own swap; an empty list for no swap at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swap: Option<Vec<TrialSwap>>,
    /// The command that the arm runs instead of the experiment's command; missing if it runs that
    /// command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The keys of the workload, including `kind`; missing if the command is not a workload of
    /// Pagewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<Map<String, Value>>,
}

/// Error for an arm that has the keys of a workload without the command that runs it.
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

/// A swap area that an arm uses, or zswap in front of such areas. Areas without a priority are
/// filled in the given order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrialSwap {
    /// Swap on a zram device that the arm creates.
    Zram {
        /// Uncompressed capacity of the zram device.
        size_bytes: u64,
        /// The kernel's name of the compression algorithm; missing for the kernel's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<String>,
        /// Limit on the RAM that the zram device uses; missing for no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mem_limit_bytes: Option<u64>,
        /// The block device to which idle pages are written; missing if all pages stay in RAM.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writeback: Option<ZramWriteback>,
        /// Priority of the swap area: areas with a higher priority are filled first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// Swap in a file that the arm creates.
    File {
        /// Size of the swap file.
        size_bytes: u64,
        /// Priority of the swap area: areas with a higher priority are filled first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// Swap on a block device that the experiment's machine has for this purpose, such as a disk of
    /// a guest. Its contents are lost.
    Device {
        /// Path of the device, such as /dev/vda.
        path: String,
        /// Priority of the swap area: areas with a higher priority are filled first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i16>,
    },
    /// zswap in front of the areas after it in the list. zswap must be first in the list, and at
    /// least one area must follow.
    Zswap(ZswapSpec),
}

impl TrialSwap {
    /// The requested priority of the swap area; zswap has none.
    #[must_use]
    pub fn priority(&self) -> Option<i16> {
        match self {
            Self::Zram { priority, .. }
            | Self::File { priority, .. }
            | Self::Device { priority, .. } => *priority,
            Self::Zswap(_) => None,
        }
    }

    /// The block device to which idle pages are written, if the area is on a zram device with
    /// writeback.
    #[must_use]
    pub fn writeback(&self) -> Option<&ZramWriteback> {
        match self {
            Self::Zram { writeback, .. } => writeback.as_ref(),
            Self::File { .. } | Self::Device { .. } | Self::Zswap(_) => None,
        }
    }

    /// Path of the block device of the experiment's machine that the area uses: the area itself, or
    /// the device for zram's writeback.
    #[must_use]
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::Device { path, .. } => Some(path),
            other => other.writeback().map(|writeback| writeback.device.as_str()),
        }
    }
}

/// The kind of clock of the machine on which a run was measured. Which kinds of metrics may be
/// compared depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The clock of a real or hardware-virtualized machine: all kinds may be compared.
    #[default]
    Real,
    /// The clock of an emulated machine: only counts may be compared, never CPU time or elapsed
    /// time.
    Emulated,
    /// The clock of an emulated machine that advances with the number of executed instructions.
    /// Counts may be compared, and also CPU time, which is a number of instructions on such a
    /// machine; elapsed time must not be compared.
    Counted,
}
/// The kind of a metric, which determines how much noise affects it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// A number of events or bytes, which noise hardly affects.
    Count,
    /// CPU time that was used.
    Cpu,
    /// Elapsed time, which is affected by everything else that runs on the machine.
    Time,
    /// A number that the command printed in its output.
    Said,
}

/// Arm B compared with arm A in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialMetric {
    /// Name of the metric; for a number in the command's output, the regular expression that finds
    /// it.
    pub name: String,
    /// Unit of the metric: `seconds`, `count`, `pages`, `bytes` or `said` (from the command's
    /// output).
    pub unit: String,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Whether a higher value of the metric is better.
    pub higher_is_better: bool,
    /// Whether the metric was counted for the whole host.
    pub host_wide: bool,
    /// Median of the metric over A's runs.
    pub a: Option<f64>,
    /// Median of the metric over B's runs.
    pub b: Option<f64>,
    /// Value of B divided by value of A: the Hodges-Lehmann estimate over pairs. For counts, which
    /// may be 0, half an event is added to both.
    pub b_per_a: Option<f64>,
    /// Confidence interval of `b_per_a`; `null` with fewer than six pairs.
    pub interval: Option<Ends<f64>>,
    /// Whether B is better, worse or equivalent.
    pub verdict: Verdict,
    /// Number of further pairs that would probably decide; `null` if the verdict is decided already
    /// or no number would decide it.
    pub more_pairs: Option<u32>,
    /// The smallest effect that these pairs would probably have shown, as a fraction: 0.04 is 4 %.
    pub detectable_effect: Option<f64>,
    /// Numbers of the runs whose values differ much from the others of their arm. They are not
    /// excluded.
    pub outliers: Vec<u32>,
    /// Why there is no estimate for the metric; missing if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// The comparison of a further arm with the first arm.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialComparison {
    /// Name of the arm that is compared with the first arm; it takes the place of B.
    pub arm: String,
    /// The verdict on the arm in the primary metric.
    pub verdict: Verdict,
    /// Number of pairs that were compared.
    pub pairs: u32,
    /// Number of pairs with a failed run, which are not compared.
    pub failed_pairs: u32,
    /// The comparison in each metric: the primary metric first, then counts, CPU times and elapsed
    /// times.
    pub metrics: Vec<TrialMetric>,
}

/// An arm that was dropped while the experiment continued with the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrialDropped {
    /// Name of the arm that was dropped.
    pub arm: String,
    /// Why the arm was dropped.
    pub why: String,
    /// Number of the arm's runs that failed.
    pub failed_runs: u32,
}

/// A point at which an experiment is stopped early if its result is already clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialLook {
    /// Number of pairs after which the result is checked.
    pub pairs: u32,
    /// Rank, from either end, of the average of two pairs that bounds the confidence interval at
    /// this point; `null` if so few pairs cannot decide.
    pub bound: Option<u32>,
}

/// Interference from outside during an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct TrialNoise {
    /// Number of CPUs that other programs kept busy, on average.
    pub others_processors: Option<f64>,
    /// Number of CPUs that the hypervisor gave to other guests (steal), on average.
    pub stolen_processors: Option<f64>,
    /// Time that the machine was suspended, in seconds.
    pub slept_seconds: f64,
    /// How much runs of the same arm vary in the primary metric, as a fraction: 0.02 is 2 %.
    /// Computed from pairs, so slow drift does not affect it.
    pub run_spread: Option<f64>,
}

/// Predictions about an experiment that were made after the warm-up, before the first pair of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialForecast {
    /// How much the warm-up runs of the same arm varied in the primary metric, as a fraction.
    pub run_spread: f64,
    /// The smallest effect that the planned pairs will probably show, as a fraction.
    pub detectable_effect: f64,
    /// Number of pairs that would probably show the smallest effect that matters.
    pub pairs_for_min_effect: u32,
    /// Predicted time of all pairs in seconds.
    pub seconds: f64,
}

/// The result of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// The verdict on arm B compared with arm A in the primary metric.
    pub verdict: Verdict,
    /// Name of the primary metric, which decides the verdict.
    pub primary: String,
    /// Arm B compared with arm A in each metric: the primary metric first, then counts, CPU times
    /// and elapsed times.
    pub metrics: Vec<TrialMetric>,
    /// Number of pairs that were compared.
    pub pairs: u32,
    /// Number of pairs of runs that were not compared because a run failed.
    pub failed_pairs: u32,
    /// Planned number of pairs, which is the maximum.
    pub planned_pairs: u32,
    /// The points at which the experiment could have been stopped early.
    pub looks: Vec<TrialLook>,
    /// All arms: A, B, the arms in `others`, and the arms in `dropped`.
    pub arms: Vec<TrialArm>,
    /// Comparisons of further arms with arm A.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<TrialComparison>,
    /// The program that the experiment ran.
    #[serde(flatten)]
    pub program: Program,
    /// The clock of the machine that the experiment ran on.
    pub clock: Clock,
    /// Arms that were dropped, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<TrialDropped>,
    /// Memory limit of the command in bytes; `null` for none.
    pub memory_limit_bytes: Option<u64>,
    /// The smallest effect that matters, as a fraction: 0.02 is 2 %. Smaller effects do not matter.
    pub min_effect: f64,
    /// Seed of the random order of the runs.
    pub seed: u64,
    /// Number of warm-up runs, which were discarded.
    pub warm_up_runs: u32,
    /// Predictions made before the first pair of runs; `null` if none was possible.
    pub forecast: Option<TrialForecast>,
    /// Interference from outside during the experiment.
    pub noise: TrialNoise,
    /// Remarks on the result, in sentences.
    pub notes: Vec<String>,
    /// Why there are fewer pairs than planned; `null` if all were made or the experiment stopped
    /// because the result was clear.
    pub stopped: Option<String>,
    /// Duration of the experiment in seconds.
    pub seconds: f64,
}

/// Whether two experiments agree in one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The results differ by no more than their confidence intervals allow.
    Agree,
    /// The results differ by more than their confidence intervals allow.
    Differ,
    /// It is not known whether they agree, because one of the results has no confidence interval.
    Unknown,
}

/// The result for one metric in two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Replicated {
    /// The result of the first experiment.
    pub first: TrialMetric,
    /// The result of the second experiment.
    pub second: TrialMetric,
    /// B divided by A in the second experiment, divided by the same quotient in the first.
    pub second_per_first: Option<f64>,
    /// Confidence interval of `second_per_first`.
    pub interval: Option<Ends<f64>>,
    /// Whether the results of the two experiments agree.
    pub agreement: Agreement,
}

/// The result of experiments that compare equal arms, which shows how reliable measurements on a
/// machine are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SelfTest {
    /// Number of experiments that were made.
    pub trials: u32,
    /// Number of pairs in each experiment.
    pub pairs: u32,
    /// The result for each metric.
    pub metrics: Vec<SelfTestMetric>,
    /// Whether there are only so many false alarms as a reliable machine has in 99 of 100 such
    /// tests.
    pub sound: bool,
    /// Interference from outside during the test.
    pub noise: TrialNoise,
    /// Whether the user stopped the test early.
    pub stopped: bool,
    /// Duration of the test in seconds.
    pub seconds: f64,
}

/// How reliable one metric is, measured with equal arms.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SelfTestMetric {
    /// Name of the metric.
    pub name: String,
    /// Number of experiments with a wrong verdict, `better` or `worse`, on equal arms.
    pub false_alarms: u32,
    /// How much runs vary in the metric, as a fraction: 0.02 is 2 %. The median over the
    /// experiments.
    pub run_spread: Option<f64>,
    /// The smallest effect that 7 pairs of such a short command would probably show here, as a
    /// fraction.
    pub detectable_with_7: Option<f64>,
    /// The smallest effect that 20 pairs would probably show here, as a fraction.
    pub detectable_with_20: Option<f64>,
}
