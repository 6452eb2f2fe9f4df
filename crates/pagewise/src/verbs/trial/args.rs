// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise trial`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pagewise_lab::experiment::ArmSource;
use pagewise_model::typed::{NotAPercentage, parse_duration};
use pagewise_model::{Bytes, Percent};
use pagewise_stats::Metric;

pub(super) const TRIAL: &str = "Compare the kernel settings A and B by running your own command with each: which is \
    better, by how much, and how certain the result is.\n\n\
    The command runs in pairs (once with A and once with B, in random order), in a separate cgroup. Before \
    each run, the trial applies the settings of A or B. After each run, even after Ctrl-C, the trial restores \
    the previous settings of the machine. If the trial is killed, the next trial or `pagewise undo` restores \
    the previous settings. The first run and the warm-up rounds are discarded. If several metrics are given, \
    only the first metric decides the verdict; the trial only reports the other metrics. The verdict is \
    better, worse, equivalent (the difference lies within --min-effect) or undecided. If the verdict is \
    undecided, the output estimates how many more pairs would be needed for a decision. Seven pairs detect an \
    effect of 5 % if the results of equal runs vary by 2 %. With 12 or more pairs, the results are also tested \
    after 50 % and 75 % of the pairs, with statistical bounds corrected for these interim tests; the trial \
    ends early if an interim test is conclusive.\n\n\
    Settings A and B are called the arms of the trial. The swap of an arm can be swap=off, \
    swap=zram:SIZE:ALGORITHM, swap=file:SIZE, or several areas joined by a plus sign in order of use, such as \
    swap=zram:512M:lz4+file:1G. The trial creates the swap areas of an arm before each run of the arm and \
    removes the swap areas after the run. While the machine's own swap is in use, the trial creates no swap \
    area unless --allow-shared-swap is given. With swap=off, a limit of the cgroup bars the command from \
    swapping.\n\n\
    Metrics: time, memory-stall, cpu, kswapd-cpu, major-faults, refaults, refaults-anon, refaults-file, \
    scanned, direct-scans, stolen, scan-efficiency, kept-out, swapped-in, swapped-out, zswap-in, zswap-out, \
    zero-pages-in, zero-pages-out, swap-used, pool, peak-memory, or a regular expression with one capture \
    group. The capture group must match a number in the command's output. If the regular expression matches \
    several times, the last match is used. The metric stolen counts the pages that the kernel reclaimed.";

#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// A setting of arm A, such as vm.swappiness=60 or swap=zram:512M:lz4; may be given several times [default: the
    /// current settings of the machine]
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) a: Vec<ArmSource>,
    /// A setting of arm B, in the same form as a setting of arm A; may be given several times
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) b: Vec<ArmSource>,
    /// Allow arms A and B to have the same settings, to measure how much runs differ by chance
    #[arg(long)]
    pub(crate) aa: bool,
    /// The metric to compare, such as time, cpu, major-faults or 'ops: ([0-9.]+)'; if several are given, only the
    /// first metric decides the verdict, and the trial only reports the other metrics [default: time]
    #[arg(long, value_name = "NAME|REGEX", value_parser = Metric::parse)]
    pub(crate) metric: Vec<Metric>,
    /// Treat larger numbers as better, for metrics that are regular expressions
    #[arg(long)]
    pub(crate) higher_is_better: bool,
    /// Maximum number of pairs of runs; with fewer than six pairs, no difference can be shown
    #[arg(long, value_name = "N", default_value_t = pagewise_stats::USUAL_PAIRS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(pagewise_stats::MOST_PAIRS)))]
    pub(crate) pairs: u32,
    /// Memory limit of the cgroup in which the command runs, such as 256M
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    /// Smallest difference that matters; if the difference between A and B is smaller, the verdict is equivalent
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = effect)]
    pub(crate) min_effect: f64,
    /// Number of warm-up rounds to discard, in addition to the first run, which is always discarded
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) warm_up: u32,
    /// Time limit for each run of the command
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Create the swap of an arm even if this host already uses other swap; pages of other programs may then be
    /// swapped to the swap of the arm
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Write the results of every run, the verdict and a page with charts to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Write the host name, the boot ID and complete command lines to the folder of --evidence; without this option,
    /// names are hashed and arguments are left out
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random order of runs: equal seeds give equal orders [default: random]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// A size of an effect, as a share of one.
pub(super) fn effect(text: &str) -> Result<f64, NotAPercentage> {
    Percent::parse_within(text, 0.0..=50.0).map(Percent::share)
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table in plain text
    Text,
    /// Comma-separated values, with one row per algorithm and block size
    Csv,
}
