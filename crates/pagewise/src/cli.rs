// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be typed: the one table behind parser, help, completions and man pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use pagewise_model::Percent;
use pagewise_model::typed::parse_duration;

#[path = "verbs/apply/args.rs"]
mod apply;
#[path = "verbs/bench/args.rs"]
mod bench;
#[path = "verbs/capture/args.rs"]
mod capture;
#[path = "verbs/doctor/args.rs"]
mod doctor;
#[path = "verbs/generate/args.rs"]
mod generate;
#[path = "verbs/lab/args.rs"]
mod lab;
#[path = "verbs/merge/args.rs"]
mod merge;
#[path = "verbs/report/args.rs"]
mod report;
#[path = "verbs/scan/args.rs"]
mod scan;
#[path = "verbs/thp/args.rs"]
mod thp;
#[path = "verbs/trial/args.rs"]
mod trial;
#[path = "verbs/undo/args.rs"]
mod undo;
#[path = "verbs/verify/args.rs"]
mod verify;

use apply::APPLY;
pub(crate) use apply::Apply;
use bench::BENCH;
pub(crate) use bench::Bench;
use capture::CAPTURE;
pub(crate) use capture::Capture;
use doctor::DOCTOR;
pub(crate) use doctor::{Doctor, Severity};
pub(crate) use generate::Noun;
pub(crate) use lab::{Guest, Lab, LabCache, LabRun, Picked, Runner, Workload};
use merge::MERGE;
pub(crate) use merge::Merge;
use report::REPORT;
pub(crate) use report::Report;
use scan::SCAN;
pub(crate) use scan::{Amount, Scan, Sources};
use thp::THP;
pub(crate) use thp::{CollapseArgs, RestrainArgs, RunArgs, TargetArgs, Thp, ThpAct};
use trial::TRIAL;
pub(crate) use trial::{Format, Trial};
use undo::UNDO;
pub(crate) use undo::Undo;
use verify::VERIFY;
pub(crate) use verify::Verify;

const EXIT_STATUS: &str = "Exit status: 0 success, 1 error, 2 wrong usage, 3 if doctor finds a warning or \
    worse or verify finds a difference, 130 stopped by Ctrl-C. If the program that reads the output from a pipe closes the pipe early, that \
    is not an error.";

/// Shows how a Linux machine uses its memory, what is wrong, why, and what to do next
#[derive(Debug, Parser)]
#[command(name = "pagewise", version, after_help = EXIT_STATUS, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do [default: report]
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// For every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct Global {
    /// Read this recording, made by `capture`, instead of the machine: a file or a folder
    #[arg(long, global = true, value_name = "DIR|FILE")]
    pub(crate) root: Option<PathBuf>,
    /// Print JSON for programs; `pagewise schema` describes it
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no colours, as with NO_COLOR=1 or CLICOLOR=0 in the environment
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Time between the two readings from which rates are computed, such as 200ms, 1s or 1m; with 0, pagewise reads
    /// once and shows no rates
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Time limit for reading the proportional set size (PSS) of processes; with 0, no PSS is read
    #[arg(long, global = true, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    pub(crate) smaps_budget: Duration,
    /// Print only the result of the command and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print how much CPU time and memory pagewise used, and every line of a kernel file that it could not parse
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print a report on one page: how memory is used, what is wrong, and what to do
    #[command(long_about = REPORT)]
    Report(Box<Report>),
    /// Print an overview of memory from a single reading, without rates and findings
    Status,
    /// Print every finding with the values that prove it and the command to run next; exit status 3 if there is a
    /// warning or worse
    #[command(long_about = DOCTOR)]
    Doctor(Doctor),
    /// Estimate how small the memory in use would become if compressed (with each algorithm) or merged
    #[command(long_about = SCAN)]
    Scan(Box<Scan>),
    /// Find the best zram algorithm for the memory in use: measure each one on temporary zram devices and in real
    /// swap
    #[command(long_about = BENCH)]
    Bench(Box<Bench>),
    /// Compare two kernel settings by running your own command with each; the result can be "no difference shown"
    #[command(long_about = TRIAL)]
    Trial(Box<Trial>),
    /// Show which memory is in huge pages and which other memory could be; collapse memory into huge pages or split
    /// them
    #[command(long_about = THP)]
    Thp(Box<Thp>),
    /// Merge the identical pages in zmerge devices immediately; needs root
    #[command(long_about = MERGE)]
    Merge(Merge),
    /// Carry out a plan, with a journal by which it can be undone; needs root
    #[command(long_about = APPLY)]
    Apply(Apply),
    /// Compare the machine with the plans that were applied; exit status 3 if it differs
    #[command(long_about = VERIFY)]
    Verify(Verify),
    /// Undo a plan, or what a killed run of pagewise left behind; needs root
    #[command(long_about = UNDO)]
    Undo(Undo),
    /// Record this machine's memory statistics in a redacted file, to send to somebody or to use in tests
    #[command(long_about = CAPTURE)]
    Capture(Capture),
    /// Run experiments that compare memory settings, in guests with stock kernels or on this host
    Lab {
        /// What to do
        #[command(subcommand)]
        what: Lab,
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
    /// Print the JSON Schema of the document that a command prints with --json
    Schema {
        /// The command whose JSON document the schema describes
        noun: Noun,
    },
    /// Name or remove a file that a confined process filled: a helper of `scan --dump`
    #[command(hide = true)]
    SettleFile {
        /// What it is called until then
        unfinished: PathBuf,
        /// What it is to be called
        path: PathBuf,
    },
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().map(Percent::get);
    let sane = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    sane.ok_or_else(|| format!("expected a percentage above 0 and up to 100, found {text:?}"))
}

#[cfg(test)]
#[path = "cli/tests.rs"]
mod tests;
