// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nouns → text and JSON. Renders and never computes: what is printed was read or decided before.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod csv;
mod huge;
pub mod json;
pub mod lineup;
pub mod live;
pub mod phrases;
pub mod profile;
pub mod text;
mod time;
pub mod view;

use pagewise_model::{
    Benchmark, Collapse, Cost, Effective, Estimate, Finding, HostVerdict, Interval, KnobOwnership,
    Merge, PageWalks, ProcessCoverage, Restrain, Snapshot, Trial, TrialRun, WatchCourse,
    WatchSample,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Everything that an answer may show.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The host.
    pub interval: &'a Interval,
    /// How short of memory it is.
    pub verdict: &'a HostVerdict,
    /// What is the case, most severe first.
    pub findings: &'a [Finding],
    /// How many more there are that the reader did not ask for.
    pub hidden: usize,
    /// What the memory of some processes would become, where a sample of it was looked at.
    pub estimates: &'a [Estimate],
    /// Who sets what at boot; empty where nobody asked.
    pub owners: &'a [KnobOwnership],
    /// What looking cost.
    pub cost: Cost,
}

/// What `scan` found.
#[derive(Debug, Clone, Copy)]
pub struct ScanReport<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// Of everything first, then of each part where there are several.
    pub estimates: &'a [Estimate],
    /// What the machine would hold with a zram device full of such memory.
    pub effective: Option<Effective>,
    /// What the reader should know about the sample.
    pub notes: &'a [String],
    /// What looking cost.
    pub cost: Cost,
}

/// What `bench` found.
#[derive(Debug, Clone, Copy)]
pub struct Benched<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// What was measured and what follows.
    pub benchmark: &'a Benchmark,
    /// What measuring cost.
    pub cost: Cost,
}

/// What an experiment's file came to.
#[derive(Debug, Clone, Copy)]
pub struct Experimented<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// The experiment's name.
    pub name: &'a str,
    /// What is asked.
    pub about: &'a str,
    /// What was published about it.
    pub claim: Option<&'a str>,
    /// Nothing is to be concluded.
    pub preview: bool,
    /// Why there are fewer cells than wanted.
    pub stopped: Option<&'a str>,
    /// On each machine.
    pub cells: &'a [CellTried<'a>],
    /// What experimenting cost, the workloads' own part left out.
    pub cost: Cost,
}

/// An experiment on one machine.
#[derive(Debug, Clone, Copy)]
pub struct CellTried<'a> {
    /// `host`, or kernel and memory as `trixie-320M`.
    pub name: &'a str,
    /// The machine: this host or a guest.
    pub snapshot: &'a Snapshot,
    /// Why it ended early, where it did.
    pub trouble: Option<&'a str>,
    /// What the runs say.
    pub trial: &'a Trial,
    /// The runs.
    pub runs: &'a [TrialRun],
}

/// An experiment before it is run.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedExperiment {
    /// Its name.
    pub experiment: String,
    /// What is asked.
    pub about: String,
    /// What was published about it.
    pub claim: Option<String>,
    /// The workload's parameters, in the order in which they are shown.
    pub workload: Vec<(String, String)>,
    /// Where it runs: a line for each cell.
    pub machines: Vec<String>,
    /// How it is measured, in facts.
    pub measured: Vec<(String, String)>,
    /// Name, swap, and what else is set, of each arm.
    pub arms: Vec<[String; 3]>,
    /// The runs of all cells.
    pub runs: u32,
    /// About what all of it takes.
    pub seconds: f64,
}

/// What `plan` answers.
#[derive(Debug, Clone, Copy)]
pub struct PlannedChanges<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// The changes, and what was declined.
    pub plan: &'a pagewise_model::plan::Plan,
    /// What looking cost.
    pub cost: Cost,
}

/// What `apply` answers.
#[derive(Debug, Clone, Copy)]
pub struct AppliedPlan<'a> {
    /// The host, after the last change.
    pub snapshot: &'a Snapshot,
    /// What became of the plan.
    pub outcome: ApplyOutcome<'a>,
    /// What it cost.
    pub cost: Cost,
}

/// What became of a plan.
#[derive(Debug, Clone, Copy)]
pub enum ApplyOutcome<'a> {
    /// It was carried out.
    Applied {
        /// Its id.
        plan: &'a str,
        /// Step by step.
        applied: &'a pagewise_model::plan::Applied,
    },
    /// It does not fit the machine.
    Refused {
        /// Its id.
        plan: &'a str,
        /// Every reason.
        complaints: &'a [pagewise_model::plan::Complaint],
    },
    /// A plan on trial is kept.
    Confirmed {
        /// How it was named.
        id: &'a str,
    },
}

/// What `verify` answers.
#[derive(Debug, Clone, Copy)]
pub struct VerifiedPlans<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// The plans, the oldest first.
    pub plans: &'a [pagewise_model::plan::Verified],
    /// What was added to the ledger.
    pub ledger: &'a LedgerUpdate,
    /// What looking cost.
    pub cost: Cost,
}

/// What `tune` answers.
#[derive(Debug, Clone, Copy)]
pub struct TunedPlan<'a> {
    /// The host before the first change.
    pub snapshot: &'a Snapshot,
    /// The plan; without steps if there is nothing to change.
    pub plan: &'a pagewise_model::plan::Plan,
    /// How short memory was before.
    pub before: &'a HostVerdict,
    /// What came of it; `None` if nothing was changed.
    pub trial: Option<TuneTrial<'a>>,
    /// What looking cost.
    pub cost: Cost,
}

/// What `tune` found while a plan was on trial.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct TuneTrial<'a> {
    /// How `pagewise undo` calls the plan's journal.
    pub journal: &'a str,
    /// Why the plan was undone, in sentences; empty if it is kept.
    pub against: &'a [String],
    /// How short memory was at the end.
    #[serde(rename = "verdict")]
    pub after: &'a HostVerdict,
    /// The plan, compared with the machine, and the gains that were measured again.
    pub verified: &'a [pagewise_model::plan::Verified],
    /// What was added to the ledger.
    pub ledger: &'a LedgerUpdate,
}

/// What `verify` added to the ledger.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct LedgerUpdate {
    /// How many measurements.
    pub added: usize,
    /// Why none was added although some were made; `null` if they were added.
    pub not_added: Option<String>,
}

/// What `ledger` answers.
#[derive(Debug, Clone, Copy)]
pub struct LedgerReport<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// Measurements and hit rates.
    pub ledger: &'a pagewise_model::plan::Ledger,
    /// What looking cost.
    pub cost: Cost,
}

/// What `undo` did.
#[derive(Debug, Clone, Copy)]
pub struct UndoReport<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// What was put back.
    pub runs: &'a [pagewise_model::undo::Recovered],
    /// The plans that stay in force.
    pub plans: &'a [pagewise_model::undo::InForce],
    /// What looking cost.
    pub cost: Cost,
}

/// What `trial` found.
#[derive(Debug, Clone, Copy)]
pub struct TrialReport<'a> {
    /// The experiment's, where it has one.
    pub name: Option<&'a str>,
    /// The host.
    pub snapshot: &'a Snapshot,
    /// What the runs say.
    pub trial: &'a Trial,
    /// The runs.
    pub runs: &'a [TrialRun],
    /// Where they are kept.
    pub evidence: Option<&'a std::path::Path>,
    /// What trying cost, the command's own part left out.
    pub cost: Cost,
}

/// What `thp` found.
#[derive(Debug, Clone, Copy)]
pub struct HugeSeen<'a> {
    /// The host.
    pub interval: &'a Interval,
    /// Processes of interest, by id; `None` means all.
    pub pids: Option<&'a [u32]>,
    /// The cgroup of interest; `None` means all.
    pub cgroup: Option<&'a str>,
    /// Processes that were looked at mapping by mapping.
    pub looked: &'a [ProcessCoverage],
    /// Processes that could not be, and why.
    pub not_looked: &'a [String],
    /// What finding pages cost, where it was asked for.
    pub page_walks: Option<&'a PageWalks>,
    /// What looking cost.
    pub cost: Cost,
}

/// What `thp collapse` did.
#[derive(Debug, Clone, Copy)]
pub struct Collapsed<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// What was done.
    pub collapse: &'a Collapse,
    /// What it cost in all.
    pub cost: Cost,
}

/// What `merge` did.
#[derive(Debug, Clone, Copy)]
pub struct Merged<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// What was done.
    pub merge: &'a Merge,
    /// What it cost in all, the kernel's own part left out.
    pub cost: Cost,
}

/// What `thp collapse --watch` saw over time.
#[derive(Debug, Clone, Copy)]
pub struct WatchReport<'a> {
    /// What was done.
    pub done: Collapsed<'a>,
    /// In order of time.
    pub samples: &'a [WatchSample],
    /// What they show together.
    pub course: &'a WatchCourse,
    /// The command that counts requests.
    pub counter: Option<&'a str>,
}

/// What `thp restrain` found and did.
#[derive(Debug, Clone, Copy)]
pub struct Restrained<'a> {
    /// The host.
    pub snapshot: &'a Snapshot,
    /// What was found and done.
    pub restrain: &'a Restrain,
    /// What it cost in all.
    pub cost: Cost,
}
