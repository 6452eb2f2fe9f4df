// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be typed: the one table behind parser, help, completions and man pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pagewise_guest::item::Item;
use pagewise_guest::kernel::KernelRequest;
use pagewise_guest::qemu::Disk;
use pagewise_guest::userland::Userland;
use pagewise_lab::contents::Mix;
use pagewise_lab::experiment::{ArmSource, SELFTEST_TRIALS};
use pagewise_model::typed::{NotAPercentage, parse_duration};
use pagewise_model::{Bytes, Compressor, Percent};
use pagewise_pages::codec::Algorithm;
use pagewise_pages::kernel::{KERNELS, Kernel};
use pagewise_report::view::{Field, Section, Sort};
use pagewise_stats::Metric;

const EXIT_STATUS: &str = "Exit status: 0 success, 1 error, 2 wrong usage, 3 findings (doctor), \
    130 stopped by Ctrl-C. It is not an error if the reader of a pipe closes it early.";

/// Shows what a Linux machine's memory is doing, what is wrong, why, and what to do next
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
    /// Time between the two readings that rates are computed from, such as 200ms, 1s or 1m; with 0 there is one reading
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Time limit for reading proportional sizes (PSS) of processes; 0 reads none
    #[arg(long, global = true, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    pub(crate) smaps_budget: Duration,
    /// Print only the answer and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print what the reading cost, and every line that could not be parsed
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Everything on one page: what memory is doing, what is wrong, what to do
    #[command(long_about = REPORT)]
    Report(Box<Report>),
    /// Facts at a glance, from a single reading
    Status,
    /// Findings in full, with proof and the next command; exit status 3 when there are warnings or worse
    #[command(long_about = DOCTOR)]
    Doctor(Doctor),
    /// How much memory in use would take if it were compressed (by each algorithm) or merged
    #[command(long_about = SCAN)]
    Scan(Box<Scan>),
    /// The best zram algorithm for this memory: measure each on zram devices of our own and in real swap
    #[command(long_about = BENCH)]
    Bench(Box<Bench>),
    /// Compare two settings with your own command on this host; "no difference shown" is a valid answer
    #[command(long_about = TRIAL)]
    Trial(Box<Trial>),
    /// Huge pages: which memory uses them and which could; collapse, run, restrain
    #[command(long_about = THP)]
    Thp(Box<Thp>),
    /// Merge identical pages of zmerge devices now; needs root
    #[command(long_about = MERGE)]
    Merge(Merge),
    /// Restore what a killed run left behind; needs root
    #[command(long_about = "Restore what a killed run left behind. Needs root.\n\n\
        Before pagewise borrows anything (a zram device, swap, a cgroup, the value of a setting), it \
        records that in a journal in /var/lib/pagewise. The run returns everything when it ends. Only a \
        killed run leaves something behind; the next run that borrows restores it, and so does this \
        command. A value that somebody else has changed in the meantime is kept and reported. \
        PAGEWISE_STATE names another folder for the journal.\n\n\
        A journal is read only if it is a regular file that no other user can have written. A damaged \
        journal is never removed: everything that its intact lines name is restored, the exit status is 1, \
        and --forget removes the journal once you have checked it. Only one run at a time borrows from a \
        machine, whatever its folder: the lock is in /run/pagewise, or where PAGEWISE_LOCK says.")]
    Undo(Undo),
    /// Make a redacted recording of this machine, to send or to test with
    #[command(
        long_about = "Make a redacted recording of this machine, to send or to test with.\n\n\
        A recording holds two readings of the kernel's numbers about memory, one at each end of the \
        interval. It holds no contents of memory, no command lines and no environment. Names of programs, \
        cgroups, users, disks and files are kept only if they exist on every Linux; other names become \
        numbers. The host name and the boot id are hashed with a random key that is then discarded. \
        The summary counts what was left out."
    )]
    Capture(Capture),
    /// Experiments, in guests with stock kernels or on this host; judge recorded runs again
    Lab {
        /// What to do
        #[command(subcommand)]
        what: Lab,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder; it is created if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the JSON Schema of what a command prints with --json
    Schema {
        /// The command
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

const REPORT: &str = "Everything on one page: what memory is doing, what is wrong, what to do.\n\n\
    With --sort, -n, -o or --args, only the tables of processes and cgroups are printed, unless --only names \
    other sections:\n\n  \
    pagewise report --sort swap       which processes are in swap\n  \
    pagewise report --sort growth     which processes grow, and how fast\n  \
    pagewise report --sort refaults   which of them wait for pages that were reclaimed too early\n\n\
    The kernel counts refaults per cgroup only: --sort refaults sorts processes by major faults (each \
    waited for a disk or for compressed memory) and cgroups by refaults. JSON always contains everything \
    except command lines.";

#[derive(Debug, Default, Args)]
pub(crate) struct Report {
    /// Do not read page contents; the gain of compression is then left out
    #[arg(long)]
    pub(crate) no_contents: bool,
    /// Print only these sections, such as memory,processes
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = crate::chosen::section())]
    pub(crate) only: Vec<Section>,
    /// Sort processes and cgroups in descending order of this
    #[arg(long, value_name = "ORDER", value_parser = crate::chosen::order())]
    pub(crate) sort: Option<Sort>,
    /// Rows of the tables of processes and cgroups; 0 prints all [default: 10]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) rows: Option<usize>,
    /// Columns of the table of processes, such as pid,command,swap
    #[arg(short = 'o', long, value_name = "COLUMN", value_delimiter = ',',
        value_parser = crate::chosen::field())]
    pub(crate) columns: Vec<Field>,
    /// Print command lines instead of names; command lines may contain secrets
    #[arg(long)]
    pub(crate) args: bool,
}

const DOCTOR: &str = "Findings in full, with proof and the next command; exit status 3 when there are warnings or worse.\n\n\
    Findings of severity info cost nothing today: they are counted but not shown. --min-severity info shows \
    them, and they then also set the exit status. Findings that --ignore or /etc/pagewise/doctor.toml name are \
    counted and never shown.\n\n\
    With -q, one line is printed per finding, and nothing if there is none:\n\n  \
    WARNING zram-full: /dev/zram0 is full";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Explain the last ten OOM kills in full, and what would have prevented them
    #[arg(long)]
    pub(crate) oom: bool,
    /// Leave out findings of lower severity; they do not set the exit status [default: warning]
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) min_severity: Option<Severity>,
    /// Leave out the findings of this rule; may be given several times
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule(), hide_possible_values = true)]
    pub(crate) ignore: Vec<String>,
    /// Read the list of ignored findings from this file instead of /etc/pagewise/doctor.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// List the rules: id, severity, and what each detects
    #[arg(long, conflicts_with_all = ["explain", "ignore", "min_severity", "config"])]
    pub(crate) list: bool,
    /// Explain a rule: what it detects, what it reads, its threshold, and what to do
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule(), hide_possible_values = true,
        conflicts_with_all = ["ignore", "min_severity", "config"])]
    pub(crate) explain: Option<String>,
}

/// As `pagewise_model::Severity`, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Severity {
    /// Worth knowing; nothing is lost today
    Info,
    /// Memory or time is being wasted
    Warning,
    /// Work is being hurt, or will be at the next peak
    Critical,
}

const SCAN: &str = "How much memory in use would take if it were compressed: by each algorithm that this kernel \
    offers, with same-filled pages left out, and how much memory zram would use for it.\n\n\
    The scan reads anonymous memory and shmem, because that is what the kernel can swap. It draws single pages \
    at random until the size for every algorithm is known within 2 %. --exact reads every page; --duplicates \
    also reads every page, but compresses a sample only. Reading marks pages as accessed. It brings no page \
    back from swap and unshares none; if it changed something else, the result says so. \
    Page contents never leave the machine: only counts are kept.";

#[derive(Debug, Default, Args)]
#[command(mut_group("sources", |group| group.required(true)))]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Also read pages of files (page cache), which the kernel drops and never swaps
    #[arg(long)]
    pub(crate) file_backed: bool,
    /// Also read page contents of other users' processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Read this many pages, or this share of all pages, such as 20000 or 5%; with --duplicates,
    /// compress this many
    #[arg(long, value_name = "N|P%", conflicts_with = "exact")]
    pub(crate) sample: Option<Amount>,
    /// Read every page and count duplicates; marks every page as accessed
    #[arg(long)]
    pub(crate) exact: bool,
    /// Read every page and count duplicates, but compress a sample only; marks every page as accessed
    #[arg(long, conflicts_with = "exact")]
    pub(crate) duplicates: bool,
    /// Time limit, such as 5s or 1m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) budget: Option<Duration>,
    /// CPU limit, in percent of one CPU
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) max_cpu: Option<f64>,
    /// An algorithm to compare, such as lz4 or zstd:7; may be given several times [default: those that
    /// this kernel offers]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Algorithm>,
    /// Compute what another kernel would store: 6.1, 6.12 or 7.2
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    pub(crate) kernel_like: Option<Kernel>,
    /// Seed of the random draw: the same number draws the same pages of the same memory
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Write the pages that were read to a new file, for `bench`; the file contains their contents
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
}

const MERGE: &str = "Merge identical pages of zmerge devices now. Needs root.\n\n\
    A pass examines every page that a device of the zmerge module stores (as swap or as a disk), stores \
    identical pages once, and frees the memory of the copies. Reads and writes continue during the pass. It \
    changes no contents and no setting; a page that is written again later is stored separately again. The \
    kernel always completes a pass: Ctrl-C stops the waiting, not the pass. The output gives the memory used \
    and the number of merged pages before and after. --predict first counts the duplicates; `scan --device` \
    does the same without merging.";

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// A device, such as zmerge0; may be given several times [default: all that can be merged]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Wait until almost no task waits for memory or a CPU, then start
    #[arg(long)]
    pub(crate) when_calm: bool,
    /// Time limit for that wait; if it expires, nothing is merged
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration,
        requires = "when_calm")]
    pub(crate) timeout: Duration,
    /// Start the pass and return without waiting for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// First count the duplicate pages of each device, which reads all of it
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) predict: bool,
}

const THP: &str = "Huge pages: which memory uses them, and which memory could.\n\n\
    A huge page of 2 MiB needs one TLB entry instead of 512, so a program with much memory spends less time \
    on address translation. The output lists the settings of the host, the activity of khugepaged, cgroups and \
    processes. For a named process it lists each mapping: how much of it is in huge pages, how full the rest \
    is, and what collapsing it would cost. This takes 3 to 6 ms per GiB of small pages and reads no contents.";

/// Where huge pages are, and what can be done about it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Thp {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// For this long, count TLB misses and cycles spent in page walks, of the named processes or of the
    /// whole machine; needs a CPU whose counters are accessible
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) page_walks: Option<Duration>,
    /// Measure what huge pages save on this machine, by a pointer chase through 240 MiB of our own memory,
    /// half of it in small pages; takes a few seconds
    #[arg(long, conflicts_with_all = ["whose", "page_walks"])]
    pub(crate) canary: bool,
    /// With --canary: also measure hugetlb pages; if their pool has none free, it is enlarged for the
    /// measurement and restored afterwards, which needs root
    #[arg(long, requires = "canary")]
    pub(crate) hugetlb: bool,
    /// What to do; without it, only report
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
    /// The processes of a memory cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Processes with this name, such as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThpAct {
    /// Collapse memory of running processes into huge pages, within a memory budget; needs root
    #[command(long_about = COLLAPSE)]
    Collapse(CollapseArgs),
    /// Run a command with huge pages on, off, or only where the program asks for them
    #[command(long_about = RUN, after_help = RUN_STATUS)]
    Run(RunArgs),
    /// Find huge pages that are mostly empty, and split them
    #[command(long_about = RESTRAIN)]
    Restrain(RestrainArgs),
    /// Print sets of THP settings that belong together
    Profiles,
}

const RUN: &str = "Run a command with huge pages on, off, or only where the program asks for them.\n\n\
    Each allocator has its own switch in the environment. This command sets those of glibc, jemalloc, mimalloc, \
    Go and the JVM (GLIBC_TUNABLES, MALLOC_CONF, MIMALLOC_*, GODEBUG, JAVA_TOOL_OPTIONS), and keeps what is \
    already set there. --off and --advised also set a flag in the kernel, which the command's children inherit. \
    Memory of a program without a switch, such as a static one, is collapsed from outside after the time of \
    --check, which needs root. Then the command checks whether the program really obtained huge pages, and \
    prints the result on standard error.\n\n\
    PAGEWISE_THP=on, off or advised in the environment does the same, for containers; options take precedence.";

const RUN_STATUS: &str = "Exit status: that of the command; 128 plus the signal number if a signal ended it; \
    127 if the command does not exist.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Huge pages wherever the allocator can request them (default)
    #[arg(long, group = "switch")]
    pub(crate) on: bool,
    /// No huge pages
    #[arg(long, group = "switch")]
    pub(crate) off: bool,
    /// Only where the program itself requests them
    #[arg(long, group = "switch")]
    pub(crate) advised: bool,
    /// Time to wait before checking that huge pages were obtained; with 0 there is no check, and the command replaces this process
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) check: Duration,
    /// Limit on the arenas of glibc's malloc (MALLOC_ARENA_MAX). glibc creates up to eight per core, and memory
    /// that is free in one cannot be used by another; start with the number of cores [default: not set]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) arenas: Option<u16>,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

const RESTRAIN: &str = "Find huge pages that are mostly empty, and split them.\n\n\
    A huge page that was mostly never written wastes memory on zeros. This command reads the contents of the \
    target's huge pages and counts zeros; it keeps no contents, and reads other users' processes only with \
    --measure. With --split, it splits those huge pages from outside, by advice (MADV_COLD) for a part of each. \
    Kernels 6.12 and later then free the small pages that contain only zeros. The kernel can also do this by \
    itself; the output names the settings.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct RestrainArgs {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Split them; without this option, only report
    #[arg(long)]
    pub(crate) split: bool,
    /// Also read page contents of other users' processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Time limit for reading contents
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) budget: Duration,
}

const COLLAPSE: &str = "Collapse memory of running processes into huge pages, from outside and within a \
    memory budget. Needs root.\n\n\
    Private anonymous memory is collapsed in ranges of 2 MiB, the fullest first. A range qualifies if at least \
    half of its pages are present and none is shared with another process, because collapsing shared memory \
    would copy it. Collapsing stops when tasks wait for memory, when little memory is available, near the limit \
    of a cgroup, and when no huge page is free. There is no undo; the kernel splits huge pages again when it \
    has to. Contents and addresses do not change.\n\n\
    A program that forks to save its data loses its huge pages to copy-on-write; --watch collapses them again \
    after the child has ended.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct CollapseArgs {
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Limit on memory growth: of the processes' PSS or, with --cgroup, of the memory charged to the group
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = growth)]
    pub(crate) max_growth: f64,
    /// Time limit for a pass
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) deadline: Duration,
    /// CPU limit, in percent of one CPU
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = percent)]
    pub(crate) pace: f64,
    /// First watch for this long which memory is accessed (DAMON) and collapse that first [default: the fullest first]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) by_access: Option<Duration>,
    /// Check coverage every few seconds and collapse again where it fell, until the target ends
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) watch: bool,
    /// Time between two checks
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, requires = "watch")]
    pub(crate) every: Duration,
    /// Write a sample of the target's coverage and CPU time twice a second, and a page with charts, to this
    /// folder, which must be empty or new. The first collapse then waits for the time of --every
    #[arg(long, value_name = "DIR", requires = "watch")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot id and complete command lines in that folder; otherwise names are hashed
    /// and arguments left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// A command that prints how many requests the target has served, to compute CPU time per request
    #[arg(long, value_name = "CMD", requires = "evidence")]
    pub(crate) counter: Option<String>,
    /// Also collapse ranges with pages in swap, which brings those pages back into memory
    #[arg(long)]
    pub(crate) swapped: bool,
    /// Only report what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const BENCH: &str = "The best zram algorithm for this memory: what each costs on zram devices of our own and in \
    real swap, and which is best for latency, throughput, IOPS and ratio.\n\n\
    For each algorithm that the kernel offers, bench creates a zram device and fills all devices with the same \
    pages: a sample of memory, a dump, the contents of a swap device, or synthetic pages. It measures requests \
    of 4 to 32 KiB in interleaved rounds. Then it swaps memory out and faults it in again, in a cgroup of its \
    own, with vm.page-cluster 0 to 3. Everything borrowed is returned, also after Ctrl-C; after a kill, the next \
    run or `pagewise undo` returns it. Without root or without zram, the same algorithms are measured as \
    libraries, and the output says so.\n\n\
    A page-cluster of 3 is not a block of 32 KiB: swap readahead is measured separately.";

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Synthetic pages with these percentages of zero, repeated, text and random pages, and of duplicates
    #[arg(long, value_name = "KIND:N,...", group = "sources")]
    pub(crate) mix: Option<Mix>,
    /// Also read page contents of other users' processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Limit on the size of the sample, which each device is filled with [default: 256M, with
    /// --quick 64M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// An algorithm of the kernel, such as lz4 or zstd:7; may be given several times [default: all]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Compressor>,
    /// About 15 seconds, with requests of 4 and 32 KiB alone; differences must be larger to be shown
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// About 10 minutes, with swap measured for every algorithm
    #[arg(long)]
    pub(crate) full: bool,
    /// Also measure the disk that swap would otherwise use: a device or a file, which is only read, or a
    /// folder, where up to 512 MiB of synthetic pages are written
    #[arg(long, value_name = "PATH")]
    pub(crate) disk: Option<PathBuf>,
    /// Measure the block layer only, not swap
    #[arg(long)]
    pub(crate) no_swap: bool,
    /// Measure swap even if other swap is in use; pages of other programs may then pass through our device
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Measure libraries even if zram is available
    #[arg(long, conflicts_with_all = ["disk", "allow_shared_swap"])]
    pub(crate) codecs: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: Format,
    /// Write the result, every round, the table and the chart to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot id and complete command lines in that folder; otherwise names are hashed
    /// and arguments left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random draw: the same number draws the same pages of the same memory
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
}

const TRIAL: &str = "Compare settings A and B with your own command on this host: which is better, by how much, \
    and how certain that is.\n\n\
    The command runs in pairs, in random order within each pair, in a cgroup of its own. The settings of the \
    arm (A or B) are applied for that run only and restored after it, also after Ctrl-C; if the trial is killed, \
    the next one or `pagewise undo` restores them. The first run and the warm-up rounds are discarded. \
    The first metric decides; the others are reported beside it. The verdict is better, worse, equivalent (the \
    difference lies within --min-effect) or undecided, with an estimate of how many more pairs would decide. \
    Seven pairs detect an effect of 5 % if runs vary by 2 %. With 12 or more pairs there are two interim looks, \
    at 50 % and 75 %, with bounds corrected for them; the trial ends early if one is conclusive.\n\n\
    Swap of an arm: swap=off, swap=zram:SIZE:ALGORITHM, swap=file:SIZE, or several joined by a plus sign \
    in order of use, such as swap=zram:512M:lz4+file:1G. Swap areas are created for a run and removed after it; \
    they are refused while the machine's own swap is in use. swap=off bars the command from swapping, \
    by a limit of its cgroup.\n\n\
    Metrics: time, memory-stall, cpu, kswapd-cpu, major-faults, refaults, refaults-anon, refaults-file, \
    scanned, direct-scans, stolen, scan-efficiency, kept-out, swapped-in, swapped-out, zswap-in, zswap-out, \
    zero-pages-in, zero-pages-out, swap-used, pool, peak-memory, \
    or a regular expression with one capture group around a number in the command's output; the last match \
    is used. (stolen: pages that reclaim took.)";

#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// A setting of arm A, such as vm.swappiness=60 or swap=zram:512M:lz4; may be given several times
    /// [default: the machine as it is]
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) a: Vec<ArmSource>,
    /// A setting of arm B; may be given several times
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) b: Vec<ArmSource>,
    /// Allow A and B to be the same, to see how much runs differ by chance
    #[arg(long)]
    pub(crate) aa: bool,
    /// The metric that decides, such as time, cpu, major-faults or 'ops: ([0-9.]+)'; if given several times,
    /// the others are reported beside it [default: time]
    #[arg(long, value_name = "NAME|REGEX", value_parser = Metric::parse)]
    pub(crate) metric: Vec<Metric>,
    /// Larger numbers are better, for metrics given as regular expressions
    #[arg(long)]
    pub(crate) higher_is_better: bool,
    /// Maximum number of pairs; fewer than six cannot decide anything
    #[arg(long, value_name = "N", default_value_t = pagewise_stats::USUAL_PAIRS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(pagewise_stats::MOST_PAIRS)))]
    pub(crate) pairs: u32,
    /// Memory limit of the command, such as 256M
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    /// Effects up to this size do not matter
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = effect)]
    pub(crate) min_effect: f64,
    /// Warm-up rounds to discard, after the first run, which is always discarded
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) warm_up: u32,
    /// Time limit for a run
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Create swap even if other swap is in use; pages of other programs may then pass through ours
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Write every run, the verdict and a page with charts to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot id and complete command lines in that folder; otherwise names are hashed
    /// and arguments left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random order: the same number gives the same order [default: random]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// A size of an effect, as a share of one.
fn effect(text: &str) -> Result<f64, NotAPercentage> {
    Percent::parse_within(text, 0.0..=50.0).map(Percent::share)
}

/// How much more memory there may be, as a share of one. Collapsing a range doubles it at most.
fn growth(text: &str) -> Result<f64, NotAPercentage> {
    Percent::parse_within(text, 0.0..=100.0).map(Percent::share)
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for reading
    Text,
    /// Comma-separated: a row per algorithm and block size
    Csv,
}

/// Whose pages: at most one of these.
#[derive(Debug, Default, Args)]
#[group(id = "sources", multiple = false)]
pub(crate) struct Sources {
    /// A process ID; may be given several times
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Processes with this name, such as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
    /// The processes of a memory cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// All processes that this user may read
    #[arg(long)]
    pub(crate) host: bool,
    /// A file, such as a memory dump
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A block device, in use or not, such as swap or zram
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
    /// An ELF core file
    #[arg(long, value_name = "FILE")]
    pub(crate) core: Option<PathBuf>,
}

impl Sources {
    /// Whether there is one.
    pub(crate) fn is_named(&self) -> bool {
        let paths = [&self.file, &self.device, &self.core].into_iter().any(Option::is_some);
        let names = self.name.is_some() || self.cgroup.is_some();
        self.host || !self.pid.is_empty() || names || paths
    }
}

/// How many pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Pages(u64),
    Percent(f64),
}

impl std::str::FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a number of pages or of percent, as 20000 or 5%, found {text:?}");
        match text.strip_suffix('%') {
            Some(share) => percent(share).map(Self::Percent).map_err(|_| wrong()),
            None => text.parse().ok().filter(|pages| *pages > 0).map(Self::Pages).ok_or_else(wrong),
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().map(Percent::get);
    let sane = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    sane.ok_or_else(|| format!("expected a percentage above 0 and up to 100, found {text:?}"))
}

fn kernel(text: &str) -> Result<Kernel, String> {
    let names = KERNELS.map(|kernel| kernel.name).join(", ");
    Kernel::named(text).ok_or_else(|| format!("expected one of {names}, found {text:?}"))
}

/// What `undo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// Remove this journal after restoring what can be restored; the rest is listed
    #[arg(long, value_name = "ID")]
    pub(crate) forget: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Write to this file, which must not exist [default: pagewise-HASH-DATE.tar.zst]
    #[arg(short, long, value_name = "FILE", conflicts_with = "folder")]
    pub(crate) output: Option<PathBuf>,
    /// Write the files into this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Write nothing but hand the recording to the process that started this one
    #[arg(long, hide = true)]
    pub(crate) hand_over: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a command in a guest
    #[command(after_help = GUEST_STATUS, long_about = "Run a command in a guest: a stock kernel \
        under QEMU without network, with pagewise as PID 1 and busybox as its userland, or a small Debian \
        with systemd. The command runs as root in the guest. --out copies what the command leaves in /out \
        to this machine.")]
    Guest(Box<Guest>),
    /// List the experiments: built in, and your own
    #[command(
        long_about = "List the experiments: those that come with pagewise, and your own, which \
        are files in ~/.config/pagewise/experiments. One of yours hides a built-in one of the same name."
    )]
    List,
    /// Describe an experiment: workload, arms, machines, deciding metric, duration
    Show(Box<Picked>),
    /// Run an experiment, on this host or in guests with stock kernels
    #[command(long_about = LAB_RUN)]
    Run(Box<LabRun>),
    /// Conduct one cell of an experiment; `lab run` starts this in a guest
    #[command(hide = true)]
    Conduct {
        /// The experiment
        file: PathBuf,
    },
    /// Compare A with A on this machine, to measure the rate of false alarms and the smallest detectable effect
    Selftest {
        /// Maximum number of trials
        #[arg(long, value_name = "N", default_value_t = SELFTEST_TRIALS,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(SELFTEST_TRIALS)))]
        trials: u32,
    },
    /// Judge the runs of a trial again, from the folder that --evidence wrote
    Replay {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Compare two trials: whether the second found what the first did
    Compare {
        /// The folder that --evidence of the first trial wrote
        #[arg(value_name = "DIR")]
        first: PathBuf,
        /// The folder of the second trial
        #[arg(value_name = "DIR")]
        second: PathBuf,
    },
    /// Exercise the CPU for a fixed amount of work; `lab selftest` runs this
    #[command(hide = true)]
    Exercise,
    /// Run one of the workloads that experiments compare memory settings with
    #[command(long_about = WORKLOAD, after_help = crate::verbs::workload_keys())]
    Workload(Workload),
    /// List, verify, fetch or remove cached kernels and userlands
    Cache {
        /// What to do
        #[command(subcommand)]
        what: LabCache,
    },
}

const LAB_RUN: &str = "Run an experiment, on this host or in guests with stock kernels.\n\n\
    An experiment is a file: a workload, arms that differ in swap, settings or the workload itself, \
    machines, and the metric that decides. `pagewise lab list` lists the experiments and `pagewise lab show NAME` \
    describes one. The arms run in rounds, in random order. The swap and the settings of an arm are applied for \
    its run only and restored after it, also after Ctrl-C. The first run and the warm-up rounds are discarded. \
    Each combination of kernel and memory size is judged separately. In emulated guests counts are judged, \
    never time.\n\n\
    Running on this host needs root, and the workload runs in a cgroup with the limit that the file names. \
    Guests do not need root: they have their own swap, settings and files.";

/// Which experiment, and what of it.
#[derive(Debug, Args)]
pub(crate) struct Picked {
    /// Name of the experiment, or path of its file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) experiment: String,
    /// Where to run it [default: as in the file]
    #[arg(long, value_name = "WHERE")]
    pub(crate) runner: Option<Runner>,
    /// Kernel of guests, such as trixie; may be given several times [default: as in the file]
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Vec<String>,
    /// Memory of guests, such as 320M; may be given several times [default: as in the file]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Vec<Bytes>,
    /// Run this arm; may be given several times [default: all arms]
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,
    /// Maximum number of pairs; fewer than six cannot decide anything [default: as in the file]
    #[arg(long, value_name = "N", conflicts_with = "preview",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(pagewise_stats::MOST_PAIRS)))]
    pub(crate) pairs: Option<u32>,
    /// Run some of the arms in three rounds, without verdicts
    #[arg(long)]
    pub(crate) preview: bool,
    /// Change a key of the workload, such as workload.data=300M; may be given several times
    #[arg(long, value_name = "workload.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Do not count instructions in guests; time can be judged only if the CPU runs the guest
    /// itself (KVM)
    #[arg(long)]
    pub(crate) no_count: bool,
    /// Seed of the random order: the same number gives the same order [default: random]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) picked: Picked,
    /// Create swap on this host even if other swap is in use; pages of other programs may then pass through ours
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Write every run, the verdicts and pages with charts to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot id and complete command lines in that folder; otherwise names are hashed
    /// and arguments left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
}

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runner {
    /// On this host
    Host,
    /// In guests
    Guest,
}

const GUEST_STATUS: &str = "Exit status: that of the command; 128 plus the signal number if a signal ended it (137 also if \
    memory ran out); 124 after --deadline or --start-deadline; 125 if the kernel panicked or the machine ended \
    early; 130 stopped by Ctrl-C; 1 if no guest could be started.";

const WORKLOAD: &str = "Run one of the workloads that experiments compare memory settings with, on this machine as it \
    is. It is only informative where memory is short: run it in a cgroup with a limit, or in a guest. Its keys \
    determine what it does, and the same seed repeats it. Its last line of output is its result as JSON.\n\n\
    swap accesses data in memory and code in a file that together slightly exceed memory, and reports how long \
    an iteration takes in the steady state. coldpages accesses the pages of its memory, of a library and of a \
    streamed file with known frequencies, and reports whether the kernel evicts the least used ones. \
    redis fills a real redis-server and sends requests by redis-benchmark.\n\n\
    Temporary files are created in TMPDIR or else /var/tmp; they have no names, so nothing is left behind. A \
    folder in memory (tmpfs) is refused.";

#[derive(Debug, Args)]
pub(crate) struct Workload {
    /// The workload
    #[arg(value_parser = pagewise_lab::workload::KINDS, required_unless_present = "described")]
    pub(crate) kind: Option<String>,
    /// Values that differ from the defaults below
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The workload as JSON, as experiments start it
    #[arg(long, value_name = "JSON", conflicts_with_all = ["kind", "settings"])]
    pub(crate) described: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Guest {
    /// A Debian suite (bookworm, trixie, sid), a version, host, or the path of an image
    #[arg(long, default_value = "trixie")]
    pub(crate) kernel: KernelRequest,
    /// minimal (busybox and the given files), systemd (a small Debian 13) or systemd/SUITE
    #[arg(long, default_value = "minimal")]
    pub(crate) userland: Userland,
    /// Memory of the guest, such as 256M or 2G
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub(crate) memory: Bytes,
    /// Number of virtual CPUs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// Time limit from the start of the command to the end of the guest [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Time limit until the command starts [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) start_deadline: Option<Duration>,
    /// Copy a file of this machine into the guest; may be given several times
    #[arg(long, value_name = "FILE[:PATH]")]
    pub(crate) file: Vec<String>,
    /// Copy what the command leaves in /out to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the complete kernel log to this new file; with several boots to FILE.1, FILE.2 and so on
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_log: Option<PathBuf>,
    /// Also load this kernel module and its dependencies; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Add a disk: an image, or an empty disk of this size; may be given several times
    #[arg(long, value_name = "FILE[,ro|,rw]|SIZE", value_parser = crate::disk::parse,
        long_help = "Add a disk: /dev/vda, then /dev/vdb, at most 24. SIZE, such as 512M, is an empty disk that \
        exists as long as the guest and takes only as much space as is written to it. FILE is a raw image or a \
        block device: what the guest writes to it is discarded; with ,ro the guest cannot write; with ,rw its \
        writes are kept. Give the path of a file that is named like a size as ./512M.")]
    pub(crate) disk: Vec<Disk>,
    /// Parameters for the kernel command line
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,
    /// Count instructions; uses one emulated CPU and is slower
    #[arg(long, conflicts_with_all = ["cpus", "emulate"], long_help = "Count instructions; uses one \
        emulated CPU and is slower. The count covers the whole guest, including the kernel, while the command \
        runs; each nanosecond of idle time counts as one instruction. The count does not depend on the load of \
        this machine. Caches, TLB and DRAM are not modelled: it tells how much is executed, not how long \
        that takes.")]
    pub(crate) count: bool,
    /// Number of boots, one after the other [default: 5 with --count, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) boots: Option<u32>,
    /// Do not use KVM even if it works
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Pass the output of the command through unchanged: for data, or if you trust the command
    #[arg(
        long,
        long_help = "Pass the output of the command through unchanged: for data, or if you trust \
        the command. Without it, control characters, characters that reorder text, and bytes that are not \
        UTF-8 are printed as visible escapes, so that a guest cannot control your terminal."
    )]
    pub(crate) raw: bool,
    /// The command to run in the guest
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCache {
    /// List the cached kernels and userlands
    List,
    /// Remove cached items, and files of runs that were killed
    Prune {
        /// Only these items: trixie is a kernel, systemd/trixie a userland
        items: Vec<Item>,
    },
    /// Fetch the packages of cached kernels again and compare every file; exit status 3 if one differs
    ///
    /// The packages are those that the signed lists of the suite name today. The lists are verified with Debian's
    /// keyring, and the packages with the lists. The cache is not changed.
    Verify {
        /// Only these items; the disk of a userland is made on this machine and cannot be compared
        items: Vec<Item>,
    },
    /// Fetch the newest kernels or userlands of Debian suites
    Fetch {
        /// The items: trixie is a kernel, systemd/trixie a userland
        #[arg(required = true)]
        items: Vec<Item>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Noun {
    Report,
    Status,
    Doctor,
    Scan,
    Bench,
    Trial,
    /// lab run
    Lab,
    Thp,
    Collapse,
    Restrain,
    Merge,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches};

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_and_option_has_a_sentence() {
        let command = Cli::command();
        for verb in command.get_subcommands() {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for argument in verb.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", verb.get_name(), argument.get_id());
            }
        }
        assert!(command.get_arguments().all(|argument| argument.get_help().is_some()));
    }

    /// The fuzzer builds the table once: parsing a line must leave nothing in it.
    #[test]
    fn a_table_that_has_parsed_lines_parses_as_a_new_one() {
        let lines: [&[&str]; 14] = [
            &["status", "--json"],
            &["--json", "status", "extra"],
            &["help", "lab", "run"],
            &["trial", "--a", "swap=none", "--b", "swap=zram:lz4", "--", "true"],
            &["trial", "--a", "swap=nothing"],
            &["lab", "run", "swap", "--pairs", "0"],
            &["lab", "run", "swap", "--memory", "320M", "--preview"],
            &["lab", "guest", "--count", "--cpus", "2", "--", "true"],
            &["lab", "--help"],
            &["report", "--only", "zam"],
            &["repotr"],
            &["-q", "-v"],
            &["--version"],
            &[],
        ];
        let parse = |table: &mut clap::Command, line: &[&str]| {
            let matches = table.try_get_matches_from_mut([&["pagewise"], line].concat());
            let cli = matches.and_then(|mut it| Cli::from_arg_matches_mut(&mut it));
            cli.map(|cli| format!("{cli:?}")).map_err(|error| error.to_string())
        };
        let mut used = Cli::command();
        for line in lines.iter().chain(lines.iter().rev()) {
            assert_eq!(parse(&mut used, line), parse(&mut Cli::command(), line), "{line:?}");
        }
    }

    /// Each option has limits of its own: a collapse can double memory, an effect of more than a half
    /// needs no experiment.
    #[test]
    fn percentages_end_where_their_option_says() {
        let grown = |text: &str| {
            let line = ["pagewise", "thp", "collapse", "--pid", "1", "--max-growth", text];
            Some(match Cli::try_parse_from(line).ok()?.verb {
                Some(Verb::Thp(thp)) => match thp.what {
                    Some(ThpAct::Collapse(wanted)) => wanted.max_growth,
                    _ => panic!("collapse"),
                },
                _ => panic!("thp"),
            })
        };
        assert_eq!(
            [grown("0%"), grown("50.1%"), grown("100%")],
            [Some(0.0), Some(0.501), Some(1.0)]
        );
        assert_eq!([grown("100.1%"), grown("-1%"), grown("x")], [None; 3]);
        let effect = |text: &str| {
            let line = ["pagewise", "trial", "--aa", "--min-effect", text, "--", "true"];
            Cli::try_parse_from(line).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(effect("50%"), Ok(()));
        let refused = effect("50.1%").unwrap_err();
        assert!(
            refused.contains("expected a percentage from 0 to 50 as 2%, found \"50.1%\""),
            "{refused}"
        );
        let paced = |text| Cli::try_parse_from(["pagewise", "scan", "--host", "--max-cpu", text]);
        assert!(paced("0%").is_err() && paced("0.1%").is_ok() && paced("101%").is_err());
    }

    #[test]
    fn options_may_stand_before_and_after_the_verb() {
        for line in [["pagewise", "--json", "status"], ["pagewise", "status", "--json"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert!(cli.global.json && matches!(cli.verb, Some(Verb::Status)));
        }
        assert!(Cli::try_parse_from(["pagewise"]).unwrap().verb.is_none());
    }
}
