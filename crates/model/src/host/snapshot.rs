// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All Readings of a host at one time.

use schemars::JsonSchema;
use serde::Serialize;

use crate::knob::KnobReading;
use crate::{
    Bytes, Capability, Cgroups, Configuration, Counters, Damon, DiskStats, FreeBlocks, GpuMemory,
    HostSummary, HugePool, KernelLog, KernelThread, Ksm, Memory, MemoryFiles, Mglru, Millis, Name,
    Process, Processes, Psi, Reading, Source, Thp, Tier, Zone, Zram, Zswap, group_digits,
};

/// All Readings of a host at one time. Values outside the requested scope are empty or
/// [`Reading::not_read`].
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each field is the noun of the same name")]
pub struct Snapshot {
    pub taken: Taken,
    pub host: HostSummary,
    pub memory: Memory,
    pub memory_files: MemoryFiles,
    /// Memory of GPU buffers, the largest first. It is read only if much RAM is in use that the
    /// kernel's main counters do not include.
    pub gpu_memory: Vec<GpuMemory>,
    pub vmstat: Counters,
    pub psi: Psi,
    pub zones: Vec<Zone>,
    pub free_blocks: Vec<FreeBlocks>,
    pub tiers: Vec<Tier>,
    /// I/O counters of all block devices; they are read only if a swap area is on a disk.
    pub disk_stats: Vec<DiskStats>,
    pub zram: Vec<Zram>,
    pub zmerge: Vec<Zram>,
    pub zswap: Zswap,
    pub ksm: Ksm,
    pub hugetlb: Vec<HugePool>,
    pub thp: Thp,
    pub mglru: Mglru,
    pub damon: Damon,
    pub knobs: Vec<KnobReading>,
    pub configuration: Configuration,
    pub capabilities: Vec<Capability>,
    /// The largest number of pages that zsmalloc combines to a zspage
    /// (`CONFIG_ZSMALLOC_CHAIN_SIZE`).
    pub zsmalloc_chain_size: Reading<u64>,
    pub processes: Processes,
    pub kernel_threads: Vec<KernelThread>,
    pub cgroups: Cgroups,
    pub kernel_log: KernelLog,
    /// Parts of files that could not be parsed. All other values are valid.
    pub problems: Vec<Problem>,
    /// Number of bytes that were read from the host's files.
    pub bytes_read: u64,
}

impl Snapshot {
    /// The current value of a setting that exists once, by its name in the knob table.
    pub fn knob(&self, name: &str) -> Option<&KnobReading> {
        self.knobs.iter().find(|reading| reading.knob.name == name)
    }

    /// Every zram and zmerge device; zram devices first.
    pub fn compressed_devices(&self) -> impl DoubleEndedIterator<Item = &Zram> {
        self.zram.iter().chain(&self.zmerge)
    }

    /// Size of a page on this host; 4 KiB if it is not known.
    pub fn page_size(&self) -> Bytes {
        self.host.page_size.get().unwrap_or(Bytes::new(4096))
    }

    /// How long ago a process of this snapshot started.
    pub fn age(&self, process: &Process) -> Option<Millis> {
        let begun = process.start_time.get()?.get();
        self.taken.uptime.get()?.get().checked_sub(begun).map(Millis::new)
    }

    /// The result of probing the kernel feature with this name.
    pub fn capability(&self, feature: &str) -> Option<&Capability> {
        self.capabilities.iter().find(|capability| capability.feature == feature)
    }
}

/// When the snapshot was taken, and in which boot of which kernel.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// When the snapshot was taken, in seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// When the snapshot was taken, in seconds on a monotonic clock: only differences are
    /// meaningful.
    pub monotonic_seconds: f64,
    /// Time since boot, including time in suspend: the clock of [`crate::Process::start_time`].
    pub uptime: Reading<Millis>,
    /// Time since boot without time in suspend: the clock of the kernel log. `None` if it is not
    /// known, for example because it is not in the recording.
    pub awake_seconds: Option<f64>,
    /// Id of the boot, which changes with every boot.
    pub boot_id: Reading<Name>,
    /// The kernel's release, such as `6.12.107`.
    pub kernel: Reading<Name>,
}

/// Text in a file that could not be parsed, or things that were not read because there were too
/// many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// The file that contains the text.
    pub path: Name,
    /// The line in the file, counted from 1; `null` if the problem concerns the file as a whole.
    pub line: Option<u32>,
    /// What Pagewise expected at that place.
    pub expected: String,
    /// What the file contained instead, shortened.
    pub found: Name,
    /// Which part was read, if there is more than Pagewise reads, such as `only the first 64 were
    /// read`; missing if the text could not be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_read: Option<String>,
}

/// Which things are read if there are more of them than Pagewise reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartRead {
    /// The first things in the file's order.
    First,
    /// The last things in the file's order.
    Last,
    /// The things that a phrase describes, such as `with the most memory`.
    Those(&'static str),
}

impl Problem {
    /// Creates the problem that `found` was read at `source` where `expected` was expected.
    pub fn new(source: &Source, expected: impl Into<String>, found: &[u8]) -> Self {
        const SHOWN: usize = 40;
        Self {
            path: Name::from(source.path()),
            line: source.line_number(),
            expected: expected.into(),
            found: Name::from_bytes(&found[..found.len().min(SHOWN)]),
            only_read: None,
        }
    }

    /// Creates the problem that there are more `things` at `source` than Pagewise reads: only
    /// `read` of the `found` things were read.
    pub fn beyond_limit(
        source: &Source,
        things: &str,
        found: u64,
        read: u64,
        part: PartRead,
    ) -> Self {
        let [found, read] = [found, read].map(group_digits);
        let which = match part {
            PartRead::First => format!("first {read}"),
            PartRead::Last => format!("last {read}"),
            PartRead::Those(clause) => format!("{read} {clause}"),
        };
        Self {
            only_read: Some(format!("only the {which} were read")),
            ..Self::new(
                source,
                format!("at most {read} {things}"),
                format!("{found} {things}").as_bytes(),
            )
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.only_read {
            Some(only_read) => write!(f, ": {}: {only_read}", self.found),
            None => write!(f, ": expected {}, found \"{}\"", self.expected, self.found),
        }
    }
}
