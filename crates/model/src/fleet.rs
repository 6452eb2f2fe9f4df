// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many machines at once: what is known of each ([`Machine`]), and what follows for all of them
//! ([`FleetReport`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Level, Name, Percent, Ratio, Severity};

/// What a fleet report needs to know of a machine at one time. A value that is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// The name by which the report names it: the name of its file without endings.
    pub name: Name,
    /// What distinguishes boots, if known: a machine that was read twice counts once.
    pub boot: Option<Name>,
    /// Time of the reading in seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// The CPU architecture.
    pub architecture: Option<Name>,
    /// The release of the kernel, such as `6.12.9-amd64`.
    pub kernel: Option<Name>,
    /// Size of RAM.
    pub ram: Option<Bytes>,
    /// Memory that programs can still take without swapping.
    pub available: Option<Bytes>,
    /// Anonymous memory in RAM.
    pub anon: Option<Bytes>,
    /// Anonymous memory on the inactive lists.
    pub inactive_anon: Option<Bytes>,
    /// Anonymous memory in huge pages.
    pub anon_huge: Option<Bytes>,
    /// Size of swap in use.
    pub swap_used: Option<Bytes>,
    /// Share of the last minute in which some task waited for memory.
    pub waited: Option<Percent>,
    /// How short of memory the machine was.
    pub level: Level,
    /// The findings by id, each once with its worst severity.
    pub findings: BTreeMap<String, Severity>,
    /// Where the machine can put pages out.
    pub swap: SwapSetup,
    /// Size of the pages that are stored compressed, and the RAM that they take.
    pub compressed: Option<(Bytes, Bytes)>,
    /// Size of pages per RAM that they would take compressed, measured from samples of their contents.
    pub sampled_ratio: Option<Ratio>,
    /// Values of settings of the host as a whole, by name.
    pub settings: BTreeMap<String, Name>,
    /// Sums over the limits of its cgroups; `None` if the source does not say.
    pub limits: Option<LimitSums>,
}

/// Where a machine can put pages out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwapSetup {
    /// It is not known.
    #[default]
    Unknown,
    /// Nowhere.
    None,
    /// On a disk.
    Disk,
    /// On a disk with zswap in front of it.
    Zswap,
    /// Into compressed RAM (zram or zmerge).
    Zram,
    /// Into compressed RAM and on a disk.
    ZramAndDisk,
}

/// Sums over the advice on the limits of a machine's cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitSums {
    /// Number of cgroups that need less than their limit.
    pub could_be_lower: u64,
    /// How much less, in all.
    pub freed_bytes: Bytes,
    /// Number of cgroups whose limit is too low.
    pub too_low: u64,
}

/// What follows from many machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct FleetReport {
    /// Number of machines.
    pub machines: u64,
    /// Time of the oldest and of the newest reading, in seconds since 1970, UTC.
    pub unix_seconds: Option<[f64; 2]>,
    /// Number of machines with each level of the verdict, the worst first.
    pub levels: Vec<LevelCount>,
    /// The findings, the most severe and most frequent first.
    pub findings: Vec<FleetFinding>,
    /// Machines that are alike, the largest group first.
    pub groups: Vec<FleetGroup>,
    /// What compression gives and could give.
    pub compression: FleetCompression,
    /// What right limits of cgroups would give; `null` if no source says.
    pub limits: Option<FleetLimits>,
    /// How much anonymous memory is in huge pages.
    pub huge_pages: FleetHugePages,
    /// Files that could not be read, at most 100.
    pub unread: Vec<UnreadMachine>,
    /// Number of files that could not be read.
    pub unread_files: u64,
    /// Number of older readings of the same boot of a machine, which are not counted.
    pub older_readings: u64,
}

/// Number of machines with a level of the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LevelCount {
    /// The level.
    pub level: Level,
    /// Number of machines.
    pub machines: u64,
}

/// A finding, and on how many machines it was reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetFinding {
    /// Stable name of the rule.
    pub id: String,
    /// The worst severity on any machine.
    pub severity: Severity,
    /// Number of machines.
    pub machines: u64,
    /// Names of some of these machines, those with the worst severity first.
    pub examples: Vec<Name>,
}

/// Machines with about as much RAM, the same architecture, the same series of kernels, and the same
/// kinds of swap.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetGroup {
    /// RAM of the machines, rounded up to the size that is sold; `null` if not known.
    pub ram_bytes: Option<Bytes>,
    /// The CPU architecture; `null` if not known.
    pub architecture: Option<Name>,
    /// Series of the kernel, such as `6.12`; `null` if not known.
    pub kernel: Option<Name>,
    /// Where the machines can put pages out.
    pub swap: SwapSetup,
    /// Number of machines.
    pub machines: u64,
    /// Number of machines that are short of memory, or worse.
    pub short: u64,
    /// Median of the share of RAM that is available, in percent.
    pub available_percent: Option<Percent>,
    /// Settings that are not the same on all of these machines.
    pub settings: Vec<DifferingSetting>,
    /// Machines that differ much from the others.
    pub outliers: Vec<Outlier>,
}

/// A setting that is not the same on all machines of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DifferingSetting {
    /// Name of the setting.
    pub setting: String,
    /// The values, the most frequent first.
    pub values: Vec<SettingValue>,
}

/// A value of a setting, and the machines that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingValue {
    /// The value.
    pub value: Name,
    /// Number of machines.
    pub machines: u64,
    /// Names of some of these machines.
    pub examples: Vec<Name>,
}

/// A machine that differs much from the others of its group.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outlier {
    /// Name of the machine.
    pub machine: Name,
    /// What differs.
    pub measure: OutlierMeasure,
    /// Its value in percent.
    pub percent: Percent,
    /// The median of its group in percent.
    pub median_percent: Percent,
}

/// In what a machine differs from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutlierMeasure {
    /// Available memory as a share of RAM.
    Available,
    /// Swap in use as a share of RAM.
    SwapUsed,
    /// Share of the last minute in which some task waited for memory.
    Waited,
    /// Anonymous memory as a share of RAM.
    Anonymous,
}

/// A value with the ends of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WithInterval<T> {
    /// The value.
    pub value: T,
    /// The lower end.
    pub low: T,
    /// The upper end.
    pub high: T,
}

/// What compression of memory gives, and could give on machines that do not have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct FleetCompression {
    /// Number of machines with zram or zswap that store pages.
    pub storing_machines: u64,
    /// Size of the pages that these store.
    pub stored_bytes: Bytes,
    /// RAM that the stored pages take.
    pub pool_bytes: Bytes,
    /// Number of machines without zram and zswap whose inactive anonymous memory is known.
    pub without_machines: u64,
    /// Inactive anonymous memory of these: an upper limit of what could be stored compressed.
    pub inactive_bytes: Bytes,
    /// Number of machines from which the ratio is known.
    pub ratio_machines: u64,
    /// How much RAM would be saved if all of that was stored compressed; `null` if too few machines
    /// show the ratio.
    pub saved_bytes: Option<WithInterval<Bytes>>,
}

/// Sums over the advice on limits of all machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetLimits {
    /// Number of machines of which the limits are known.
    pub machines: u64,
    /// The sums over them.
    #[serde(flatten)]
    pub sums: LimitSums,
}

/// How much anonymous memory is in huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetHugePages {
    /// Number of machines of which both sizes are known.
    pub machines: u64,
    /// Anonymous memory of these machines.
    pub anon_bytes: Bytes,
    /// The part of it in huge pages.
    pub huge_bytes: Bytes,
}

/// A file that could not be read as a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnreadMachine {
    /// The file.
    pub file: Name,
    /// The reason.
    pub why: String,
}
