// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All Readings of a host at one time.

use schemars::JsonSchema;
use serde::Serialize;

use crate::knob::KnobReading;
use crate::{
    Bytes, Capability, Cgroups, Configuration, Counters, Damon, FreeBlocks, HostSummary, HugePool,
    KernelLog, KernelThread, Ksm, Memory, MemoryFiles, Mglru, Millis, Name, Process, Processes,
    Psi, Reading, Source, Thp, Tier, Zone, Zram, Zswap,
};

/// All Readings of a host at one time. What the scope left out is [`Reading::not_read`] or empty.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each field is the noun of the same name")]
pub struct Snapshot {
    pub taken: Taken,
    pub host: HostSummary,
    pub memory: Memory,
    pub memory_files: MemoryFiles,
    pub vmstat: Counters,
    pub psi: Psi,
    pub zones: Vec<Zone>,
    pub free_blocks: Vec<FreeBlocks>,
    pub tiers: Vec<Tier>,
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
    /// The longest zspage of zsmalloc, in pages.
    pub zsmalloc_chain_size: Reading<u64>,
    pub processes: Processes,
    pub kernel_threads: Vec<KernelThread>,
    pub cgroups: Cgroups,
    pub kernel_log: KernelLog,
    /// What could not be understood while reading; the rest stands.
    pub problems: Vec<Problem>,
    /// Bytes read from the host's files.
    pub bytes_read: u64,
}

impl Snapshot {
    /// The live value of a setting by its name in the knob table; for settings that exist once.
    pub fn knob(&self, name: &str) -> Option<&KnobReading> {
        self.knobs.iter().find(|reading| reading.knob.name == name)
    }

    /// Every block device in compressed RAM, zram's first.
    pub fn compressed(&self) -> impl DoubleEndedIterator<Item = &Zram> {
        self.zram.iter().chain(&self.zmerge)
    }

    /// The host's page size, or 4 KiB where it is not known.
    pub fn page_size(&self) -> Bytes {
        self.host.page_size.get().unwrap_or(Bytes::new(4096))
    }

    /// How long ago a process of this snapshot began.
    pub fn age(&self, process: &Process) -> Option<Millis> {
        let begun = process.start_time.get()?.get();
        self.taken.uptime.get()?.get().checked_sub(begun).map(Millis::new)
    }

    /// The named feature, as probed.
    pub fn capability(&self, feature: &str) -> Option<&Capability> {
        self.capabilities.iter().find(|capability| capability.feature == feature)
    }
}

/// When and on which boot of which kernel.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// Seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// Seconds on a clock that nobody sets: only differences mean something.
    pub monotonic_seconds: f64,
    /// Time since boot, suspended time included: the clock of [`crate::Process::start_time`].
    pub uptime: Reading<Millis>,
    /// The same without the time in which the machine was suspended: the clock of the kernel log.
    /// `None` where it is not known, as of a recording that was made without it.
    pub awake_seconds: Option<f64>,
    /// Changes with every boot.
    pub boot_id: Reading<Name>,
    /// The kernel's release, as `6.12.107`.
    pub kernel: Reading<Name>,
}

/// Something in a file that is not as the kernel writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// The file.
    pub path: Name,
    /// The line in it, counted from 1; `null` where the file as a whole is meant.
    pub line: Option<u32>,
    /// What should stand there.
    pub expected: String,
    /// What stands there instead, shortened.
    pub found: Name,
}

impl Problem {
    /// A problem at `source`.
    pub fn new(source: &Source, expected: impl Into<String>, found: &[u8]) -> Self {
        const SHOWN: usize = 40;
        Self {
            path: Name::from(source.path()),
            line: source.line_number(),
            expected: expected.into(),
            found: Name::from_bytes(&found[..found.len().min(SHOWN)]),
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": expected {}, found \"{}\"", self.expected, self.found)
    }
}
