// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise doctor`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const DOCTOR: &str = "Print every finding with the values that prove it and the command to run next; exit \
    status 3 if there is a warning or worse.\n\n\
    Findings of severity info are worth knowing but do no harm now, so they are counted and not shown. With \
    --min-severity info, findings of severity info are shown and also set the exit status to 3. Findings of \
    rules that --ignore or /etc/pagewise/doctor.toml name are counted and never shown.\n\n\
    With -q, doctor prints one line per finding, and nothing if there is no finding:\n\n  \
    WARNING zram-full: /dev/zram0 is full";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Explain the last ten kills by the OOM killer, and what would have prevented each kill
    #[arg(long)]
    pub(crate) oom: bool,
    /// Show only findings of this severity or a higher one; findings of a lower severity do not affect the exit status
    /// [default: warning]
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) min_severity: Option<Severity>,
    /// Do not show the findings of this rule; may be given several times
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule(), hide_possible_values = true)]
    pub(crate) ignore: Vec<String>,
    /// Read the rules to ignore and the lowest severity to show from this file instead of /etc/pagewise/doctor.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// List the rules of doctor: the id and severity of each rule, and what it detects
    #[arg(long, conflicts_with_all = ["explain", "ignore", "min_severity", "config"])]
    pub(crate) list: bool,
    /// Explain one rule: what it detects, which files it reads, its threshold, and what to do about its findings
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule(), hide_possible_values = true,
        conflicts_with_all = ["ignore", "min_severity", "config"])]
    pub(crate) explain: Option<String>,
}

/// As `pagewise_model::Severity`, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Severity {
    /// Worth knowing, but no memory or time is lost now
    Info,
    /// Memory or time is being wasted now
    Warning,
    /// Programs are slowed down or killed now, or will be at the next peak of memory use
    Critical,
}
