// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be typed: the one table behind parser, help, completions and man pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pagewise_lab::bench::Candidate;
use pagewise_lab::cache::Item;
use pagewise_lab::contents::Mix;
use pagewise_lab::experiment::{self, Given, Metric, SELFTEST_TRIALS};
use pagewise_lab::guest::Disk;
use pagewise_lab::kernel::Wanted;
use pagewise_lab::userland::Userland;
use pagewise_pages::codec::Algorithm;
use pagewise_pages::kernel::{KERNELS, Kernel};
use pagewise_report::view::{Field, Section, Sort};

use crate::duration::parse;

const EXIT_STATUS: &str = "Exit status: 0 done, 1 error, 2 wrong usage, 3 findings (doctor), \
    130 stopped by Ctrl-C. A reader that closes the pipe early is no error.";

/// Shows what a Linux machine's memory is doing, what is wrong, why, and what to do next
#[derive(Debug, Parser)]
#[command(name = "pagewise", version, after_help = EXIT_STATUS, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do; `report` where nothing is said
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// For every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct Global {
    /// Look at this recording instead of the machine: a folder, or a file made by `capture`
    #[arg(long, global = true, value_name = "DIR|FILE")]
    pub(crate) root: Option<PathBuf>,
    /// Print JSON for programs; `pagewise schema` describes it
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no colours; so do NO_COLOR=1 and CLICOLOR=0
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Time between the two looks that rates come from, as 200ms, 1s or 1m; 0 looks once
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = parse)]
    pub(crate) interval: Duration,
    /// Time that reading proportional sizes of processes may take; 0 reads none
    #[arg(long, global = true, value_name = "TIME", default_value = "200ms", value_parser = parse)]
    pub(crate) smaps_budget: Duration,
    /// Print nothing but the answer and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print what looking cost and every place that could not be understood
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Everything on one page: what memory is doing, what is wrong, what to do
    #[command(long_about = REPORT)]
    Report(Box<Report>),
    /// Facts at a glance, from a single look
    Status,
    /// Findings in full, with proof and the next command; exit status 3 when there are warnings or worse
    #[command(long_about = DOCTOR)]
    Doctor(Doctor),
    /// What memory in use would become: compressed, by each algorithm, with duplicates merged
    #[command(long_about = SCAN)]
    Scan(Box<Scan>),
    /// The best zram algorithm for this memory: what each costs on borrowed devices and in real swap
    #[command(long_about = BENCH)]
    Bench(Box<Bench>),
    /// A against B with your own command on this host; "no difference shown" is an answer
    #[command(long_about = TRIAL)]
    Trial(Box<Trial>),
    /// Huge pages: which memory is in them, and what else could be; collapse, run, restrain
    #[command(long_about = THP)]
    Thp(Box<Thp>),
    /// Store identical pages of zmerge devices once, now; needs root
    #[command(long_about = MERGE)]
    Merge(Merge),
    /// Put back what a run left behind that was killed; needs root
    #[command(long_about = "Put back what a run left behind that was killed. Needs root.\n\n\
        Whatever pagewise borrows (a zram device, swap, a cgroup, the value of a setting) is \
        written into a journal in /var/lib/pagewise before it is taken, and goes back when the run \
        ends. Only a run that is killed leaves something; the next one that borrows puts it back, \
        and so does this. What somebody else has changed since stays as it is, and is told. \
        PAGEWISE_STATE names another folder for the journal.\n\n\
        A journal is read only if it is a plain file that nobody else can have written. A damaged one \
        is never removed: what its other lines say is put back, the exit status is 1, and --forget \
        removes it when you have looked. One run borrows from a machine at a time, whatever its \
        folder: the lock is in /run/pagewise, or where PAGEWISE_LOCK says.")]
    Undo(Undo),
    /// Record this machine, redacted, to send or to test with
    #[command(long_about = "Record this machine, redacted, to send or to test with.\n\n\
        A recording holds both ends of an interval: the kernel's numbers about memory. It holds no \
        contents of memory, no command lines and no environment. Names of programs, cgroups, \
        users, disks and files are kept only where every Linux has them and become numbers \
        elsewhere; the host's name and boot id are hashed with a random key that is not kept. \
        What was left out is counted and told.")]
    Capture(Capture),
    /// Try things where nothing can break, in guests with stock kernels; and judge trials again
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
        /// The folder; it is made where it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the JSON Schema of what a command prints with --json
    Schema {
        /// The command
        noun: Noun,
    },
}

const REPORT: &str = "Everything on one page: what memory is doing, what is wrong, what to do.\n\n\
    With --sort, -n, -o or --args only the tables of processes and cgroups are printed, unless --only names \
    other sections:\n\n  \
    pagewise report --sort swap       which processes are in swap\n  \
    pagewise report --sort growth     which processes grow, and how fast\n  \
    pagewise report --sort refaults   who waits for pages that were reclaimed too early\n\n\
    The kernel counts refaults per cgroup only: --sort refaults sorts processes by major faults, which \
    waited for a disk or for compressed memory, and cgroups by refaults. JSON always has everything, and \
    never command lines.";

#[derive(Debug, Default, Args)]
pub(crate) struct Report {
    /// Look at no page contents: leaves out what compressing would gain
    #[arg(long)]
    pub(crate) no_contents: bool,
    /// Print only these sections, as memory,processes
    #[arg(long, value_name = "SECTION", value_delimiter = ',', value_parser = crate::chosen::section())]
    pub(crate) only: Vec<Section>,
    /// Sort processes and cgroups, the most first
    #[arg(long, value_name = "ORDER", value_parser = crate::chosen::order())]
    pub(crate) sort: Option<Sort>,
    /// Rows of the tables of processes and cgroups; 0 prints all [default: 10]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) rows: Option<usize>,
    /// Columns of the table of processes, as pid,command,swap
    #[arg(short = 'o', long, value_name = "COLUMN", value_delimiter = ',',
        value_parser = crate::chosen::field())]
    pub(crate) columns: Vec<Field>,
    /// Print command lines in place of names; they may hold secrets
    #[arg(long)]
    pub(crate) args: bool,
}

const DOCTOR: &str = "Findings in full, with proof and the next command; exit status 3 when there are warnings or worse.\n\n\
    What is worth knowing but loses nothing today (info) is counted and not shown, unless --min-severity info \
    asks for it; then it counts for the exit status, too. What is ignored, by --ignore or by \
    /etc/pagewise/doctor.toml, is counted and never shown.\n\n\
    With -q there is one line per finding, and nothing where there is none:\n\n  \
    WARNING zram-full: /dev/zram0 is full";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Only processes killed for lack of memory: the last ten in full, and what would have helped
    #[arg(long)]
    pub(crate) oom: bool,
    /// Leave out findings that matter less; they count for the exit status no more [default: warning]
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) min_severity: Option<Severity>,
    /// Leave out the findings of this rule; may be given several times
    #[arg(long, value_name = "ID", value_parser = crate::chosen::rule(), hide_possible_values = true)]
    pub(crate) ignore: Vec<String>,
    /// Read what to ignore from this file in place of /etc/pagewise/doctor.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// List the rules: id, how severe, what each looks for
    #[arg(long, conflicts_with_all = ["explain", "ignore", "min_severity", "config"])]
    pub(crate) list: bool,
    /// Explain a rule: what it looks for, what it reads, from where on it speaks, how to act
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

const SCAN: &str = "What memory in use would become: compressed by each algorithm that this kernel \
    offers, same-filled pages and duplicates left out, and the memory that zram would use for it.\n\n\
    Anonymous memory and shmem are looked at, which is what swap would take. A sample of single pages \
    is drawn by position until every size is within 2 %; --exact looks at every page, and --duplicates \
    does so too but compresses a sample only. Looking marks \
    pages as used; it brings none back from swap and unshares none, and what it did change is counted. \
    Contents never leave the machine: nothing is kept of a page but counts.";

#[derive(Debug, Default, Args)]
#[command(mut_group("sources", |group| group.required(true)))]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Pages of files too, which are dropped and read again and never swapped
    #[arg(long)]
    pub(crate) file_backed: bool,
    /// Look at contents of other users' processes, as root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Look at so many pages, or so many percent of all, as 20000 or 5%; with --duplicates, compress
    /// so many
    #[arg(long, value_name = "N|P%", conflicts_with = "exact")]
    pub(crate) sample: Option<Amount>,
    /// Look at every page, and count duplicates; marks every page as used
    #[arg(long)]
    pub(crate) exact: bool,
    /// Look at every page and count duplicates, but compress a sample only; marks every page as used
    #[arg(long, conflicts_with = "exact")]
    pub(crate) duplicates: bool,
    /// Time that it may take, as 5s or 1m
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) budget: Option<Duration>,
    /// Most processor time, in percent of one processor
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) max_cpu: Option<f64>,
    /// An algorithm to compare, as lz4 or zstd:7; may be given several times [default: those that
    /// this kernel offers]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Algorithm>,
    /// Imitate another kernel: 6.1, 6.12 or 7.2
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    pub(crate) kernel_like: Option<Kernel>,
    /// The same number draws the same pages of the same memory
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Write the pages that were looked at to a new file, for `bench`: it holds what they held
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
}

const MERGE: &str = "Store identical pages of zmerge devices once, now. Needs root.\n\n\
    A pass goes over all that a device of the module zmerge holds, as swap or as a disk, merges what is \
    there more than once and gives the memory back. It runs beside reading and writing and changes \
    neither content nor setting; what is written again later is a page of its own again. The kernel runs \
    a pass to its end and cannot call it off: Ctrl-C leaves it running. Said are memory and merged pages \
    before and after; --predict counts first what is there twice, which `scan --device` does by itself.";

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// A device, as zmerge0; may be given several times [default: all that can be merged]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Begin when hardly anybody waits for memory or a processor
    #[arg(long)]
    pub(crate) when_calm: bool,
    /// The most time to wait for that; nothing is merged where it does not come
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse,
        requires = "when_calm")]
    pub(crate) timeout: Duration,
    /// Start the pass and do not wait for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Count first which pages a device holds twice: reads all of it
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) predict: bool,
}

const THP: &str = "Huge pages: which memory is in them, and what else could be.\n\n\
    A page of 2 MiB needs one entry where small ones need 512, so a program with much memory spends \
    less time on finding it. Shown are the host's settings and what khugepaged does, cgroups, \
    processes, and for a named process each mapping: what is huge, how full the rest is, and what \
    collapsing it would cost. Looking takes 3 to 6 ms per GiB of small pages and reads no contents.";

/// Where huge pages are, and what can be done about it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Thp {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Count for so long what finding pages costs them, or the machine where nobody is named: TLB misses
    /// and page walks, where the processor shows its counters
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) page_walks: Option<Duration>,
    /// Measure what huge pages save on this machine: a pointer chase through 240 MiB of our own,
    /// half of it in small pages; takes a few seconds
    #[arg(long, conflicts_with_all = ["whose", "page_walks"])]
    pub(crate) canary: bool,
    /// With --canary: pages of the pools (hugetlb), too; makes a pool larger where it has none free,
    /// which takes root, and smaller again at the end
    #[arg(long, requires = "canary")]
    pub(crate) hugetlb: bool,
    /// What to do; without it, only look
    #[command(subcommand)]
    pub(crate) what: Option<ThpAct>,
}

/// Whose memory: at most one of these.
#[derive(Debug, Args)]
#[group(id = "whose", multiple = false)]
pub(crate) struct Whose {
    /// A process; may be given several times
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// The processes of a memory cgroup and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Processes of this name, as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThpAct {
    /// Collapse memory of running processes into huge pages, within a memory budget; needs root
    #[command(long_about = COLLAPSE)]
    Collapse(CollapseArgs),
    /// Run a command with huge pages on, off or only where it asks for them
    #[command(long_about = RUN, after_help = RUN_STATUS)]
    Run(RunArgs),
    /// Find huge pages that are mostly empty, and split them
    #[command(long_about = RESTRAIN)]
    Restrain(RestrainArgs),
    /// Settings of the machine that belong together, as data
    Profiles,
}

const RUN: &str = "Run a command with huge pages on, off, or only where it asks for them.\n\n\
    Each allocator has a switch of its own, in the environment: glibc, jemalloc, mimalloc, Go and the \
    JVM are told (GLIBC_TUNABLES, MALLOC_CONF, MIMALLOC_*, GODEBUG, JAVA_TOOL_OPTIONS); what is set \
    there already stays. --off and --advised also tell the kernel, which holds for all that the \
    command starts. What has no switch, as Go or a static program, is collapsed from outside once it \
    has run for a while, which needs root. After that time it is looked at whether huge pages really \
    came, and what is found is said on standard error.\n\n\
    PAGEWISE_THP=on, off or advised does the same, for containers; an option counts more.";

const RUN_STATUS: &str = "Exit status: the command's own; 128 and the number of the signal that ended \
    it; 127 where there is no such command.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Huge pages wherever the allocator can ask for them; the default
    #[arg(long, group = "switch")]
    pub(crate) on: bool,
    /// No huge pages
    #[arg(long, group = "switch")]
    pub(crate) off: bool,
    /// Only where the program itself asks for them
    #[arg(long, group = "switch")]
    pub(crate) advised: bool,
    /// When to look whether they came; 0 does not look, and becomes the command
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse)]
    pub(crate) check: Duration,
    /// Most arenas of glibc's malloc (MALLOC_ARENA_MAX): it makes up to eight for each core, and what one
    /// holds free is of no use to another. As many as cores is where to begin; not set by itself
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) arenas: Option<u16>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

const RESTRAIN: &str = "Find huge pages that are mostly empty, and split them.\n\n\
    A huge page of which most was never written to wastes what it holds of zeros. Contents of the \
    target's huge pages are looked at, counted and not kept; other users' only with --measure. With \
    --split those pages are split from outside, as advice about a part of a huge page makes the \
    kernel do; newer kernels (6.12 and later) give back what holds only zeros. The kernel can do this \
    by itself: the settings for it are named.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct RestrainArgs {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Split them; else only say what is found
    #[arg(long)]
    pub(crate) split: bool,
    /// Look at contents of other users' processes, as root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Time that looking may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse)]
    pub(crate) budget: Duration,
}

const COLLAPSE: &str = "Collapse memory of running processes into huge pages, from outside and within a \
    memory budget. Needs root.\n\n\
    Private anonymous memory is collapsed in pieces of 2 MiB, the fullest first: only where at least \
    half of the pages are there, and all of them are the process's alone, as collapsing shared memory \
    would copy it. It stops where tasks wait for memory, where little is left, at the limit of a \
    cgroup, and where no huge pages are free. There is no undo: the kernel splits huge pages again \
    where it must. Pages stay as they are in content and address.\n\n\
    A program that forks to save its data loses its huge pages to copying on write; --watch collapses \
    again once the other process has gone.";

#[derive(Debug, Args)]
#[command(mut_group("whose", |group| group.required(true)))]
pub(crate) struct CollapseArgs {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// How much memory may grow: the processes' proportional size or, with --cgroup, its charge
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = effect)]
    pub(crate) max_growth: f64,
    /// The most time for a pass
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse)]
    pub(crate) deadline: Duration,
    /// Most processor time, in percent of one processor
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = percent)]
    pub(crate) pace: f64,
    /// Look for so long which memory is in use (DAMON), and begin with that; else with what is fullest
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) by_access: Option<Duration>,
    /// Look again every few seconds, and collapse again where coverage fell, until the target ends
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) watch: bool,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse, requires = "watch")]
    pub(crate) every: Duration,
    /// Put what the target was, twice a second, and a page with the picture of it into this folder:
    /// empty or new. Looks for the time of --every before the first collapse
    #[arg(long, value_name = "DIR", requires = "watch")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host's name, the boot id and whole command lines in that folder: otherwise they are
    /// hashed and left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// A command that prints how many requests the target has served, for processor time per request
    #[arg(long, value_name = "CMD", requires = "evidence")]
    pub(crate) counter: Option<String>,
    /// Also where pages are in swap: brings them back into memory
    #[arg(long)]
    pub(crate) swapped: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const BENCH: &str = "The best zram algorithm for this memory: what each costs on borrowed devices and in \
    real swap, and which is best for what.\n\n\
    Every algorithm that the kernel offers gets a zram device of our own, filled with the same pages: a \
    sample of memory, a dump, what lies in a swap device, or made-up ones. Requests of 4 to 32 KiB are \
    measured on them, in interleaved rounds; then memory is swapped out and touched again, in a cgroup \
    of our own, with vm.page-cluster 0 to 3. All that is borrowed goes back, also after Ctrl-C; what a \
    killed run left goes back with the next one, or with `pagewise undo`. Without root, or without zram, \
    the same algorithms are measured as libraries, and that is said.\n\n\
    A page-cluster of 3 is not a block of 32 KiB: what the kernel reads ahead in swap is measured apart.";

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Pages made up of these parts of 100: zero, repeated, text, random; beside them duplicates
    #[arg(long, value_name = "KIND:N,...", group = "sources")]
    pub(crate) mix: Option<Mix>,
    /// Look at contents of other users' processes, as root
    #[arg(long)]
    pub(crate) measure: bool,
    /// The most memory to take a sample of, and to fill each device with [default: 256M, with
    /// --quick 64M]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub(crate) size: Option<pagewise_model::Bytes>,
    /// An algorithm of the kernel, as lz4 or zstd:7; may be given several times [default: all]
    #[arg(long, value_name = "NAME[:LEVEL]", value_parser = candidate)]
    pub(crate) algorithm: Vec<Candidate>,
    /// About 15 seconds; differences must be larger to be shown
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// About 10 minutes, with swap measured for every algorithm
    #[arg(long)]
    pub(crate) full: bool,
    /// Also the disk that swap would go to otherwise: a device or file, which is only read, or a
    /// folder on it, where at most 512 MiB of made-up pages are written
    #[arg(long, value_name = "PATH")]
    pub(crate) disk: Option<PathBuf>,
    /// Leave out swap: only the block layer
    #[arg(long)]
    pub(crate) no_swap: bool,
    /// Measure swap also while other swap is in use: some of its pages may pass through our device
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Measure the libraries, also where there is zram
    #[arg(long, conflicts_with_all = ["disk", "allow_shared_swap"])]
    pub(crate) codecs: bool,
    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: Format,
    /// Put the answer, every round, the table and the picture into this folder: empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host's name, the boot id and whole command lines in that folder: otherwise they are
    /// hashed and left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// The same number draws the same pages of the same memory
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
}

const TRIAL: &str = "A against B with your own command on this host: which settings it likes better, by \
    how much, and how sure that is.\n\n\
    The command runs in pairs of random order, in a cgroup of its own, each time with its arm's settings \
    borrowed for that run and given back after it, also after Ctrl-C; what a killed trial left goes back \
    with the next one, or with `pagewise undo`. The first run and the rounds of warm-up are discarded. \
    The first metric decides; the others stand beside it. The answer is better, worse, equivalent (the \
    difference lies within --min-effect) or undecided, with how many more pairs would probably tell. \
    Seven pairs show an effect of 5 % where runs vary by 2 %. From 12 pairs on it ends early where a \
    planned look, with bounds that allow for it, is clear.\n\n\
    Swap of an arm: swap=off, swap=zram:SIZE:ALGORITHM, swap=file:SIZE, or several joined by a plus sign \
    in the order in which they are used, as swap=zram:512M:lz4+file:1G. Areas are made for a run and \
    given back after it; where swap of the machine's own is in use, they are refused. swap=off keeps the \
    command out of any swap by its cgroup.\n\n\
    Metrics: time, memory-stall, cpu, kswapd-cpu, major-faults, refaults, refaults-anon, refaults-file, \
    scanned, direct-scans, stolen, scan-efficiency, kept-out, swapped-in, swapped-out, zswap-in, zswap-out, \
    zero-pages-in, zero-pages-out, swap-used, pool, peak-memory, \
    or a regular expression with a group around a number in what the command prints; its last match \
    counts.";

#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// What A has, as vm.swappiness=60 or swap=zram:512M:lz4; may be given several times
    /// [default: as it is]
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) a: Vec<Given>,
    /// What B has; may be given several times
    #[arg(long, value_name = "KNOB=VALUE|swap=AREAS")]
    pub(crate) b: Vec<Given>,
    /// Allow A and B to be the same: how much do runs differ by themselves?
    #[arg(long)]
    pub(crate) aa: bool,
    /// What decides, as time, cpu, major-faults or 'ops: ([0-9.]+)'; further ones stand beside it
    /// [default: time]
    #[arg(long, value_name = "NAME|REGEX", value_parser = Metric::parse)]
    pub(crate) metric: Vec<Metric>,
    /// More is better of what a regular expression finds
    #[arg(long)]
    pub(crate) higher_is_better: bool,
    /// The most pairs of runs; fewer than six tell nothing
    #[arg(long, value_name = "N", default_value_t = experiment::USUAL_PAIRS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(experiment::MOST_PAIRS)))]
    pub(crate) pairs: u32,
    /// The most memory that the command may use, as 256M
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub(crate) memory: Option<pagewise_model::Bytes>,
    /// Effects up to this do not matter
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = effect)]
    pub(crate) min_effect: f64,
    /// Rounds that are discarded, after a first run that is discarded too
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) warm_up: u32,
    /// The most time for a run
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse)]
    pub(crate) timeout: Duration,
    /// Lend swap also while other swap is in use: pages of others may pass through ours
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Keep every run, the answer and a page with pictures in this folder: empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host's name, the boot id and whole command lines in that folder: otherwise they are
    /// hashed and left out, as in a recording
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// The same number draws the same order [default: drawn]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

fn effect(text: &str) -> Result<f64, String> {
    let wrong = || format!("expected a percentage from 0 to 50 as 2%, found {text:?}");
    let number: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| wrong())?;
    (0.0..=50.0).contains(&number).then_some(number / 100.0).ok_or_else(wrong)
}

/// How a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person
    Text,
    /// A row per algorithm and block size, with the columns that guides use
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
    /// A process; may be given several times
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Processes of this name, as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
    /// The processes of a memory cgroup and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// All processes that may be looked at
    #[arg(long)]
    pub(crate) host: bool,
    /// A file, as it is: a memory dump, for example
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A block device, in use or not: swap, or zram
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
    /// An ELF core
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
    /// Remove this journal, once all has been put back that can be; what stays is said
    #[arg(long, value_name = "ID")]
    pub(crate) forget: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Write to this file; nothing is overwritten [default: pagewise-HASH-DATE.tar.zst]
    #[arg(short, long, value_name = "FILE", conflicts_with = "folder")]
    pub(crate) output: Option<PathBuf>,
    /// Write the files into this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a command in a guest
    #[command(after_help = GUEST_STATUS, long_about = "Run a command in a guest: a stock kernel \
        under QEMU, with pagewise as PID 1 and busybox as its userland, or a small Debian with \
        systemd, and no network. The command runs as root; what it leaves in /out is brought out \
        where --out says so.")]
    Guest(Box<Guest>),
    /// The experiments that there are: built in, and your own
    #[command(
        long_about = "The experiments that there are: those that come with pagewise, and your \
        own, which are files in ~/.config/pagewise/experiments. One of yours hides one of the same \
        name that is built in."
    )]
    List,
    /// What an experiment does: workload, arms, machines, what decides, how long it takes
    Show(Box<Picked>),
    /// Run an experiment, on this host or in guests with stock kernels
    #[command(long_about = LAB_RUN)]
    Run(Box<LabRun>),
    /// What `lab run` runs in a guest
    #[command(hide = true)]
    Conduct {
        /// The experiment
        file: PathBuf,
    },
    /// Try A against A on this machine: how often is there a false alarm, and what can be shown?
    Selftest {
        /// Trials at most
        #[arg(long, value_name = "N", default_value_t = SELFTEST_TRIALS,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(SELFTEST_TRIALS)))]
        trials: u32,
    },
    /// Judge the runs of a trial again, from the folder that --evidence kept
    Replay {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Whether a second trial found what the first did
    Compare {
        /// The folder that the first one's --evidence kept
        #[arg(value_name = "DIR")]
        first: PathBuf,
        /// The second one's
        #[arg(value_name = "DIR")]
        second: PathBuf,
    },
    /// What selftest runs
    #[command(hide = true)]
    Exercise,
    /// Run one of the workloads that experiments compare memory settings with
    #[command(long_about = WORKLOAD, after_help = crate::verbs::workload_keys())]
    Workload(Workload),
    /// Kernels and userlands that were fetched
    Cache {
        /// What to do
        #[command(subcommand)]
        what: LabCache,
    },
}

const LAB_RUN: &str = "Run an experiment, on this host or in guests with stock kernels.\n\n\
    An experiment is a file: a workload, arms that differ in swap, settings or the workload itself, \
    machines, and the metric that decides. `pagewise lab show NAME` explains one; `pagewise lab list` \
    names those that there are. The arms run in rounds of random order, each with its swap and its \
    settings borrowed for the run and given back after it, also after Ctrl-C. The first run and the \
    rounds of warm-up are discarded. Every kernel and memory size of guests is judged by itself; where \
    guests are emulated counts are judged, and time never.\n\n\
    On this host it needs root, and a workload keeps to a cgroup with the file's limit. Guests need \
    none: they have swap, settings and files of their own.";

/// Which experiment, and what of it.
#[derive(Debug, Args)]
pub(crate) struct Picked {
    /// Its name, or the path of its file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) experiment: String,
    /// Where it runs [default: as the file says]
    #[arg(long, value_name = "WHERE")]
    pub(crate) runner: Option<Runner>,
    /// A kernel for guests, as trixie; may be given several times [default: as the file says]
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Vec<String>,
    /// Memory of guests, as 320M; may be given several times [default: as the file says]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub(crate) memory: Vec<pagewise_model::Bytes>,
    /// This arm, and others that are named; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,
    /// The most pairs of runs; fewer than six tell nothing [default: as the file says]
    #[arg(long, value_name = "N", conflicts_with = "preview",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(experiment::MOST_PAIRS)))]
    pub(crate) pairs: Option<u32>,
    /// A glance: some of the arms, three rounds, no verdicts
    #[arg(long)]
    pub(crate) preview: bool,
    /// Another value for the workload, as workload.data=300M; may be given several times
    #[arg(long, value_name = "workload.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Do not count instructions in guests: only where the processor itself runs them can time be
    /// judged
    #[arg(long)]
    pub(crate) no_count: bool,
    /// The same number draws the same order [default: drawn]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) picked: Picked,
    /// Lend swap of this host also while other swap is in use: pages of others may pass through ours
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Keep every run, the answers and pages with pictures in this folder: empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host's name, the boot id and whole command lines in that folder: otherwise they are
    /// hashed and left out, as in a recording
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

const GUEST_STATUS: &str = "Exit status: the command's own; 128 and the number of the signal that \
    ended it (137 also where memory ran out); 124 after --deadline or --start-deadline; 125 where the \
    kernel panicked or the machine ended early; 130 stopped by Ctrl-C; 1 where no guest could be started.";

const WORKLOAD: &str = "Run one of the workloads that experiments compare memory settings with, here \
    and as it is: put it where memory is short (a cgroup, a guest) to learn anything. What it does \
    follows from its keys; the same seed does the same. Its last line is its answer as JSON.\n\n\
    swap touches data in memory and code in a file, together slightly more than there is: how long \
    does an iteration take once it is steady? coldpages wants each page of memory, of a library and \
    of a streamed file as often as is known: does the kernel evict those that are wanted least? \
    redis fills a real redis-server and asks it by redis-benchmark.\n\n\
    Files are made where TMPDIR says, else in /var/tmp, and have no names: nothing is left. A folder \
    in memory (tmpfs) is refused.";

#[derive(Debug, Args)]
pub(crate) struct Workload {
    /// Which one
    #[arg(value_parser = pagewise_lab::workload::KINDS, required_unless_present = "described")]
    pub(crate) kind: Option<String>,
    /// What shall differ from the defaults below
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
    pub(crate) kernel: Wanted,
    /// minimal (busybox and what the command brings), systemd (a small Debian 13) or systemd/SUITE
    #[arg(long, default_value = "minimal")]
    pub(crate) userland: Userland,
    /// Memory of the machine, as 256M or 2G
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = crate::size::parse)]
    pub(crate) memory: pagewise_model::Bytes,
    /// Virtual processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// The most time from the command's start to the machine's end [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) deadline: Option<Duration>,
    /// The most time until the command starts [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub(crate) start_deadline: Option<Duration>,
    /// Put a file of this machine into the guest; may be given several times
    #[arg(long, value_name = "FILE[:PATH]")]
    pub(crate) file: Vec<String>,
    /// Bring what the command leaves in /out into this folder, which must be empty or new
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Keep the kernel's whole log in this new file; with several boots FILE.1, FILE.2 and so on
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_log: Option<PathBuf>,
    /// Load this module too, with what it needs; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Give it a disk: an image or, of that size, an empty one; may be given several times
    #[arg(long, value_name = "FILE[,ro|,rw]|SIZE", value_parser = crate::disk::parse,
        long_help = "Give it a disk: /dev/vda, then /dev/vdb, at most 24. SIZE, as 512M, is an \
        empty one that is gone with the guest and takes only what is written to it. FILE is a raw \
        image or a block device: what the guest writes to it is forgotten; with ,ro it cannot \
        write; with ,rw it stays. A file named like a size is ./512M.")]
    pub(crate) disk: Vec<Disk>,
    /// Words for the kernel's command line
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,
    /// Count instructions: one emulated processor, slower
    #[arg(long, conflicts_with_all = ["cpus", "emulate"], long_help = "Count instructions: one \
        emulated processor, slower. The count is that of the whole guest while the command runs, \
        kernel included, and a nanosecond of idling counts as an instruction. It repeats under any \
        load of this machine. It knows no cache, no TLB and no DRAM: it says how much is executed, \
        not how long that takes.")]
    pub(crate) count: bool,
    /// Run it so many times, one after the other [default: 5 with --count, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) boots: Option<u32>,
    /// Do not use KVM where it works
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Pass on what the command prints byte by byte: for data, or a command that you trust
    #[arg(
        long,
        long_help = "Pass on what the command prints byte by byte: for data, or a command \
        that you trust. Else control characters, marks that reorder text and bytes that are no \
        UTF-8 become visible escapes, so that a guest cannot act on your terminal."
    )]
    pub(crate) raw: bool,
    /// The command, as the guest sees it
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCache {
    /// Say what is there
    List,
    /// Remove what is there and what killed runs left
    Prune {
        /// Only these: trixie is its kernel, systemd/trixie its userland
        items: Vec<Item>,
    },
    /// Fetch the packages of cached kernels anew and compare every file; exit status 3 when one differs
    ///
    /// The packages are those that the suite's signed lists name today. The lists are verified with Debian's keyring, the
    /// packages by the lists. Nothing in the cache is changed.
    Verify {
        /// Only these; a userland's disk is made on this machine and cannot be compared
        items: Vec<Item>,
    },
    /// Fetch the newest kernels or userlands of Debian suites
    Fetch {
        /// Which: trixie is its kernel, systemd/trixie its userland
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
