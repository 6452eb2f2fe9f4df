// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise trial`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_lab::experiment::ArmSource;
use pagewise_model::typed::{NotAPercentage, parse_duration};
use pagewise_model::{Bytes, Percent};
use pagewise_stats::Metric;

/// The long help of `pagewise trial`.
pub(crate) const TRIAL: &str = "Compare two sets of kernel settings, A and B, by running your own command \
    with each set several times. The result says which set is better, by how much, and how certain this \
    is.\n\n\
    The trial runs your command in pairs of runs (once with A and once with B, in random order), in a \
    separate cgroup. Before each run, the trial applies the settings of A or B. After each run, even after \
    Ctrl-C, the trial restores the previous settings of the machine. If the trial is killed, the next \
    pagewise command that changes the machine, or `pagewise undo`, restores the previous settings. The \
    results of the very first run, and of the warm-up rounds after it (--warm-up), are discarded. If you \
    give several metrics, only the first metric decides the verdict of the trial; the output shows the other \
    metrics for information. The verdict is that B is better than A, that B is worse than A, that A and B \
    are equivalent (they differ by less than --min-effect), or that the trial is undecided. If the trial is \
    undecided, the output estimates how many more pairs would be needed for a decision. Seven pairs usually \
    suffice to detect a difference of 5 % if runs with the same settings vary by 2 %. With 12 or more pairs, \
    the trial makes interim tests of its results: after 50 % of the pairs, if these are at least 9 pairs, \
    and after 75 %. All confidence intervals are widened, so that the interim tests do not raise the risk of \
    a wrong verdict. If an interim test is conclusive, the trial ends early.\n\n\
    A and B, each with its settings and its swap, are called the arms of the trial. The swap of an arm is \
    given as swap=off, swap=zram:SIZE:ALGORITHM or swap=file:SIZE. For several swap areas, join the areas \
    by a plus sign in order of use, such as swap=zram:512M:lz4+file:1G. To use zswap, name it before the \
    swap areas, such as swap=zswap:lz4:20:shrinker+file:1G: the compressor, the maximum size of the pool in \
    percent of RAM, and whether the shrinker is on. The trial creates the swap areas \
    of an arm before each run of the arm and removes them after the run. If the machine already uses swap \
    of its own, the trial refuses to create swap areas unless --allow-shared-swap is given. With swap=off, \
    the kernel does not swap out pages of the command.\n\n\
    Metrics of time: time, memory-stall (PSI full), cpu, kswapd-cpu. Numbers of pages: refaults, \
    refaults-anon, refaults-file, scanned, direct-scans (scanned in direct reclaim), stolen (reclaimed), \
    swapped-in, swapped-out, zswap-in, zswap-out, zero-pages-in and zero-pages-out (swapped pages of zeros), \
    swap-ins (pages swapped in from wherever they were), disk-swap-reads and disk-swap-writes (swap on disks \
    and in files), written-back (from zswap to disk), zswap-refused (not accepted by zswap). \
    Peak memory use: swap-used, pool (zswap and the zram devices of the arm), peak-memory. Other metrics: \
    major-faults, scan-efficiency (reclaimed pages per scanned page), kept-out (share of the reclaimed pages \
    that were not read back during the run), refused-share (of the pages swapped out, those that zswap did \
    not accept). A regular expression with one capture group that matches a \
    number in the command's output is also a metric. If the regular expression matches several times, the \
    last match is used.\n\n  \
    pagewise trial --list-knobs              list the settings that an arm may set\n  \
    sudo pagewise trial --b vm.swappiness=100 --memory 256M -- ./my-test";

/// The arguments after `pagewise trial`.
#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// A setting for the runs of A, such as vm.swappiness=60 or swap=zram:512M:lz4; may be given several times
    /// [default: the current settings of the machine]
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) a: Vec<ArmSource>,
    /// A setting for the runs of B, in the same form as for --a; may be given several times [default: the current
    /// settings of the machine]
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) b: Vec<ArmSource>,
    /// Allow A and B to have the same settings, to measure how much runs differ by chance
    #[arg(long)]
    pub(crate) aa: bool,
    /// The metric to compare, such as time, cpu, major-faults or 'ops: ([0-9.]+)'; may be given several
    /// times: only the first metric decides the verdict of the trial, and the output shows the other metrics
    /// for information [default: time]
    #[arg(long, value_name = "NAME|REGEX", value_parser = Metric::parse)]
    pub(crate) metric: Vec<Metric>,
    /// If the metric is a regular expression, treat larger numbers as better; without this option, smaller
    /// numbers are better
    #[arg(long)]
    pub(crate) higher_is_better: bool,
    /// Maximum number of pairs of runs (one run with A and one with B); with fewer than six pairs, no difference can
    /// be statistically significant
    #[arg(long, value_name = "N", default_value_t = pagewise_stats::USUAL_PAIRS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(pagewise_stats::MOST_PAIRS)))]
    pub(crate) pairs: u32,
    /// Memory limit of the cgroup in which the command runs, such as 256M
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    /// Smallest difference between A and B that matters to you; if the whole confidence interval of the
    /// difference lies within plus or minus this value, the verdict is equivalent
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = parse_effect)]
    pub(crate) min_effect: f64,
    /// Number of warm-up rounds (one run with A and one with B) whose results are discarded, in addition to the very
    /// first run
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) warm_up: u32,
    /// Time limit for each run of the command
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Create the swap areas of --a and --b even if this host already uses other swap areas; the kernel may then swap
    /// pages of other programs to the swap areas of the trial
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Write the results of every run, the verdict and an HTML page with charts to this folder, which must be empty
    /// or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot ID and complete command lines in the files of --evidence; without this
    /// option, pagewise hashes the host name and the boot ID, and leaves out the arguments of command lines
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random order of runs: two trials with the same seed run A and B in the same order
    /// [default: random]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// List the settings that --a and --b accept, with their values on this machine, and run nothing
    #[arg(long, conflicts_with_all = ["a", "b", "aa", "metric", "evidence", "command"])]
    pub(crate) list_knobs: bool,
    /// The command to run
    #[arg(last = true, required_unless_present = "list_knobs", value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Parses the size of an effect as a fraction of one.
fn parse_effect(text: &str) -> Result<f64, NotAPercentage> {
    Percent::parse_within(text, 0.0..=50.0).map(Percent::share)
}
