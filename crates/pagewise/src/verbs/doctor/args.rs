// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

pub(super) const DOCTOR: &str = "Find memory problems: print each problem (finding) with the values that \
    prove it and the commands to run next; exit status 3 if a finding has severity warning or critical \
    and is about the present.\n\n\
    By default, doctor prints only the number of findings of severity info, because they report no loss of \
    memory or time. With --min-severity info, doctor also prints the findings of severity info in full, and \
    exits with status 3 if there is any finding. Each finding comes from a rule; --list lists the rules. You \
    can ignore rules with --ignore or in /etc/pagewise/doctor.toml; doctor then prints only the number of \
    their findings.\n\n\
    With -q, doctor prints one line per finding, and prints nothing if there is no finding:\n\n  \
    WARNING zram-full: /dev/zram0 is full";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Write the findings to this file as a web page, which needs no other file, no script and no network, instead of
    /// printing it. pagewise never overwrites a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["oom", "list", "explain"])]
    pub(crate) html: Option<PathBuf>,
    /// Write an entry to the systemd journal for each finding that begins, worsens or ends since the last run, and
    /// print nothing. For a timer: the exit status does not depend on the findings. Reads no page contents
    #[arg(long, conflicts_with_all = ["html", "oom", "list", "explain", "since", "nagios"])]
    pub(crate) journal: bool,
    /// Print one line as a plugin of Nagios, Icinga or another monitoring system that polls, with performance data;
    /// exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also for every error)
    #[arg(long, conflicts_with_all = ["html", "oom", "list", "explain"])]
    pub(crate) nagios: bool,
    /// Explain the last ten kills by the OOM killer: why each happened, and what would have prevented it
    #[arg(long)]
    pub(crate) oom: bool,
    /// Explain the kills in this text instead, as `pagewise oom FILE` does; - reads the standard input
    #[arg(long, value_name = "FILE", requires = "oom")]
    pub(crate) log: Option<PathBuf>,
    /// State for each kill which single changes would have avoided or delayed it, as `pagewise oom --what-if` does
    #[arg(long, requires = "oom")]
    pub(crate) what_if: bool,
    /// Show only findings of this or a higher severity; findings of a lower severity do not affect the exit status
    /// [default: warning]
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) min_severity: Option<Severity>,
    /// Let the exit status also report what ended within this time, such as memory pressure that is over or a kill in
    /// a cgroup that no longer exists: 1h, 90s [default: only what is present]
    #[arg(long, value_name = "TIME", value_parser = pagewise_model::typed::parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Ignore the findings of the rule with this ID: do not show them and do not let them affect the exit
    /// status; may be given several times
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule_parser(), hide_possible_values = true)]
    pub(crate) ignore: Vec<String>,
    /// Read this configuration file instead of /etc/pagewise/doctor.toml; the file lists the rules to ignore and the
    /// lowest severity to show
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// List the rules by which doctor finds problems: the ID of each rule, its severity, and what it detects
    #[arg(long, conflicts_with_all = ["explain", "ignore", "min_severity", "config"])]
    pub(crate) list: bool,
    /// Explain one rule: what the rule detects, which files it reads, its threshold, and what to do about its
    /// findings
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule_parser(), hide_possible_values = true,
        conflicts_with_all = ["ignore", "min_severity", "config"])]
    pub(crate) explain: Option<String>,
}

impl Doctor {
    /// The arguments of `doctor --oom`.
    pub(crate) fn only_oom(what_if: bool) -> Self {
        Self {
            html: None,
            journal: false,
            nagios: false,
            oom: true,
            log: None,
            what_if,
            since: None,
            min_severity: None,
            ignore: Vec::new(),
            config: None,
            list: false,
            explain: None,
        }
    }
}

/// As `pagewise_model::Severity`, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Severity {
    /// The finding is worth knowing, but no memory or time is being lost
    Info,
    /// The machine is wasting memory or time
    Warning,
    /// Programs are being slowed down or killed, or will be at the next peak of memory use
    Critical,
}
