// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise thp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use pagewise_model::Percent;
use pagewise_model::typed::{NotAPercentage, parse_duration};

use super::parse_percent;

pub(super) const THP: &str = "Show which memory is in huge pages, and which other memory could be in huge \
    pages; collapse memory into huge pages, or split huge pages.\n\n\
    If the base page size is 4 KiB, a huge page of 2 MiB needs one TLB entry instead of 512, so a program \
    that uses much memory spends less time on address translation. The output shows the huge page settings \
    of the host, how many huge pages khugepaged has made since boot, and how much CPU time khugepaged has \
    used. It also shows how much memory of each cgroup and of each process is in huge pages. With --pid, \
    --name or --cgroup, the output also lists the mappings of the selected processes. For each mapping, the \
    output shows how much is in huge pages, how much of the rest is in RAM, and how much the process would \
    grow if the mapping were collapsed. To examine the mappings, the command takes 3 to 6 ms of CPU time for \
    each GiB of memory in small pages. The command reads no page contents.";

/// Where huge pages are, and the subcommands that change it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Thp {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Write the answer to this file as a web page, which needs no other file, no script and no network, instead of
    /// printing it. pagewise never overwrites a file
    #[arg(long, value_name = "FILE", conflicts_with = "canary")]
    pub(crate) html: Option<PathBuf>,
    /// Count TLB misses and CPU cycles spent in page walks for this long, in the selected processes or on the whole
    /// machine; needs access to the performance counters of the CPU
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) page_walks: Option<Duration>,
    /// Measure how much time huge pages save on this machine, by following random pointers through 240 MiB of
    /// pagewise's own memory, half in small pages and half in huge pages; takes a few seconds
    #[arg(long, conflicts_with_all = ["whose", "page_walks"])]
    pub(crate) canary: bool,
    /// Let --canary measure hugetlb pages too. If no hugetlb page is free, pagewise enlarges the hugetlb pool for the
    /// measurement, which needs root, and then restores the size of the pool
    #[arg(long, requires = "canary")]
    pub(crate) hugetlb: bool,
    /// The subcommand to run; without a subcommand, pagewise only prints which memory is in huge pages
    #[command(subcommand)]
    pub(crate) what: Option<ThpAct>,
}

/// Selects processes: at most one of these.
#[derive(Debug, Args)]
#[group(id = "whose", multiple = false)]
pub(crate) struct TargetArgs {
    /// Select the process with this ID; may be given several times
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Select all processes in this memory cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Select all processes of this container or systemd unit: the ID that `docker ps`, `podman ps` or `crictl ps` shows
    /// or how it begins, the name of an LXC container, or a unit such as nginx or postgresql@15-main.service
    #[arg(long, value_name = "UNIT", visible_alias = "container")]
    pub(crate) unit: Option<String>,
    /// Select all processes with this name, such as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThpAct {
    /// Collapse memory of running processes into huge pages, within a limit on how much the processes may grow; needs
    /// root
    #[command(long_about = COLLAPSE)]
    Collapse(CollapseArgs),
    /// Run a command with huge pages on, with huge pages off, or with huge pages only where the program requests them
    #[command(long_about = RUN, after_help = RUN_STATUS)]
    Run(RunArgs),
    /// Find huge pages that contain mostly zeros; with --split, split these huge pages
    #[command(long_about = RESTRAIN)]
    Restrain(RestrainArgs),
    /// Print a systemd drop-in that gives a unit huge pages, or takes them from it
    #[command(long_about = DROP_IN)]
    DropIn(DropInArgs),
    /// Add the variables for huge pages to the configuration of an OCI container; a hook for Podman and CRI-O
    #[command(long_about = OCI_HOOK)]
    OciHook,
    /// Print sets of huge page settings (profiles), each with its purpose
    Profiles,
}

const DROP_IN: &str = "Print a systemd drop-in that gives a unit huge pages, or takes them from it.\n\n\
    The drop-in sets the environment variables of memory allocators as `pagewise thp run` does, merged with the \
    variables that the unit has, and PAGEWISE_THP, by which `pagewise thp collapse --opted-in` finds the unit. If \
    systemd has the setting MemoryTHP= (version 260), --off and --advised use it. The command changes nothing.";

const OCI_HOOK: &str = "Read the configuration of an OCI container from standard input, and print it on standard \
    output. If the container has PAGEWISE_THP=on or =off in its environment, or the annotation dev.pagewise.thp, the \
    command adds the environment variables by which memory allocators request huge pages or do without, and keeps what \
    these variables already contain. It never fails: if it does not understand the configuration, it prints it as it \
    was, and the reason on standard error.\n\n\
    Podman and CRI-O run the command for each container if this file is in /etc/containers/oci/hooks.d:\n\n  \
    {\"version\": \"1.0.0\", \"hook\": {\"path\": \"/usr/bin/pagewise\", \"args\": [\"pagewise\", \"thp\", \"oci-hook\"]},\n   \
    \"when\": {\"always\": true}, \"stages\": [\"precreate\"]}";

#[derive(Debug, Args)]
pub(crate) struct DropInArgs {
    /// The unit, such as redis-server or redis-server.service
    #[arg(value_name = "UNIT")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

/// The requested huge page policy: at most one of these.
#[derive(Debug, Args)]
#[group(id = "switch", multiple = false)]
pub(crate) struct SwitchArgs {
    /// Use huge pages wherever the allocator can request them (default)
    #[arg(long)]
    pub(crate) on: bool,
    /// Use no transparent huge pages
    #[arg(long)]
    pub(crate) off: bool,
    /// Use huge pages only where the program itself requests them (madvise)
    #[arg(long)]
    pub(crate) advised: bool,
}

const RUN: &str = "Run a command with huge pages on, with huge pages off, or with huge pages only where \
    the program requests them.\n\n\
    Many memory allocators have an environment variable that switches huge pages on or off. With --on or \
    --off, `pagewise thp run` sets the variables of glibc, jemalloc, mimalloc, Go and the JVM \
    (GLIBC_TUNABLES, MALLOC_CONF, MIMALLOC_*, GODEBUG, JAVA_TOOL_OPTIONS), and keeps what these variables \
    already contain. With --off or --advised, `pagewise thp run` calls prctl(PR_SET_THP_DISABLE) for the \
    command; --advised adds the flag PR_THP_DISABLE_EXCEPT_ADVISED. Processes that the command starts \
    inherit this setting. On kernels before 6.18, which do not know this flag, --advised fails if \
    /sys/kernel/mm/transparent_hugepage/enabled is always. After the time given with --check, pagewise \
    measures how much memory of the program is in huge pages, and prints the result on standard error. With \
    --on, if less than half of the program's memory is in huge pages, pagewise also collapses the memory of \
    the running program. This is necessary for Go programs, for example, because no variable switches huge \
    pages on for them. Collapsing needs root; without root, pagewise only prints that it could not collapse \
    the memory.\n\n\
    In containers, you can set the environment variable PAGEWISE_THP to on, off or advised instead of \
    giving an option; an option takes precedence over PAGEWISE_THP.";

const RUN_STATUS: &str = "Exit status: the exit status of the command; 128 plus the signal number if a signal \
    ended the command; 127 if the command does not exist.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
    /// Time to wait before checking whether the command obtained huge pages; with 0, pagewise does not check, and the
    /// command replaces the pagewise process
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) check: Duration,
    /// Maximum number of arenas of glibc's malloc (MALLOC_ARENA_MAX). glibc creates up to eight arenas per CPU, and
    /// memory that is free in one arena cannot be used by another; the number of CPUs is a good value to start with
    /// [default: not set]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) arenas: Option<u16>,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

const RESTRAIN: &str = "Find huge pages that contain mostly zeros; with --split, split these huge \
    pages.\n\n\
    If a program writes to only a small part of a huge page, the rest of the huge page wastes memory on \
    zeros. `pagewise thp restrain` reads the huge pages of the selected processes. In each huge page, the \
    command counts the small pages (such as 512 pages of 4 KiB in a huge page of 2 MiB) that contain only \
    zeros. The command keeps no page contents, and reads the memory of other users' processes only with \
    --measure. With --split, the command splits each huge page in which more than half of the small pages \
    contain only zeros. To split a huge page, the command applies madvise(MADV_COLD) to one of its small \
    pages. After the split, kernel 6.12 or later frees the small pages that contain only zeros. The kernel \
    can also find and split such huge pages by itself; the output names the settings for this.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct RestrainArgs {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Split the huge pages that contain mostly zeros; without this option, the command only reports them
    #[arg(long)]
    pub(crate) split: bool,
    /// Also read the page contents of other users' processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Time limit for reading page contents
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) budget: Duration,
}

const COLLAPSE: &str = "Collapse memory of running processes into huge pages, within a limit on how much \
    the processes may grow (--max-growth). Needs root.\n\n\
    The command collapses private anonymous memory in ranges of the size of a huge page (2 MiB on x86-64), \
    the ranges with the most pages in RAM first. The command collapses a range only if at least half of its \
    pages are in RAM and no page of the range is shared with another process, because collapsing would copy \
    a shared page. The command stops if PSI some for memory is above 10 %, if less than 1/32 of RAM or less \
    than 128 MiB is available, if the cgroup of a process is near its memory limit, or if the kernel finds \
    no free huge page. Memory that the command has already collapsed then stays in huge pages. No pagewise \
    command splits all of these huge pages again: `pagewise thp restrain --split` splits only those that \
    contain mostly zeros. Contents and addresses of the memory do not change.\n\n\
    Some programs, such as Redis, fork a child that saves the program's data. If the program writes to \
    memory before the child has ended, copy-on-write replaces huge pages of the program by small pages. \
    With --watch, the command collapses these small pages into huge pages again after the child has ended.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct CollapseArgs {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Select the processes that were started with PAGEWISE_THP=on in their environment, which an image or a unit can
    /// set; each container and each unit has its own limit on growth. With --watch, pagewise also finds those that start
    /// later, and ends only with Ctrl-C
    #[arg(long, group = "whose", conflicts_with_all = ["by_access", "evidence"])]
    pub(crate) opted_in: bool,
    /// Limit on how much the memory of the processes (PSS) grows because of the collapse, in percent; with
    /// --cgroup, the limit applies to the memory charged to the cgroup
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = parse_growth)]
    pub(crate) max_growth: f64,
    /// Time limit for collapsing the memory of the selected processes; with --watch, the limit for each pass
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) deadline: Duration,
    /// Limit on the CPU use of this command, in percent of one CPU
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = parse_percent)]
    pub(crate) pace: f64,
    /// Observe with DAMON for this long which memory the processes access, and collapse the accessed memory first
    /// [default: collapse the ranges with the most pages in RAM first]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) by_access: Option<Duration>,
    /// Repeat the collapse at the interval given with --every, because memory can leave huge pages again; the
    /// command ends when the processes have ended
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) watch: bool,
    /// Time between two passes of --watch over the processes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "watch")]
    pub(crate) every: Duration,
    /// Record the share of memory in huge pages and the CPU time of the processes twice a second, and write the
    /// records and an HTML page with charts to this folder, which must be empty or new. The first collapse then
    /// starts only after the time of --every, so that the records also show the state before the first collapse
    #[arg(long, value_name = "DIR", requires = "watch")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot ID and complete command lines in the files of --evidence; without this
    /// option, pagewise hashes the host name and the boot ID, and leaves out the arguments of command lines
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// A command that prints how many requests the processes have served so far; from this number, pagewise
    /// computes the CPU time per request for the charts of --evidence
    #[arg(long, value_name = "CMD", requires = "evidence")]
    pub(crate) counter: Option<String>,
    /// Also collapse ranges that have some pages in swap; the kernel swaps these pages in first
    #[arg(long)]
    pub(crate) swapped: bool,
    /// Collapse nothing; only report which memory would be collapsed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Parses --max-growth into a share of 1. The maximum is 100 %, because collapsing a range at most
/// doubles its memory.
pub(super) fn parse_growth(text: &str) -> Result<f64, NotAPercentage> {
    Percent::parse_within(text, 0.0..=100.0).map(Percent::share)
}
