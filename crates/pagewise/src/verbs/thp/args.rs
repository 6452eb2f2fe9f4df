// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise thp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pagewise_model::Percent;
use pagewise_model::typed::{NotAPercentage, parse_duration};

use super::percent;

pub(super) const THP: &str = "Show which memory is in huge pages and which other memory could be; collapse memory into \
    huge pages or split them.\n\n\
    If the base page size is 4 KiB, a huge page of 2 MiB needs one TLB entry instead of 512, so a program that \
    uses much memory spends less time on address translation. The output shows the huge page settings of the \
    host, what khugepaged does, and how much memory of each cgroup and of each process is in huge pages. With \
    --pid, --name or --cgroup, the output shows for each mapping of the named processes how much of the \
    mapping is in huge pages, how much of the remaining mapping is populated, and how much memory collapsing \
    the mapping would add. The command takes 3 to 6 ms per GiB of small pages and reads no page contents.";

/// Where huge pages are, and what can be done about it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Thp {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Count TLB misses and the cycles spent in page walks for this long, in the named processes or on the whole
    /// machine; needs access to the performance counters of the CPU
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) page_walks: Option<Duration>,
    /// Measure how much time huge pages save on this machine: chase pointers through 240 MiB of memory of pagewise
    /// itself, half in small pages and half in huge pages; takes a few seconds
    #[arg(long, conflicts_with_all = ["whose", "page_walks"])]
    pub(crate) canary: bool,
    /// With --canary: measure hugetlb pages too; if no hugetlb page is free, pagewise enlarges the hugetlb pool for
    /// the measurement and restores the size of the pool afterwards; enlarging the pool needs root
    #[arg(long, requires = "canary")]
    pub(crate) hugetlb: bool,
    /// What to do; without a subcommand, pagewise only reports
    #[command(subcommand)]
    pub(crate) what: Option<ThpAct>,
}

/// Whose memory: at most one of these.
#[derive(Debug, Args)]
#[group(id = "whose", multiple = false)]
pub(crate) struct TargetArgs {
    /// A process ID; may be given several times
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// All processes in this memory cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Processes with this name, such as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThpAct {
    /// Collapse memory of running processes into huge pages, up to a limit on memory growth; needs root
    #[command(long_about = COLLAPSE)]
    Collapse(CollapseArgs),
    /// Run a command with huge pages on, off, or only for memory for which the program requests them
    #[command(long_about = RUN, after_help = RUN_STATUS)]
    Run(RunArgs),
    /// Find huge pages that contain mostly zeros, and split them with --split
    #[command(long_about = RESTRAIN)]
    Restrain(RestrainArgs),
    /// Print sets of huge page settings (profiles), each with its purpose
    Profiles,
}

const RUN: &str = "Run a command with huge pages on, off, or only for memory for which the program requests \
    them.\n\n\
    Each memory allocator has its own environment variable that switches huge pages on or off. \
    `pagewise thp run` sets the variables of glibc, jemalloc, mimalloc, Go and the JVM (GLIBC_TUNABLES, \
    MALLOC_CONF, MIMALLOC_*, GODEBUG, JAVA_TOOL_OPTIONS), and keeps what these variables already contain. In \
    addition to the variables, --off and --advised set a flag of the process in the kernel; child processes \
    inherit this flag. If none of these variables affects a program, for example a statically linked program, \
    pagewise collapses the memory of the program from outside after the time of --check. Collapsing needs \
    root. Then pagewise checks whether the program really obtained huge pages, and prints the result on \
    standard error.\n\n\
    In containers, the environment variable PAGEWISE_THP with the value on, off or advised can replace the \
    options; an option takes precedence over PAGEWISE_THP.";

const RUN_STATUS: &str = "Exit status: the exit status of the command; 128 plus the signal number if a signal \
    ended the command; 127 if the command does not exist.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Use huge pages wherever the allocator can request them (default)
    #[arg(long, group = "switch")]
    pub(crate) on: bool,
    /// Use no huge pages
    #[arg(long, group = "switch")]
    pub(crate) off: bool,
    /// Use huge pages only for memory for which the program itself requests them
    #[arg(long, group = "switch")]
    pub(crate) advised: bool,
    /// Time to wait before checking whether the command obtained huge pages; with 0, pagewise does not check, and the
    /// command replaces the pagewise process
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) check: Duration,
    /// Limit on the number of arenas of glibc's malloc (MALLOC_ARENA_MAX). glibc creates up to eight arenas per core,
    /// and free memory of one arena cannot be used by another; the number of cores is a good first value [default:
    /// not set]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) arenas: Option<u16>,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

const RESTRAIN: &str = "Find huge pages that contain mostly zeros, and split them with --split.\n\n\
    A huge page to which a program wrote only a little wastes memory on zeros. `pagewise thp restrain` reads \
    the contents of the huge pages of the named processes and counts the zero pages in these huge pages. The \
    command keeps no page contents. The command reads processes of other users only with --measure. With \
    --split, the command splits huge pages that contain mostly zeros, by giving the kernel the advice \
    MADV_COLD for a part of each of these huge pages. After the split, kernel 6.12 or later frees the small \
    pages that contain only zeros. The kernel can also find and split huge pages of zeros by itself; the \
    output names the settings for this.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct RestrainArgs {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Split the huge pages that are found; without this option, the command only reports them
    #[arg(long)]
    pub(crate) split: bool,
    /// Read page contents of other users' processes, not only of your own processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Time limit for reading page contents
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) budget: Duration,
}

const COLLAPSE: &str = "Collapse memory of running processes into huge pages, up to a limit on memory growth \
    (--max-growth). Needs root.\n\n\
    The command collapses private anonymous memory in ranges of the size of a huge page (2 MiB on x86-64), the \
    ranges with the most present pages first. A range qualifies for collapsing if at least half of its pages \
    are present and no page of the range is shared with another process. Collapsing a shared page would copy \
    the page. The command stops if tasks wait for memory, if little memory is available, if a cgroup is near \
    its limit, or if no huge page is free. Collapsing cannot be undone, but the kernel splits huge pages again \
    if the kernel has to. Contents and addresses of the memory do not change.\n\n\
    If a program forks a child to save its data and writes to memory meanwhile, copy-on-write replaces the \
    written huge pages by small ones; with --watch, the command collapses this memory again after the child \
    has ended.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct CollapseArgs {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Limit on how much collapsing may add to the memory of the processes (PSS) or, with --cgroup, to the memory
    /// charged to the cgroup
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = growth)]
    pub(crate) max_growth: f64,
    /// Time limit for one pass over the processes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) deadline: Duration,
    /// CPU limit for this command, in percent of one CPU
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = percent)]
    pub(crate) pace: f64,
    /// Observe for this long which memory is accessed (with DAMON), and collapse the accessed memory first [default:
    /// ranges with the most present pages first]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) by_access: Option<Duration>,
    /// Until the processes end, check every few seconds how much of their memory is in huge pages, and collapse memory
    /// again if the share of memory in huge pages fell
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) watch: bool,
    /// Time between two checks of --watch
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "watch")]
    pub(crate) every: Duration,
    /// Sample the share of memory in huge pages and the CPU time of the processes twice a second, and write the
    /// samples and a page with charts to this folder, which must be empty or new. With --evidence, the first collapse
    /// starts only after the time of --every
    #[arg(long, value_name = "DIR", requires = "watch")]
    pub(crate) evidence: Option<PathBuf>,
    /// Write the host name, the boot ID and complete command lines to the folder of --evidence; without this option,
    /// names are hashed and arguments are left out
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// A command that prints how many requests the processes have served so far, to compute the CPU time per request
    #[arg(long, value_name = "CMD", requires = "evidence")]
    pub(crate) counter: Option<String>,
    /// Collapse even ranges that are partly in swap; the swapped-out pages of such a range are swapped in first
    #[arg(long)]
    pub(crate) swapped: bool,
    /// Only report which memory would be collapsed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How much more memory there may be, as a share of one. Collapsing a range doubles it at most.
pub(super) fn growth(text: &str) -> Result<f64, NotAPercentage> {
    Percent::parse_within(text, 0.0..=100.0).map(Percent::share)
}
