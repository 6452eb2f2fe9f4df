// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line: the one table from which parser, help, completions and man pages are made.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use pagewise_model::Percent;
use pagewise_terminal::{Deferred, Global};

#[path = "verbs/age/args.rs"]
mod age;
#[path = "verbs/agent/args.rs"]
mod agent;
#[path = "verbs/apply/args.rs"]
mod apply;
#[path = "verbs/bench/args.rs"]
mod bench;
#[path = "verbs/capabilities/args.rs"]
mod capabilities;
#[path = "verbs/capture/args.rs"]
mod capture;
#[path = "verbs/compare/args.rs"]
mod compare;
#[path = "verbs/doctor/args.rs"]
mod doctor;
#[path = "verbs/explain/args.rs"]
mod explain;
#[path = "verbs/fleet/args.rs"]
mod fleet;
#[path = "verbs/generate/args.rs"]
mod generate;
#[path = "cli/groups.rs"]
pub(crate) mod groups;
#[path = "verbs/lab/args.rs"]
pub(crate) mod lab;
#[path = "verbs/ledger/args.rs"]
mod ledger;
#[path = "verbs/limits/args.rs"]
mod limits;
#[path = "verbs/merge/args.rs"]
mod merge;
#[path = "verbs/metrics/args.rs"]
mod metrics;
#[path = "verbs/monitor/args.rs"]
mod monitor;
#[path = "verbs/oom/args.rs"]
mod oom;
#[path = "verbs/pin/args.rs"]
mod pin;
#[path = "verbs/plan/args.rs"]
mod plan;
#[path = "verbs/report/args.rs"]
mod report;
#[path = "verbs/scan/args.rs"]
mod scan;
#[path = "verbs/status/args.rs"]
mod status;
#[path = "verbs/thp/args.rs"]
mod thp;
#[path = "verbs/trial/args.rs"]
mod trial;
#[path = "verbs/tune/args.rs"]
mod tune;
#[path = "verbs/undo/args.rs"]
mod undo;
#[path = "verbs/verify/args.rs"]
mod verify;
#[path = "verbs/why/args.rs"]
mod why;

use age::AGE;
pub(crate) use age::Age;
use agent::AGENT;
pub(crate) use agent::{Agent, AgentAct};
use apply::APPLY;
pub(crate) use apply::Apply;
use bench::BENCH;
pub(crate) use bench::{Bench, Format};
use capabilities::CAPABILITIES;
pub(crate) use capabilities::Capabilities;
use capture::CAPTURE;
pub(crate) use capture::Capture;
use compare::COMPARE;
pub(crate) use compare::Compare;
use doctor::DOCTOR;
pub(crate) use doctor::{Doctor, Severity};
use explain::EXPLAIN;
pub(crate) use explain::Explain;
use fleet::FLEET;
pub(crate) use fleet::{Fleet, FleetAct};
pub(crate) use generate::{NameKind, Noun};
use lab::{LAB, LabArgs};
use ledger::LEDGER;
use limits::LIMITS;
pub(crate) use limits::Limits;
use merge::MERGE;
pub(crate) use merge::Merge;
use metrics::METRICS;
pub(crate) use metrics::Metrics;
use monitor::MONITOR;
pub(crate) use monitor::{AdviseBy, Monitor};
use oom::OOM;
pub(crate) use oom::Oom;
use pin::PIN;
pub(crate) use pin::Pin;
use plan::PLAN;
pub(crate) use plan::{Goal, Plan, PlanChoice, RenderFormat};
use report::REPORT;
pub(crate) use report::Report;
use scan::SCAN;
pub(crate) use scan::{Amount, Scan, Sources};
use status::{STATUS, TOP};
pub(crate) use status::{Status, Top};
use thp::THP;
pub(crate) use thp::{
    CollapseArgs, DropInArgs, RestrainArgs, RunArgs, SwitchArgs, TargetArgs, Thp, ThpAct,
};
use trial::TRIAL;
pub(crate) use trial::Trial;
use tune::TUNE;
pub(crate) use tune::{CounterSource, Tune};
use undo::UNDO;
pub(crate) use undo::Undo;
use verify::VERIFY;
pub(crate) use verify::Verify;
use why::WHY;
pub(crate) use why::Why;

/// What `--version` prints: the version and, if PAGEWISE_VERSION was set at build time, the commit
/// and its date. xtask/scripts/build-static.sh sets the variable; whoever builds from an archive
/// without git may set it, too.
const VERSION: &str = match option_env!("PAGEWISE_VERSION") {
    Some(version) => {
        assert!(
            begins_with(version, env!("CARGO_PKG_VERSION")),
            "PAGEWISE_VERSION: another version"
        );
        version
    }
    None => env!("CARGO_PKG_VERSION"),
};

/// `str::starts_with` for constants.
const fn begins_with(text: &str, start: &str) -> bool {
    match text.as_bytes().split_at_checked(start.len()) {
        Some((first, _)) => is_equal(first, start.as_bytes()),
        None => false,
    }
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    one.len() == other.len()
}

const EXIT_STATUS: &str = "Exit status: 0 success; 1 error; 2 wrong usage; 3 doctor found a problem of \
    severity warning or critical, why found that memory was short, verify found that the machine differs from a plan, tune undid its changes, \
    age did not help, or lab cache verify found a changed file; 130 stopped by Ctrl-C. If the output goes through a pipe to a \
    program that stops reading early, as head does, pagewise ends without an error.";

/// Show how a Linux machine uses its memory, find memory problems and their causes, and suggest what to do about them
#[derive(Debug, Parser)]
#[command(name = "pagewise", version = VERSION, after_help = EXIT_STATUS, max_term_width = 100)]
#[command(defer(groups::group_verbs))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command to run [default: report]
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// The verbs, in the order of [`groups::GROUPS`]. The first line of each is its line in the help of the
/// program.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print use, problems and advice on one page
    #[command(long_about = REPORT)]
    Report(Deferred<Report>),
    /// Print the main numbers in a few lines
    #[command(long_about = STATUS)]
    Status(Deferred<Status>),
    /// Show status live, updated every second
    #[command(long_about = TOP)]
    Top(Deferred<Top>),
    /// Find memory problems, and prove each
    #[command(long_about = DOCTOR)]
    Doctor(Deferred<Doctor>),
    /// Explain who was OOM-killed, and why
    #[command(long_about = OOM)]
    Oom(Deferred<Oom>),
    /// Say what happened to memory at some time
    #[command(long_about = WHY)]
    Why(Deferred<Why>),
    /// Explain a subject with this machine's values
    #[command(long_about = EXPLAIN)]
    Explain(Deferred<Explain>),
    /// Compare two recordings, or before and now
    #[command(long_about = COMPARE)]
    Compare(Deferred<Compare>),
    /// Estimate what compression would save
    #[command(long_about = SCAN)]
    Scan(Deferred<Scan>),
    /// Measure zram algorithms on memory in use
    #[command(long_about = BENCH)]
    Bench(Deferred<Bench>),
    /// Print which memory limit each cgroup needs
    #[command(long_about = LIMITS)]
    Limits(Deferred<Limits>),
    /// Show and change what is in huge pages
    #[command(long_about = THP)]
    Thp(Deferred<Thp>),
    /// Compare two settings with your own command
    #[command(long_about = TRIAL)]
    Trial(Deferred<Trial>),
    /// Run experiments on this host or in guests
    #[command(long_about = LAB)]
    Lab(Deferred<LabArgs>),
    /// Print which settings to change, and why
    #[command(long_about = PLAN)]
    Plan(Deferred<Plan>),
    /// Carry out a plan, with a journal for undo
    #[command(long_about = APPLY)]
    Apply(Deferred<Apply>),
    /// Check applied plans; --history: their gains
    #[command(long_about = VERIFY)]
    Verify(Deferred<Verify>),
    /// Undo a plan, or what a killed run left
    #[command(long_about = UNDO)]
    Undo(Deferred<Undo>),
    /// Apply a plan on trial, keep it if it helps
    #[command(long_about = TUNE)]
    Tune(Deferred<Tune>),
    /// Keep the code of running programs in RAM
    #[command(long_about = PIN)]
    Pin(Deferred<Pin>),
    /// Merge identical pages on zmerge devices
    #[command(long_about = MERGE)]
    Merge(Deferred<Merge>),
    /// Age the pages of a cgroup, within a budget
    #[command(long_about = AGE)]
    Age(Deferred<Age>),
    /// Record memory all the time, serve metrics
    #[command(long_about = MONITOR)]
    Monitor(Deferred<Monitor>),
    /// Print metrics for Prometheus once
    #[command(long_about = METRICS)]
    Metrics(Deferred<Metrics>),
    /// Age named cgroups when they need it
    #[command(long_about = AGENT)]
    Agent(Deferred<Agent>),
    /// Record this machine in a redacted file
    #[command(long_about = CAPTURE)]
    Capture(Deferred<Capture>),
    /// See many machines at once
    #[command(long_about = FLEET)]
    Fleet(Deferred<Fleet>),
    /// Print the JSON Schema of a command's output
    Schema {
        /// The command whose JSON output the schema describes
        noun: Noun,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell for which to print the script
        shell: Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder for the man pages; it is created if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// The former name of `report --only capabilities`; --labels prints labels of a Kubernetes node
    #[command(long_about = CAPABILITIES, hide = true)]
    Capabilities(Deferred<Capabilities>),
    /// The former name of `verify --history`
    #[command(long_about = LEDGER, hide = true)]
    Ledger,
    /// Print names for completions: a helper of the scripts that `completions` prints
    #[command(hide = true)]
    Names {
        /// Which names
        kind: NameKind,
        /// What was typed of the word until now
        #[arg(allow_hyphen_values = true)]
        typed: Option<String>,
    },
    /// Show text from standard input in the pager: a helper of `report`
    #[command(hide = true)]
    ShowInPager,
    /// Name or remove a file that a confined process filled: a helper of `scan --dump`
    #[command(hide = true)]
    SettleFile {
        /// What it is called until then
        unfinished: PathBuf,
        /// What it is to be called
        path: PathBuf,
    },
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().map(Percent::get);
    let sane = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    sane.ok_or_else(|| format!("expected a percentage above 0 and up to 100, found {text:?}"))
}

#[cfg(test)]
#[path = "cli/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "cli/documents.rs"]
mod documents;
