// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const PLAN: &str = "Print a plan: changes of swap and memory settings for this machine, each with its \
    reason, its risk and how to undo it, and the changes that were considered and left out, with why. Changes \
    nothing and needs no root.\n\n\
    The plan contains both the running values and the files that set them again at each boot (sysctl.d, \
    tmpfiles.d, zram-generator or a unit of systemd, whichever this machine uses). An expected gain is only \
    printed if it was measured: give the JSON document of `pagewise bench` or `pagewise scan` with --from.\n\n  \
    pagewise plan                            what to change, and why\n  \
    pagewise plan --diff                     the same as differences of files and values\n  \
    pagewise plan --only zram-unused         only what mends this finding of `pagewise doctor`\n  \
    pagewise plan --native-only DIR          write the configuration files below DIR, for other tools";

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// What to optimize for where settings contradict each other
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub(crate) goal: Goal,
    /// Use what was measured: a document of `pagewise bench --json` or `pagewise scan --json`
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Plan only for these rules of the plan or findings of doctor, such as zram-unused,swappiness
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = crate::chosen::plan_rule(),
        hide_possible_values = true)]
    pub(crate) only: Vec<String>,
    /// Print differences: of files as `diff -u` prints them, of settings the old and the new value
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
    /// Write the configuration files of the plan below this folder and do nothing else; the folder must be empty or
    /// new, and nobody else may be able to write to it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["diff", "json"])]
    pub(crate) native_only: Option<PathBuf>,
}

/// As `pagewise_model::plan::Goal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// Work per second; waiting of single requests may vary
    Throughput,
    /// The time in which a page is swapped in
    Latency,
    /// As much memory as possible from the same RAM
    Ratio,
    /// No single one of them
    Balanced,
}
