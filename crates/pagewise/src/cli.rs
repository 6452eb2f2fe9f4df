// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be typed: the one table behind parser, help, completions and man pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pagewise_bench::block::Candidate;
use pagewise_guest::item::Item;
use pagewise_guest::kernel::KernelRequest;
use pagewise_guest::qemu::Disk;
use pagewise_guest::userland::Userland;
use pagewise_lab::contents::Mix;
use pagewise_lab::experiment::{ArmSource, SELFTEST_TRIALS};
use pagewise_pages::codec::Algorithm;
use pagewise_pages::kernel::{KERNELS, Kernel};
use pagewise_report::view::{Field, Section, Sort};
use pagewise_stats::Metric;

use crate::duration::parse;

const EXIT_STATUS: &str = "Exit status: 0 success, 1 error, 2 wrong usage, 3 if doctor finds a warning or \
    worse, 130 stopped by Ctrl-C. If the program that reads the output from a pipe closes the pipe early, that \
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
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = parse)]
    pub(crate) interval: Duration,
    /// Time limit for reading the proportional set size (PSS) of processes; with 0, no PSS is read
    #[arg(long, global = true, value_name = "TIME", default_value = "200ms", value_parser = parse)]
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
    /// Remove the devices and restore the settings that a killed run of pagewise left behind; needs root
    #[command(
        long_about = "Remove the devices and restore the settings that a killed run of pagewise left behind. \
        Needs root.\n\n\
        Before pagewise creates a zram device, swap or a cgroup, or changes a setting, pagewise records the \
        change in a journal in /var/lib/pagewise. A run undoes its changes to the machine when the run ends, \
        so only a killed run leaves changes behind. The next run that creates devices or changes settings \
        first undoes the changes of the killed run; `pagewise undo` undoes these changes immediately. If \
        somebody else has changed a setting after the killed run changed it, undo keeps the new value and \
        names the setting. The environment variable PAGEWISE_STATE names another folder for the journal.\n\n\
        Pagewise reads a journal only if it is a regular file and no other user can have written to it. \
        Pagewise never removes a damaged journal by itself: undo reverts the changes that the intact lines of \
        the damaged journal name, and ends with exit status 1. After you have checked a damaged journal, \
        remove the journal with --forget. Only one run at a time can create devices or change settings on a \
        machine, even if runs use different folders for their journals. The lock is in /run/pagewise, or in \
        the folder that the environment variable PAGEWISE_LOCK names."
    )]
    Undo(Undo),
    /// Record this machine's memory statistics in a redacted file, to send to somebody or to use in tests
    #[command(
        long_about = "Record this machine's memory statistics in a redacted file, to send to somebody or to \
        use in tests.\n\n\
        A recording contains two readings of the kernel's memory statistics, one from the start and one from \
        the end of the interval. A recording contains no memory contents, no command lines and no environment \
        variables. Names of programs, cgroups, users, disks and files are kept only if they are common to all \
        Linux systems; numbers replace all other names. The host name and the boot ID are hashed with a random \
        key that is then discarded. The summary that the command prints counts what was left out of the \
        recording."
    )]
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

const REPORT: &str = "Print a report on one page: how memory is used, what is wrong, and what to do.\n\n\
    With --sort, -n, -o or --args, the report contains only the tables of processes and cgroups, unless --only \
    names other sections:\n\n  \
    pagewise report --sort swap       processes with the most memory in swap\n  \
    pagewise report --sort growth     processes that grow fastest\n  \
    pagewise report --sort refaults   processes that wait for pages that were reclaimed too early\n\n\
    The kernel counts refaults per cgroup and not per process, so --sort refaults sorts cgroups by refaults \
    and processes by major faults (page faults that waited for a disk or for decompression). With --json, the \
    report always contains all sections, without command lines.";

#[derive(Debug, Default, Args)]
pub(crate) struct Report {
    /// Do not read page contents; the report then does not estimate how much memory compression would save
    #[arg(long)]
    pub(crate) no_contents: bool,
    /// Print only these sections of the report, such as memory,processes
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = crate::chosen::section())]
    pub(crate) only: Vec<Section>,
    /// Sort the tables of processes and cgroups by this value, the largest first
    #[arg(long, value_name = "ORDER", value_parser = crate::chosen::order())]
    pub(crate) sort: Option<Sort>,
    /// Maximum number of rows in the tables of processes and cgroups; 0 prints all rows [default: 10]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) rows: Option<usize>,
    /// Columns of the table of processes, such as pid,command,swap
    #[arg(short = 'o', long, value_name = "COLUMN", value_delimiter = ',',
        value_parser = crate::chosen::field())]
    pub(crate) columns: Vec<Field>,
    /// Print the command line of each process instead of its name; command lines may contain secrets
    #[arg(long)]
    pub(crate) args: bool,
}

const DOCTOR: &str = "Print every finding with the values that prove it and the command to run next; exit \
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

const SCAN: &str = "Estimate how small the memory in use would become if compressed with each algorithm that \
    this kernel offers, and how much memory zram would use to store it. Same-filled pages (pages that repeat a \
    single word) are not compressed, because zram stores only the repeated word.\n\n\
    The scan reads anonymous memory and shmem, because the kernel can swap only these two kinds of memory. The \
    scan reads single pages at random until the compressed size is known within 2 % for every algorithm. \
    --exact reads and compresses every page; --duplicates reads every page but compresses only a sample. \
    Reading a page marks the page as accessed. The scan never swaps in a page or unshares a page on purpose; \
    if reading had such side effects, the result lists the side effects. Page contents never leave the \
    machine. The scan keeps only counts, unless --dump writes the pages to a file.";

#[derive(Debug, Default, Args)]
#[command(mut_group("sources", |group| group.required(true)))]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Read file-backed pages (page cache) in addition to anonymous memory and shmem, although the kernel never swaps
    /// file-backed pages but drops them
    #[arg(long)]
    pub(crate) file_backed: bool,
    /// Read page contents of other users' processes, not only of your own processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// How many pages to read, as a number or a share of all pages, such as 20000 or 5%; with --duplicates, how many
    /// pages to compress
    #[arg(long, value_name = "N|P%", conflicts_with = "exact")]
    pub(crate) sample: Option<Amount>,
    /// Read and compress every page and count duplicates; this marks every page as accessed
    #[arg(long)]
    pub(crate) exact: bool,
    /// Read every page and count duplicates, but compress only a sample; this marks every page as accessed
    #[arg(long, conflicts_with = "exact")]
    pub(crate) duplicates: bool,
    /// Time limit for the scan, such as 5s or 1m
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) budget: Option<Duration>,
    /// CPU limit for this command, in percent of one CPU
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) max_cpu: Option<f64>,
    /// A compression algorithm to compare, such as lz4 or zstd:7; may be given several times [default: all that this
    /// kernel offers]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Algorithm>,
    /// Estimate how zram of this kernel release would store the pages: 6.1, 6.12 or 7.2
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    pub(crate) kernel_like: Option<Kernel>,
    /// Seed of the random selection of pages: if memory did not change, two runs with equal seeds select the same
    /// pages
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Write the contents of the pages that were read to this new file, as input for `bench`; the file may contain
    /// secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
}

const MERGE: &str = "Merge the identical pages in zmerge devices immediately. Needs root.\n\n\
    A merge pass examines every page that a device of the zmerge module stores (as swap or as a disk), stores \
    identical pages once, and frees the memory of the copies. Programs can read and write the device during a \
    merge pass. A merge pass changes neither the data on the device nor any setting. If a program writes to a \
    merged page later, the device stores the written page separately again. The kernel always completes a \
    merge pass: Ctrl-C ends this command but not the pass. The output shows the memory that the device uses \
    and the number of merged pages, before and after the pass. With --predict, the command counts duplicate \
    pages before the pass; `pagewise scan --device` counts duplicate pages without a merge pass.";

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// A zmerge device, such as zmerge0; may be given several times [default: all devices that can be merged]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Start the pass only when almost no task is waiting for memory or a CPU
    #[arg(long)]
    pub(crate) when_calm: bool,
    /// Time limit for the wait of --when-calm; if the time limit expires, pagewise merges nothing
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse,
        requires = "when_calm")]
    pub(crate) timeout: Duration,
    /// Start the pass and exit without waiting for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Count the duplicate pages of each device before the pass; counting reads the whole device
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) predict: bool,
}

const THP: &str = "Show which memory is in huge pages and which other memory could be; collapse memory into \
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
    #[arg(long, value_name = "TIME", value_parser = parse)]
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
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse)]
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
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse)]
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
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = effect)]
    pub(crate) max_growth: f64,
    /// Time limit for one pass over the processes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse)]
    pub(crate) deadline: Duration,
    /// CPU limit for this command, in percent of one CPU
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = percent)]
    pub(crate) pace: f64,
    /// Observe for this long which memory is accessed (with DAMON), and collapse the accessed memory first [default:
    /// ranges with the most present pages first]
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) by_access: Option<Duration>,
    /// Until the processes end, check every few seconds how much of their memory is in huge pages, and collapse memory
    /// again if the share of memory in huge pages fell
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) watch: bool,
    /// Time between two checks of --watch
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse, requires = "watch")]
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

const BENCH: &str = "Find the best zram algorithm for the memory in use: measure each one on temporary zram \
    devices and in real swap, and name the best for latency, throughput, IOPS and compression ratio.\n\n\
    For each algorithm that the kernel offers, bench creates a zram device and fills all devices with the same \
    pages: a sample of memory, a dump, the contents of a swap device, or synthetic pages. Bench measures \
    requests of 4 to 32 KiB to the devices in rounds that interleave the algorithms. Then bench swaps its own \
    memory out and faults it in again, in a separate cgroup, with vm.page-cluster from 0 to 3. When bench \
    ends, even by Ctrl-C, bench removes its devices and restores every setting that bench changed. If bench is \
    killed, the next run or `pagewise undo` removes the devices and restores the settings. Without root or \
    without zram, bench measures the algorithms in user-space libraries, and the output says that libraries \
    were measured.\n\n\
    Swap readahead of 8 pages (vm.page-cluster = 3) is not the same as one request of 32 KiB, so bench \
    measures both.";

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Measure synthetic pages, with these percentages of zero, repeated, text and random pages, and of duplicates
    #[arg(long, value_name = "KIND:N,...", group = "sources")]
    pub(crate) mix: Option<Mix>,
    /// Read page contents of other users' processes, not only of your own processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Maximum size of the sample of pages with which each device is filled [default: 256M, with --quick 64M]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub(crate) size: Option<pagewise_model::Bytes>,
    /// A compression algorithm of the kernel to measure, such as lz4 or zstd:7; may be given several times [default:
    /// all]
    #[arg(long, value_name = "NAME[:LEVEL]", value_parser = candidate)]
    pub(crate) algorithm: Vec<Candidate>,
    /// Finish in about 15 seconds and measure only requests of 4 and 32 KiB; only larger differences between
    /// algorithms can then be detected
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Measure swap for every algorithm, which takes about 10 minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Measure the disk that swap would use instead of zram, in addition to zram. If PATH is a device or a file, bench
    /// only reads it; if PATH is a folder, bench writes up to 512 MiB of synthetic pages into the folder
    #[arg(long, value_name = "PATH")]
    pub(crate) disk: Option<PathBuf>,
    /// Measure only requests to the block devices, not swap
    #[arg(long)]
    pub(crate) no_swap: bool,
    /// Measure swap even if this host already uses other swap; pages of other programs may then be swapped to the
    /// device of bench
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Measure the algorithms in user-space libraries even if zram is available
    #[arg(long, conflicts_with_all = ["disk", "allow_shared_swap"])]
    pub(crate) codecs: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: Format,
    /// Write the result, the measurements of every round, the table and the chart to this folder, which must be empty
    /// or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Write the host name, the boot ID and complete command lines to the folder of --evidence; without this option,
    /// names are hashed and arguments are left out
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random selection of pages: if memory did not change, two runs with equal seeds select the same
    /// pages
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
}

const TRIAL: &str = "Compare the kernel settings A and B by running your own command with each: which is \
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
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub(crate) memory: Option<pagewise_model::Bytes>,
    /// Smallest difference that matters; if the difference between A and B is smaller, the verdict is equivalent
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = effect)]
    pub(crate) min_effect: f64,
    /// Number of warm-up rounds to discard, in addition to the first run, which is always discarded
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) warm_up: u32,
    /// Time limit for each run of the command
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse)]
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

fn effect(text: &str) -> Result<f64, String> {
    let wrong = || format!("expected a percentage from 0 to 50 as 2%, found {text:?}");
    let number: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| wrong())?;
    (0.0..=50.0).contains(&number).then_some(number / 100.0).ok_or_else(wrong)
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table in plain text
    Text,
    /// Comma-separated values, with one row per algorithm and block size
    Csv,
}

fn candidate(text: &str) -> Result<Candidate, String> {
    let wrong = || format!("expected a name as lz4 or zstd:7, found {text:?}");
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let sane = !name.is_empty() && name.bytes().all(plain);
    let algorithm = sane.then(|| name.to_owned()).ok_or_else(wrong)?;
    Ok(Candidate { algorithm, level })
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
    /// All processes in this memory cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Read the pages of all processes whose memory this user may read
    #[arg(long)]
    pub(crate) host: bool,
    /// Read pages from a file, such as a memory dump
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Read pages from a block device, such as a swap partition or a zram device; it may be in use
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
    /// Read pages from an ELF core file
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
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let sane = number.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    sane.ok_or_else(|| format!("expected a percentage above 0 and up to 100, found {text:?}"))
}

fn kernel(text: &str) -> Result<Kernel, String> {
    let names = KERNELS.map(|kernel| kernel.name).join(", ");
    Kernel::named(text).ok_or_else(|| format!("expected one of {names}, found {text:?}"))
}

/// What `undo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// Remove the journal with this ID after undoing everything in it that can be undone; the output lists what could
    /// not be undone
    #[arg(long, value_name = "ID")]
    pub(crate) forget: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Write the recording to this file, which must not exist yet [default: pagewise-HASH-DATE.tar.zst]
    #[arg(short, long, value_name = "FILE", conflicts_with = "folder")]
    pub(crate) output: Option<PathBuf>,
    /// Write the recording as separate files into this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Write nothing but hand the recording to the process that started this one
    #[arg(long, hide = true)]
    pub(crate) hand_over: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a command in a guest: a virtual machine with a stock kernel
    #[command(after_help = GUEST_STATUS, long_about = "Run a command in a guest: a virtual machine under QEMU \
        without network, with a stock kernel. The userland of the guest is busybox with pagewise as PID 1, or \
        a small Debian with systemd. The command runs as root in the guest. With --out, the files that the \
        command leaves in /out are copied to this machine.")]
    Guest(Box<Guest>),
    /// List the experiments: those built into pagewise, and your own
    #[command(
        long_about = "List the experiments: those built into pagewise, and your own, which are files in \
        ~/.config/pagewise/experiments. An experiment of yours replaces a built-in experiment of the same \
        name."
    )]
    List,
    /// Describe an experiment: its workload, its arms and machines, the metric that decides the verdict, and its
    /// duration
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
    /// Compare identical settings (A with A) on this machine, to measure the rate of false alarms and the smallest
    /// detectable effect
    Selftest {
        /// Maximum number of trials that compare A with A
        #[arg(long, value_name = "N", default_value_t = SELFTEST_TRIALS,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(SELFTEST_TRIALS)))]
        trials: u32,
    },
    /// Compute the verdict of an earlier trial again, from the folder that --evidence wrote
    Replay {
        /// The folder that --evidence of the trial wrote
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Check whether a second trial confirms the result of a first one
    Compare {
        /// The folder that --evidence of the first trial wrote
        #[arg(value_name = "DIR")]
        first: PathBuf,
        /// The folder that --evidence of the second trial wrote
        #[arg(value_name = "DIR")]
        second: PathBuf,
    },
    /// Exercise the CPU for a fixed amount of work; `lab selftest` runs this
    #[command(hide = true)]
    Exercise,
    /// Run one of the workloads with which experiments compare memory settings
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
    An experiment is a file that names a workload, the arms (variants that differ in swap, in settings or in \
    the workload itself), the machines to run on, and the metric that decides the verdict. `pagewise lab list` \
    lists the experiments and `pagewise lab show NAME` describes one. In each round, every arm runs once, in \
    random order. Before each run of an arm, pagewise creates the swap and applies the settings of the arm. \
    After each run, even after Ctrl-C, pagewise removes the swap and restores the previous settings. The first \
    run and the warm-up rounds are discarded. Each combination of kernel and memory size gets its own verdict. \
    In emulated guests (without KVM), verdicts are based on counts such as instructions and page faults, never \
    on time.\n\n\
    To run an experiment on this host you need root. On this host, the workload of the experiment runs in a \
    cgroup with the memory limit that the file of the experiment names. To run an experiment in guests you do \
    not need root, because a guest has its own swap, settings and files.";

/// Which experiment, and what of it.
#[derive(Debug, Args)]
pub(crate) struct Picked {
    /// Name of the experiment, or path of its file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) experiment: String,
    /// Where to run the experiment [default: as in its file]
    #[arg(long, value_name = "WHERE")]
    pub(crate) runner: Option<Runner>,
    /// Kernel of the guests, such as trixie; may be given several times [default: as in the file of the experiment]
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Vec<String>,
    /// Memory of the guests, such as 320M; may be given several times [default: as in the file of the experiment]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub(crate) memory: Vec<pagewise_model::Bytes>,
    /// Run only this arm (variant) of the experiment; may be given several times [default: all arms]
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,
    /// Maximum number of pairs of runs; with fewer than six pairs, no difference can be shown [default: as in the
    /// file of the experiment]
    #[arg(long, value_name = "N", conflicts_with = "preview",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(pagewise_stats::MOST_PAIRS)))]
    pub(crate) pairs: Option<u32>,
    /// Run only a preview of the experiment: some of its arms (variants), in three rounds, without verdicts
    #[arg(long)]
    pub(crate) preview: bool,
    /// Change a key of the workload in the experiment, such as workload.data=300M; may be given several times
    #[arg(long, value_name = "workload.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Do not count instructions in guests; a verdict on time is then possible only if the guests run with KVM
    #[arg(long)]
    pub(crate) no_count: bool,
    /// Seed of the random order of runs: equal seeds give equal orders [default: random]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) picked: Picked,
    /// Create the swap of an arm on this host even if other swap is in use; pages of other programs may then be
    /// swapped to it
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Write the results of every run, the verdicts and pages with charts to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Write the host name, the boot ID and complete command lines to the folder of --evidence; without this option,
    /// names are hashed and arguments are left out
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

const GUEST_STATUS: &str = "Exit status: the exit status of the command; 128 plus the signal number if a \
    signal ended the command (137 also if the guest ran out of memory); 124 if --deadline or --start-deadline \
    expired; 125 if the kernel of the guest panicked or the guest ended early; 130 stopped by Ctrl-C; 1 if no \
    guest could be started.";

const WORKLOAD: &str = "Run one of the workloads with which experiments compare memory settings, on this \
    machine with its current settings. Memory settings affect the result only if memory is short, so run the \
    workload in a cgroup with a memory limit, or in a guest. The arguments KEY=VALUE determine what the \
    workload does, and two runs with equal seeds make equal accesses. The last line of the output is the \
    result as JSON.\n\n\
    The workload swap accesses data in memory and code in a file that together are slightly larger than \
    memory, and reports how long an iteration takes in the steady state. The workload coldpages accesses the \
    pages of its memory, of a library and of a streamed file with known frequencies, and reports whether the \
    kernel evicts the least used pages. The workload redis fills a real redis-server and sends requests to it \
    with redis-benchmark.\n\n\
    Workloads create their temporary files in TMPDIR or, if TMPDIR is not set, in /var/tmp. The temporary \
    files have no names, so none is left behind. A workload refuses a folder in tmpfs, because files in tmpfs \
    are in memory.";

#[derive(Debug, Args)]
pub(crate) struct Workload {
    /// Which workload to run
    #[arg(value_parser = pagewise_lab::workload::KINDS, required_unless_present = "described")]
    pub(crate) kind: Option<String>,
    /// A key of the workload and its value, if the value differs from the default listed below
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The complete workload as JSON, in the form in which experiments start it
    #[arg(long, value_name = "JSON", conflicts_with_all = ["kind", "settings"])]
    pub(crate) described: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Guest {
    /// The kernel of the guest: a Debian suite (bookworm, trixie, sid), a version, the word host for the kernel of
    /// this machine, or the path of a kernel image
    #[arg(long, default_value = "trixie")]
    pub(crate) kernel: KernelRequest,
    /// The programs in the guest: minimal (busybox and the files of --file), systemd (a small Debian 13) or
    /// systemd/SUITE (a small Debian of that suite)
    #[arg(long, default_value = "minimal")]
    pub(crate) userland: Userland,
    /// Memory of the guest, such as 256M or 2G
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = crate::size::parse)]
    pub(crate) memory: pagewise_model::Bytes,
    /// Number of virtual CPUs of the guest
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// Time limit from the start of the command until the guest ends [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) deadline: Option<Duration>,
    /// Time limit from the start of the guest until the command starts [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) start_deadline: Option<Duration>,
    /// Copy a file of this machine into the guest; may be given several times
    #[arg(long, value_name = "FILE[:PATH]")]
    pub(crate) file: Vec<String>,
    /// Copy the files that the command leaves in /out in the guest to this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the complete kernel log of the guest to this new file; with several boots, one file per boot: FILE.1,
    /// FILE.2 and so on
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_log: Option<PathBuf>,
    /// Load this kernel module and its dependencies in the guest, in addition to the usual modules; may be given
    /// several times
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Add a disk to the guest: an image, or an empty disk of this size; may be given several times
    #[arg(long, value_name = "FILE[,ro|,rw]|SIZE", value_parser = crate::disk::parse,
        long_help = "Add a disk to the guest. The first disk is /dev/vda, the second disk is /dev/vdb, and 24 \
        disks are possible. SIZE, such as 512M, adds an empty disk that is deleted when the guest ends and \
        takes only as much space on this machine as the guest writes to it. FILE is a raw image or a block \
        device: by default, what the guest writes to FILE is discarded; with ,ro the guest cannot write to \
        FILE; with ,rw what the guest writes to FILE is kept. If the name of a file looks like a size, write \
        its path as ./512M.")]
    pub(crate) disk: Vec<Disk>,
    /// Parameters for the kernel command line of the guest
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,
    /// Count the instructions that the guest executes; counting needs a single emulated CPU and is slower than KVM
    #[arg(long, conflicts_with_all = ["cpus", "emulate"], long_help = "Count the instructions that the guest \
        executes; counting needs a single emulated CPU and is slower than KVM. The count covers the whole \
        guest, including its kernel, while the command runs; each nanosecond of idle time counts as one \
        instruction. The load of this machine does not affect the number of counted instructions. Caches, TLB \
        and DRAM are not modelled: the count shows how many instructions the guest executes, not how long they \
        take.")]
    pub(crate) count: bool,
    /// How many times to boot the guest and run the command, one after the other [default: 5 with --count, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) boots: Option<u32>,
    /// Emulate the CPU of the guest even if KVM is available
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Pass the output of the command through unchanged: for binary data, or if you trust the command
    #[arg(
        long,
        long_help = "Pass the output of the command through unchanged: for binary data, or if you trust the \
        command. Without this option, control characters, characters that reorder text, and bytes that are not \
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
    /// Remove cached kernels and userlands, and temporary files of runs that were killed
    Prune {
        /// Remove only these items (trixie names a kernel, systemd/trixie a userland) [default: all]
        items: Vec<Item>,
    },
    /// Download the packages of the cached kernels again and compare every cached file with them; exit status 3 if a
    /// file differs
    ///
    /// The command downloads the packages that the signed package lists of the Debian suite name today. The command
    /// verifies the package lists with Debian's keyring, and the packages with the checksums in the lists. The
    /// command does not change the cache.
    Verify {
        /// Verify only these items [default: all]; disk images of userlands are built on this machine, so there is no
        /// published file to compare them with
        items: Vec<Item>,
    },
    /// Download the newest kernels or userlands of Debian suites
    Fetch {
        /// The items to download: trixie names a kernel, systemd/trixie a userland
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

    #[test]
    fn options_may_stand_before_and_after_the_verb() {
        for line in [["pagewise", "--json", "status"], ["pagewise", "status", "--json"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert!(cli.global.json && matches!(cli.verb, Some(Verb::Status)));
        }
        assert!(Cli::try_parse_from(["pagewise"]).unwrap().verb.is_none());
    }
}
