// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options that every verb has.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;

/// The options that every verb has, as typed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for every command")]
pub struct Global {
    /// Read a recording of a machine (a file or a folder that `pagewise capture` wrote) instead of this machine
    #[arg(long, global = true, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Print the result as JSON; `pagewise schema COMMAND` prints the JSON Schema of the result
    #[arg(long, global = true)]
    pub json: bool,
    /// Print without colours; the environment variables NO_COLOR=1 and CLICOLOR=0 have the same effect
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Time between two readings of the kernel's counters, such as 200ms, 1s or 1m; pagewise computes rates
    /// from the two readings. With 0, pagewise reads the counters once and shows no rates
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
    /// Time limit for reading the proportional set size (PSS) of all processes; after this time, pagewise shows the
    /// remaining processes without PSS
    #[arg(long, global = true, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    pub smaps_budget: Duration,
    /// Print only the result of the command and errors; do not print progress and notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// In addition to the result, print how much CPU time and memory pagewise used, and which lines of files
    /// in /proc and /sys pagewise could not parse
    #[arg(short, long, global = true)]
    pub verbose: bool,
}
