// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise lab`.

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
    #[command(long_about = WORKLOAD, after_help = crate::workload_keys::workload_keys())]
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
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Vec<Bytes>,
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
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub(crate) memory: Bytes,
    /// Number of virtual CPUs of the guest
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// Time limit from the start of your command in the guest until the guest ends [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Time limit from the start of the guest until your command starts [default: 2m, or 5m with systemd]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
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
    /// Reboot the guest N times, at most 50, and run the command at every boot, on a root disk that keeps what is
    /// written to it; needs --userland systemd
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50),
        conflicts_with_all = ["boots", "count"], long_help = "Reboot the guest N times, at most 50, and run the \
        command at every boot. The root disk of the guest keeps what is written to it from one boot to the next, \
        and is deleted at the end. The variable PAGEWISE_BOOT tells the command which boot this is: 0 is the \
        first, N the last. When the command has ended, the guest reboots as with `systemctl reboot`; the command \
        may also call `systemctl reboot`. kmod and the modules of the kernel are on the root disk, and before \
        systemd starts, only the modules that the root disk needs are loaded; --module adds modules to the disk. \
        Deadlines hold for each boot. If the command of a boot fails, there is no further boot.")]
    pub(crate) reboots: Option<u32>,
    /// With --reboots: leave this package on the root disk: systemd-zram-generator; may be given several times
    #[arg(long, value_name = "NAME", requires = "reboots")]
    pub(crate) package: Vec<String>,
    /// With --reboots: cut the power of the guest this long after the command has printed the line lose-power
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "reboots",
        long_help = "With --reboots: when the command prints a line that is lose-power and nothing else, to \
        standard output or standard error, wait this long and kill QEMU. What the kernel of the guest had not \
        yet written to its disks is lost; the next boot follows. Every boot whose command prints the line loses \
        its power.")]
    pub(crate) lose_power: Option<Duration>,
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
        /// Verify only these items [default: all]. Disk images of userlands are not verified: they are built on this
        /// machine, so there is no published file to compare them with
        items: Vec<Item>,
    },
    /// Download the newest kernels or userlands of Debian suites
    Fetch {
        /// The items to download: trixie names a kernel, systemd/trixie a userland
        #[arg(required = true)]
        items: Vec<Item>,
    },
}
