// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders results as text and JSON. Computes nothing: everything that is printed was read or
//! decided before.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod course;
pub mod csv;
mod huge;
pub mod json;
pub mod lineup;
pub mod live;
pub mod phrases;
pub mod profile;
pub mod render;
pub mod text;
mod time;
pub mod view;

use pagewise_model::{
    Benchmark, Collapse, Cost, Effective, Estimate, Finding, HostVerdict, Interval, KnobOwnership,
    LogText, Merge, OomEvent, OomExplanation, PageWalks, ProcessCoverage, Restrain, Snapshot,
    Trial, TrialRun, WatchCourse, WatchSample,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Everything that `report`, `status` and `doctor` show.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// What was read of the host at both ends of an interval.
    pub interval: &'a Interval,
    /// How short of memory the host is.
    pub verdict: &'a HostVerdict,
    /// The findings about the host, most severe first.
    pub findings: &'a [Finding],
    /// Number of further findings that the user's options hide.
    pub hidden: usize,
    /// Estimates for the memory of some processes, if a sample of it was read.
    pub estimates: &'a [Estimate],
    /// Who sets which setting at boot; empty if that was not requested.
    pub owners: &'a [KnobOwnership],
    /// What pagewise itself used for reading: time and memory.
    pub cost: Cost,
}

/// What `oom FILE` shows of a text.
#[derive(Debug, Clone, Copy)]
pub struct OomText<'a> {
    /// Facts about the text itself, such as its number of lines.
    pub about: &'a LogText,
    /// What was found in the text.
    pub found: OomFound<'a>,
}

/// What `oom` explains of a log.
#[derive(Debug, Clone, Copy, Default)]
pub struct OomFound<'a> {
    /// Explanations of the newest kills, newest first.
    pub explained: &'a [OomExplanation],
    /// Explanations of the newest failed allocations, newest first.
    pub failures: &'a [OomExplanation],
    /// Explanations of the newest tasks that did not run, newest first.
    pub hung: &'a [OomExplanation],
    /// Explanations of kills by programs, and of units that systemd reports, oldest first.
    pub programs: &'a [OomExplanation],
    /// The kills by the kernel and by programs, oldest first.
    pub time_line: &'a [OomEvent],
}

/// What `scan` shows.
#[derive(Debug, Clone, Copy)]
pub struct ScanReport<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The estimate for all memory first, then for each part if there are several.
    pub estimates: &'a [Estimate],
    /// What the machine could hold with a zram device full of such memory.
    pub effective: Option<Effective>,
    /// Remarks about the sample of pages.
    pub notes: &'a [String],
    /// What pagewise itself used for reading: time and memory.
    pub cost: Cost,
}

/// What `bench` shows.
#[derive(Debug, Clone, Copy)]
pub struct Benched<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The measurements of `bench`, and the conclusions from them.
    pub benchmark: &'a Benchmark,
    /// What pagewise itself used for measuring: time and memory.
    pub cost: Cost,
}

/// What `lab run` shows: the results of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experimented<'a> {
    /// Facts about the host that ran the experiment.
    pub snapshot: &'a Snapshot,
    /// The experiment's name.
    pub name: &'a str,
    /// The question that the experiment answers.
    pub about: &'a str,
    /// The published claim that the experiment tests.
    pub claim: Option<&'a str>,
    /// Whether this is a preview with few runs, from which no conclusions may be drawn.
    pub preview: bool,
    /// Why there are fewer cells than planned, if there are.
    pub stopped: Option<&'a str>,
    /// The results on each machine.
    pub cells: &'a [CellTried<'a>],
    /// What pagewise itself used for the experiment, without the workloads.
    pub cost: Cost,
}

/// The result of an experiment on one machine.
#[derive(Debug, Clone, Copy)]
pub struct CellTried<'a> {
    /// Where the cell ran: `host`, or kernel and memory of a guest, as `trixie-320M`.
    pub name: &'a str,
    /// The machine: this host or a guest.
    pub snapshot: &'a Snapshot,
    /// Why the experiment on this machine ended early, if it did.
    pub trouble: Option<&'a str>,
    /// The comparison computed from the runs.
    pub trial: &'a Trial,
    /// The runs of the experiment.
    pub runs: &'a [TrialRun],
}

/// A description of an experiment that has not run yet.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedExperiment {
    /// The experiment's name.
    pub experiment: String,
    /// The question that the experiment answers.
    pub about: String,
    /// The published claim that the experiment tests.
    pub claim: Option<String>,
    /// The workload's parameters, in the order in which they are shown.
    pub workload: Vec<(String, String)>,
    /// Where the experiment runs: a line for each cell.
    pub machines: Vec<String>,
    /// How the experiment is measured: name and value of each fact.
    pub measured: Vec<(String, String)>,
    /// Name, swap, and other settings of each arm.
    pub arms: Vec<[String; 3]>,
    /// Number of runs in all cells.
    pub runs: u32,
    /// Estimated duration of all runs.
    pub seconds: f64,
}

/// What `plan` shows.
#[derive(Debug, Clone, Copy)]
pub struct PlannedChanges<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The plan: its steps, and the changes that were declined.
    pub plan: &'a pagewise_model::plan::Plan,
    /// The findings that no step of the plan is about.
    pub not_addressed: &'a [pagewise_model::plan::NotAddressed],
    /// Whether to print also the declined changes that are about no finding.
    pub why_not: bool,
    /// What pagewise itself used for reading: time and memory.
    pub cost: Cost,
}

/// What `apply` shows.
#[derive(Debug, Clone, Copy)]
pub struct AppliedPlan<'a> {
    /// What was read of the host after the last change.
    pub snapshot: &'a Snapshot,
    /// The outcome of the plan.
    pub outcome: ApplyOutcome<'a>,
    /// What pagewise itself used for reading and writing: time and memory.
    pub cost: Cost,
}

/// The outcome of applying a plan.
#[derive(Debug, Clone, Copy)]
pub enum ApplyOutcome<'a> {
    /// The plan was carried out.
    Applied {
        /// The id of the plan.
        plan: &'a str,
        /// The result of each step.
        applied: &'a pagewise_model::plan::Applied,
    },
    /// The plan does not fit this machine.
    Refused {
        /// The id of the plan.
        plan: &'a str,
        /// Every reason why the plan was not carried out.
        complaints: &'a [pagewise_model::plan::Complaint],
    },
    /// A plan on trial was confirmed and is kept.
    Confirmed {
        /// The plan, as the user named it.
        id: &'a str,
    },
}

/// A journal of a plan from which it is not known whether the plan is applied.
#[derive(Debug, Clone, serde::Serialize, schemars::JsonSchema)]
pub struct UnbelievedJournal {
    /// Path of the journal.
    pub journal: String,
    /// The id that `pagewise undo` takes.
    pub id: String,
    /// What is wrong with the journal: a damaged line, or that others can have written it.
    pub why: String,
}

/// What `verify` shows.
#[derive(Debug, Clone, Copy)]
pub struct VerifiedPlans<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The verified plans, the oldest first.
    pub plans: &'a [pagewise_model::plan::Verified],
    /// Journals that were not read or are damaged, so that their plans may be missing in `plans`.
    pub unbelieved: &'a [UnbelievedJournal],
    /// What was added to the ledger.
    pub ledger: &'a LedgerUpdate,
    /// What pagewise itself used for reading: time and memory.
    pub cost: Cost,
}

/// What `tune` shows.
#[derive(Debug, Clone, Copy)]
pub struct TunedPlan<'a> {
    /// What was read of the host before the first change.
    pub snapshot: &'a Snapshot,
    /// The plan; without steps if there is nothing to change.
    pub plan: &'a pagewise_model::plan::Plan,
    /// How short of memory the host was before the plan.
    pub before: &'a HostVerdict,
    /// The result of the trial; `None` if nothing was changed.
    pub trial: Option<TuneTrial<'a>>,
    /// What pagewise itself used for reading and writing: time and memory.
    pub cost: Cost,
}

/// The result of `tune` while a plan was on trial.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct TuneTrial<'a> {
    /// The name of the plan's journal for `pagewise undo`.
    pub journal: &'a str,
    /// Why the plan was undone, in sentences; empty if it is kept.
    pub against: &'a [String],
    /// What was measured before and after the changes, and what it shows.
    pub judgement: &'a pagewise_model::PeriodsVerdict,
    /// How short of memory the host was at the end.
    #[serde(rename = "verdict")]
    pub after: &'a HostVerdict,
    /// The plan compared with the machine, and the repeated measurements of its gains.
    pub verified: &'a [pagewise_model::plan::Verified],
    /// What was added to the ledger.
    pub ledger: &'a LedgerUpdate,
}

/// What `verify` added to the ledger.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct LedgerUpdate {
    /// Number of measurements that were added.
    pub added: usize,
    /// Why none was added although some were made; `null` if they were added.
    pub not_added: Option<String>,
}

/// What `ledger` shows.
#[derive(Debug, Clone, Copy)]
pub struct LedgerReport<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The ledger: measurements of predicted gains, and how often the predictions came true.
    pub ledger: &'a pagewise_model::plan::Ledger,
    /// What pagewise itself used for reading: time and memory.
    pub cost: Cost,
}

/// What `undo` shows.
#[derive(Debug, Clone, Copy)]
pub struct UndoReport<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// Journals of killed runs and of plans, and what was restored.
    pub runs: &'a [pagewise_model::undo::Recovered],
    /// The plans that stay in force.
    pub plans: &'a [pagewise_model::undo::InForce],
    /// What pagewise itself used for reading and writing: time and memory.
    pub cost: Cost,
}

/// What `trial` shows.
#[derive(Debug, Clone, Copy)]
pub struct TrialReport<'a> {
    /// The name of the experiment, if it has one.
    pub name: Option<&'a str>,
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The comparison computed from the runs.
    pub trial: &'a Trial,
    /// The runs of the experiment.
    pub runs: &'a [TrialRun],
    /// The folder in which the raw runs are kept.
    pub evidence: Option<&'a std::path::Path>,
    /// What pagewise itself used for the trial, without the user's command.
    pub cost: Cost,
}

/// What `thp` shows.
#[derive(Debug, Clone, Copy)]
pub struct HugeSeen<'a> {
    /// What was read of the host at both ends of an interval.
    pub interval: &'a Interval,
    /// Ids of the selected processes; `None` means all.
    pub pids: Option<&'a [u32]>,
    /// The selected cgroup; `None` means all.
    pub cgroup: Option<&'a str>,
    /// Processes whose mappings were read one by one.
    pub looked: &'a [ProcessCoverage],
    /// Processes whose mappings could not be read, and why.
    pub not_looked: &'a [String],
    /// The cost of page walks, if it was requested.
    pub page_walks: Option<&'a PageWalks>,
    /// What pagewise itself used for reading: time and memory.
    pub cost: Cost,
}

/// What `thp collapse` shows.
#[derive(Debug, Clone, Copy)]
pub struct Collapsed<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The result of the collapse.
    pub collapse: &'a Collapse,
    /// What pagewise itself used in total: time and memory.
    pub cost: Cost,
}

/// What `merge` shows.
#[derive(Debug, Clone, Copy)]
pub struct Merged<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The result of the merge pass.
    pub merge: &'a Merge,
    /// What pagewise itself used in total, without the work of the kernel.
    pub cost: Cost,
}

/// What `thp collapse --watch` shows.
#[derive(Debug, Clone, Copy)]
pub struct WatchReport<'a> {
    /// The result of the collapse.
    pub done: Collapsed<'a>,
    /// Samples of the watched processes, in order of time.
    pub samples: &'a [WatchSample],
    /// The course of the watch: its phases, derived from the samples.
    pub course: &'a WatchCourse,
    /// The command that counts requests.
    pub counter: Option<&'a str>,
}

/// What `thp restrain` shows.
#[derive(Debug, Clone, Copy)]
pub struct Restrained<'a> {
    /// What was read of the host.
    pub snapshot: &'a Snapshot,
    /// The huge pages that were found, and the result.
    pub restrain: &'a Restrain,
    /// What pagewise itself used in total: time and memory.
    pub cost: Cost,
}
