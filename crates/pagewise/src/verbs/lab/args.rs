// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise lab`.

mod disk;
mod suggested;
mod workload_keys;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use pagewise_guest::item::Item;
use pagewise_guest::kernel::KernelRequest;
use pagewise_guest::qemu::Disk;
use pagewise_guest::userland::Userland;
use pagewise_lab::experiment::SELFTEST_TRIALS;
use pagewise_model::Bytes;
use pagewise_model::typed::parse_duration;

pub(crate) const LAB: &str = "Run experiments that compare memory settings, on this host or in guests (virtual \
    machines with unmodified Debian kernels).\n\n  \
    pagewise lab list                        the experiments that are built in\n  \
    pagewise lab run zram-disk               run one, and print which settings are better\n  \
    pagewise lab guest -- pagewise report    run a command under another kernel";

/// The arguments after `pagewise lab`.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) what: Lab,
}

/// The part of `pagewise lab` for guests, without experiments.
#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) what: GuestVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GuestVerb {
    /// Run a command in a guest
    Guest(Box<Guest>),
    /// Show, fetch, verify and remove what guests need
    Cache {
        /// What to do
        #[command(subcommand)]
        what: LabCache,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a command in a guest (a virtual machine with an unmodified Debian kernel)
    #[command(after_help = GUEST_STATUS, long_about = "Run a command in a guest: a virtual machine under QEMU \
        without network, with an unmodified Debian kernel. The userland (root file system) of the guest is \
        busybox with pagewise as PID 1, or a small Debian with systemd. The command runs as root in the guest. \
        With --out, pagewise copies the files that the command leaves in the guest's folder /out to this \
        machine.")]
    Guest(Box<Guest>),
    /// List the experiments that are built into pagewise, and your own experiments
    #[command(
        long_about = "List the experiments that are built into pagewise, and your own experiments (files in \
        ~/.config/pagewise/experiments). If one of your experiments has the name of a built-in experiment, \
        pagewise uses your experiment."
    )]
    List,
    /// Describe an experiment: its workload, the variants (arms) that it compares, where it runs (on this host or in
    /// guests), the metric that decides the verdict, and the expected duration
    ///
    /// The command runs nothing. Its options are options of `pagewise lab run`: the description shows what
    /// `pagewise lab run` would do with the same options.
    Show(Box<Picked>),
    /// Run an experiment, on this host or in guests with unmodified Debian kernels
    #[command(long_about = LAB_RUN)]
    Run(Box<LabRun>),
    /// Conduct one cell of an experiment; `lab run` starts this in a guest
    #[command(hide = true)]
    Conduct {
        /// The experiment
        file: PathBuf,
    },
    /// Run trials that compare two identical sets of settings, to measure how often a trial reports a
    /// difference by mistake on this machine, and how small a difference a trial can detect
    Selftest {
        /// Maximum number of trials that compare two identical sets of settings
        #[arg(long, value_name = "N", default_value_t = SELFTEST_TRIALS,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(SELFTEST_TRIALS)))]
        trials: u32,
    },
    /// Compute the verdict of an earlier trial or experiment again, from the files in its --evidence folder
    Replay {
        /// The folder that was given to the option --evidence of the trial or experiment
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Write the result as a web page to this new file, with pictures and without a script
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Check whether a second trial (or run of an experiment) confirms the result of the first
    Compare {
        /// The folder that was given to the option --evidence of the first trial
        #[arg(value_name = "DIR")]
        first: PathBuf,
        /// The folder that was given to the option --evidence of the second trial
        #[arg(value_name = "DIR")]
        second: PathBuf,
    },
    /// Do a kill for lack of memory again; `oom --prove` starts this in a guest
    #[command(hide = true)]
    Rebuild {
        /// The sizes of the kill
        file: PathBuf,
    },
    /// Take memory and keep it until standard input ends; `lab rebuild` starts this
    #[command(hide = true)]
    Hold(Hold),
    /// Exercise the CPU for a fixed amount of work; `lab selftest` runs this
    #[command(hide = true)]
    Exercise,
    /// Run a workload (a test program that experiments use to compare memory settings)
    #[command(long_about = WORKLOAD, after_help = workload_keys::workload_keys())]
    Workload(Workload),
    /// List, verify, fetch or remove the cached kernels and userlands (root file systems) of guests
    Cache {
        /// What to do
        #[command(subcommand)]
        what: LabCache,
    },
}

/// Memory to take, in bytes.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// How much to take
    #[arg(long, value_name = "BYTES")]
    pub(crate) take: u64,
    /// How much of it to map at the start
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) map: u64,
    /// Write as much to this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Wait after each MiB
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub(crate) pause: u64,
}

const LAB_RUN: &str = "Run an experiment, on this host or in guests with unmodified Debian kernels.\n\n\
    An experiment is a file that names a workload, the arms (variants that differ in swap, in settings or in \
    the workload itself), where they run (on this host or in guests), and the metric that decides the \
    verdict. `pagewise lab list` lists the experiments and `pagewise lab show NAME` describes one. In each \
    round, every arm runs once, in random order. Before each run of an arm, pagewise creates the swap and \
    applies the settings of the arm. After each run, even after Ctrl-C, pagewise removes the swap and \
    restores the previous settings. The results of the very first run, and of the warm-up rounds after it, \
    are discarded. Each combination of kernel and memory size gets its own verdict. In emulated guests \
    (without KVM), verdicts are based on counts such as instructions and page faults, never on time.\n\n\
    Running an experiment on this host needs root; the workload runs in a cgroup, with the memory limit \
    that the file of the experiment names. Running an experiment in guests does not need root, because a \
    guest has its own swap, settings and files.";

/// An experiment, and the choices that limit or change it.
#[derive(Debug, Args)]
pub(crate) struct Picked {
    /// Name of the experiment, or path of its file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) experiment: String,
    /// The kind of machine for the experiment [default: as in the file of the experiment]
    #[arg(long, value_name = "WHERE")]
    pub(crate) runner: Option<Runner>,
    /// Kernel of the guests for the experiment, such as trixie or trixie/generic; may be given several times
    /// [default: as in the file of the experiment]
    #[arg(long, value_name = "KERNEL", value_parser = suggested::kernel_parser::<String>(),
        hide_possible_values = true)]
    pub(crate) kernel: Vec<String>,
    /// Memory size of the guests for the experiment, such as 320M; may be given several times [default: as in
    /// the file of the experiment]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Vec<Bytes>,
    /// Limit the experiment to this arm (variant); to select several arms, give the option several times
    /// [default: all arms]
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,
    /// Maximum number of pairs of runs (one run of each of the two arms that are compared); with fewer than
    /// six pairs, no difference can be statistically significant [default: as in the file of the experiment]
    #[arg(long, value_name = "N", conflicts_with = "preview",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(pagewise_stats::MOST_PAIRS)))]
    pub(crate) pairs: Option<u32>,
    /// Limit the experiment to a short preview without verdicts: three rounds of the arms (variants) that the file of
    /// the experiment marks for a preview, or else of the first five arms in the file
    #[arg(long)]
    pub(crate) preview: bool,
    /// Override a parameter of the experiment's workload, such as workload.data=300M; may be given several times
    #[arg(long, value_name = "workload.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Do not count the instructions that guests execute, even if the file of the experiment requests this; the
    /// guests then use KVM if it is available. Without KVM, metrics of time and of CPU time get no verdict
    #[arg(long)]
    pub(crate) no_count: bool,
    /// Seed of the random order of runs: two experiments with the same seed run their arms in the same order
    /// [default: random]
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) picked: Picked,
    /// Create the swap of an arm on this host even if the host already uses other swap areas; the kernel may then
    /// swap pages of other programs to the swap of the arm
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Start each guest at once, without waiting for its turn, for memory or for idle CPUs
    #[arg(long)]
    pub(crate) now: bool,
    /// Write the results of every run, the verdicts and HTML pages with charts to this folder, which must be empty or
    /// new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot ID and complete command lines in the files of --evidence; without this
    /// option, pagewise hashes the host name and the boot ID, and leaves out the arguments of command lines
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
}

/// Where to run an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runner {
    /// This host
    Host,
    /// Guests (virtual machines)
    Guest,
}

const GUEST_STATUS: &str = "Exit status: the exit status of the command; 128 plus the signal number if a \
    signal ended the command (137 also if the guest ran out of memory); 124 if --deadline or \
    --start-deadline expired; 125 if the command could not be started, the kernel of the guest panicked, \
    or the guest ended early; 130 if Ctrl-C stopped the guest; 1 if no guest could be started.";

const WORKLOAD: &str = "Run a workload (a test program that experiments use to compare memory settings) on \
    this machine, with the current settings of the machine. Memory settings affect the result only if \
    memory is short, so run the workload in a cgroup with a memory limit, or in a guest. The arguments \
    KEY=VALUE set the parameters of the workload; two runs with the same parameters and the same seed \
    access memory in the same order. The last line of the output is the result as JSON. If the output is not a \
    terminal, `swap`, `coldpages` and `tiers` print the line `steady` when their second half begins.\n\n\
    The workload `swap` accesses data in memory, and the pages of a mapped file, which stand for code. Each \
    iteration accesses a window of the data, and then the window moves on; the workload reports how long an \
    iteration takes in the steady state. Data and code together should be slightly larger than the memory of \
    the cgroup or guest.\n\n\
    The workload `coldpages` accesses pages of its own memory, of a library and of a file, each page with a \
    known frequency. It reports whether the kernel evicts the least used pages first. The workload `tiers` \
    writes a cold set of pages and then accesses a hot set; it reports how many accesses have to read a page \
    from swap, which shows whether cold pages keep the fast swap area. The workload \
    `hugepages` allocates memory, writes to it, and reports how long each write takes (including its page \
    fault) and how much of the memory is in huge pages at the end. The workload `redis` fills a real \
    redis-server and sends requests to it with redis-benchmark.\n\n\
    Workloads create their temporary files in TMPDIR or, if TMPDIR is not set, in /var/tmp. The temporary \
    files have no names, so the kernel deletes them when the workload ends. A workload refuses to use a \
    folder in tmpfs, because files in tmpfs are in memory.";

#[derive(Debug, Args)]
pub(crate) struct Workload {
    /// The name of the workload to run
    #[arg(value_parser = pagewise_workload::KINDS, required_unless_present = "described")]
    pub(crate) kind: Option<String>,
    /// Set a parameter of the workload to a value; the parameters and their defaults are listed below
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The workload with all its parameters as JSON, instead of a name and KEY=VALUE; experiments use this
    /// option to start workloads
    #[arg(long, value_name = "JSON", conflicts_with_all = ["kind", "settings"])]
    pub(crate) described: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Guest {
    /// The kernel of the guest: a Debian suite (bookworm, trixie, sid) for its cloud kernel, SUITE/generic for
    /// its generic kernel, a kernel version, the word host for the kernel of this machine, or the path of a
    /// kernel image
    #[arg(long, default_value = "trixie", value_parser = suggested::kernel_parser::<KernelRequest>(),
        hide_possible_values = true, long_help = "The kernel of the guest. A Debian suite (bookworm, trixie, \
        sid) is the newest cloud kernel of this suite, which is built for virtual machines. SUITE/generic is \
        the newest generic kernel of the suite, which is built for all machines; it is a larger download, has \
        more modules, and has zswap in all suites. A version, such as 6.12, is a kernel of this version in \
        /boot, else the newest cached cloud kernel of this version, else the newest cached generic kernel. The \
        word host is the kernel of this machine. Any other text with a slash is the path of a kernel image. If \
        the path of an image looks like SUITE/generic, put ./ before the path.")]
    pub(crate) kernel: KernelRequest,
    /// The programs in the guest: minimal (busybox and the files of --file), systemd (a small Debian 13) or
    /// systemd/SUITE (a small Debian of that suite)
    #[arg(long, default_value = "minimal", value_parser = suggested::userland_parser(),
        hide_possible_values = true)]
    pub(crate) userland: Userland,
    /// Memory of the guest, such as 256M or 2G
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub(crate) memory: Bytes,
    /// Number of virtual CPUs of the guest
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// Time limit from the start of your command in the guest until the guest ends [default: 2m, or 5m with
    /// --userland systemd]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Time limit from the start of the guest until your command starts [default: 2m, or 5m with --userland systemd]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) start_deadline: Option<Duration>,
    /// Copy this file from this machine into the guest, to PATH or, without PATH, into the folder /root; may be given
    /// several times
    #[arg(long, value_name = "FILE[:PATH]")]
    pub(crate) file: Vec<String>,
    /// Copy the files that the command leaves in the guest's folder /out to this folder on this machine, which must
    /// be empty or new; each of several boots (--boots, --reboots or --count) gets its own subfolder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With --out: copy at most this much from each boot; if the command left more, the rest is not copied, and the
    /// exit status is 1
    #[arg(long, value_name = "SIZE", default_value = "1G", requires = "out")]
    pub(crate) out_limit: Bytes,
    /// Write the kernel log of the guest to this new file; each of several boots (--boots, --reboots or --count) gets
    /// its own file: FILE.1, FILE.2 and so on (with --reboots, the first is FILE.0)
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_log: Option<PathBuf>,
    /// Load this kernel module and its dependencies in the guest, in addition to the modules that pagewise
    /// loads in every guest; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Add a disk to the guest: a disk image of this machine, or an empty disk of the given size; may be given
    /// several times
    #[arg(long, value_name = "FILE[,ro|,rw]|SIZE", value_parser = disk::parse,
        long_help = "Add a disk to the guest. The first disk is /dev/vda in the guest, the second disk is \
        /dev/vdb, and up to 24 disks are possible. SIZE, such as 512M, adds an empty disk, which is deleted \
        when the guest ends. This disk takes only as much space on this machine as the guest writes to it. \
        FILE is a raw disk image or a block device. By default, the guest can write to the disk, but \
        pagewise discards what the guest writes, so FILE does not change. With FILE,ro, the guest cannot \
        write to the disk. With FILE,rw, everything that the guest writes to the disk is written to FILE. If \
        the name of a file looks like a size, put ./ before the name, such as ./512M.")]
    pub(crate) disk: Vec<Disk>,
    /// Parameters to append to the kernel command line of the guest
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,
    /// Count the instructions that the guest executes; the guest then has a single emulated CPU, which is slower than
    /// KVM
    #[arg(long, conflicts_with_all = ["cpus", "emulate"], long_help = "Count the instructions that the guest \
        executes; the guest then has a single emulated CPU, which is slower than KVM. The count covers \
        everything that the guest executes while the command runs, including the guest's kernel; each \
        nanosecond in which the guest is idle counts as one instruction. The load of this machine does not \
        affect the count. The emulation does not imitate the timing of caches, TLB and DRAM, so the count \
        shows how many instructions the guest executes, not how long the instructions take.")]
    pub(crate) count: bool,
    /// How many times to boot a new guest and run the command in it [default: 5 with --count, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) boots: Option<u32>,
    /// Reboot the guest N times, at most 50, and run the command at every boot, on a root disk that keeps its
    /// contents from boot to boot; needs --userland systemd
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50),
        conflicts_with_all = ["boots", "count"], long_help = "Reboot the guest N times, at most 50, and run \
        the command at every boot. Needs --userland systemd. The root disk of the guest keeps its contents \
        from one boot to the next, and is deleted after the last boot. The variable PAGEWISE_BOOT tells the \
        command which boot this is: 0 is the first, N the last. When the command has ended, the guest \
        reboots as with `systemctl reboot`; the command may also call `systemctl reboot`. Before systemd \
        starts, pagewise loads only the kernel modules that the root disk needs. The other modules that \
        pagewise provides, and those given with --module, are on the root disk; the guest loads them from \
        there when it needs them. --deadline and --start-deadline apply to each boot. If the command fails, \
        pagewise does not boot the guest again.")]
    pub(crate) reboots: Option<u32>,
    /// With --reboots: keep the package systemd-zram-generator (the only possible NAME) on the root disk; without
    /// this option, pagewise removes this package, because it sets up swap
    #[arg(long, value_name = "NAME", requires = "reboots")]
    pub(crate) package: Vec<String>,
    /// With --reboots: simulate a power loss of the guest this long after the command has printed the line lose-power
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "reboots",
        long_help = "With --reboots: simulate a power loss of the guest. When the command prints a line that \
        consists only of the word lose-power, to standard output or standard error, pagewise waits for TIME \
        and then kills QEMU. Data that the kernel of the guest had not yet written to its disks are lost. \
        Then the next boot follows. If the command prints this line in several boots, pagewise simulates a \
        power loss in each of them.")]
    pub(crate) lose_power: Option<Duration>,
    /// Emulate the CPU of the guest even if KVM is available
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Start the guest at once, without waiting for its turn, for memory or for idle CPUs
    #[arg(
        long,
        long_help = "Start the guest at once. Without this option, guests that use the same cache start in the \
        order in which they were requested; the first of them starts when the guests together have at most \
        three quarters of the memory of this machine, this memory is available, and enough CPUs are not busy \
        with other guests. With this option, the guest waits for none of this, so that it and other guests may \
        be slow or run out of memory."
    )]
    pub(crate) now: bool,
    /// Pass the output of the command to your terminal unchanged; use this option for binary data, and only if
    /// you trust the command
    #[arg(
        long,
        long_help = "Pass the output of the command to your terminal unchanged; use this option for binary \
        data, and only if you trust the command. Without this option, pagewise prints control characters, \
        characters that reorder text, and bytes that are not UTF-8 as visible escape sequences, so that a \
        guest cannot control your terminal."
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
    /// Remove cached kernels and userlands, and the temporary files of killed runs
    Prune {
        /// Remove only these items, such as trixie (a cloud kernel), trixie/generic (a generic kernel) or
        /// systemd/trixie (a userland) [default: all]
        #[arg(value_parser = suggested::item_parser(), hide_possible_values = true)]
        items: Vec<Item>,
    },
    /// Download the Debian packages of the cached kernels again and compare every cached file with the packages; exit
    /// status 3 if a file differs
    ///
    /// The command downloads Debian's current package lists, verifies their signatures with Debian's keyring, and
    /// verifies the packages with the checksums in the lists. A cached kernel cannot be compared if Debian has
    /// replaced its packages by newer ones; the output says so. The command does not change the cache.
    Verify {
        /// Verify only these items, such as trixie or trixie/generic (kernels) [default: all]. Disk images of
        /// userlands cannot be verified, because pagewise builds them on this machine and Debian publishes no
        /// file to compare them with
        #[arg(value_parser = suggested::item_parser(), hide_possible_values = true)]
        items: Vec<Item>,
    },
    /// Download the newest kernels of Debian suites, or build userlands (root file systems) from the newest packages
    Fetch {
        /// The items to fetch, such as trixie (a cloud kernel), trixie/generic (a generic kernel) or
        /// systemd/trixie (a userland)
        #[arg(required = true, value_parser = suggested::item_parser(), hide_possible_values = true)]
        items: Vec<Item>,
    },
}
