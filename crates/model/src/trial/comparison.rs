// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of comparing two hosts, or one host at two times: what changed between them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Nanos, Percent, Reading};

/// The result of `pagewise compare`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The first reading: the host, and when it was read.
    pub before: ComparedHost,
    /// The second reading: the host, and when it was read.
    pub after: ComparedHost,
    /// Whether both readings are of the same host, and of the same boot.
    pub relation: Relation,
    /// The facts from which `relation` was derived, in sentences.
    pub reasons: Vec<String>,
    /// Time from the first reading to the second, in seconds; `null` unless both are of the same
    /// boot and in this order.
    pub seconds: Option<f64>,
    /// Settings and devices that differ.
    pub settings: Vec<SettingChange>,
    /// Memory by use, in the first and in the second reading.
    pub memory: Vec<SizeChange>,
    /// Share of the last 60 s in which tasks waited for a resource (PSI).
    pub pressure: Vec<PressureChange>,
    /// How often memory-management events happened, in both readings.
    pub activity: Vec<ActivityChange>,
    /// CPU time of the kernel threads that reclaim, compact and collapse.
    pub threads: Vec<ThreadChange>,
    /// Cgroups that changed, the largest change first.
    pub cgroups: Vec<GroupChange>,
    /// Cgroups that could not be compared, because each recording replaced their names by its own
    /// numbers.
    pub unmatched_cgroups: usize,
    /// Processes that changed, the largest change first.
    pub processes: Vec<ProgramChange>,
    /// What became better or worse, and how to find the cause.
    pub effect: ObservedEffect,
}

/// One of the two readings that are compared, and the host it is of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedHost {
    /// Where the values were read from: `live` for the running host, or the path of a recording.
    pub root: Name,
    /// Name of the host; in a recording, a hash of the name.
    pub name: Reading<Name>,
    /// Release of the host's kernel.
    pub kernel: Reading<Name>,
    /// When the values were read, in seconds since 1970, UTC; 0 if it is not known.
    pub unix_seconds: f64,
    /// Time since boot in seconds, time in suspend included.
    pub uptime_seconds: Option<f64>,
    /// Time over which the rates of this reading were measured, in seconds; `null` if the host was
    /// read only once.
    pub interval_seconds: Option<f64>,
    /// How short of memory the host was, in a sentence.
    pub verdict: String,
}

/// Whether the two readings are of the same host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The same host and the same boot: its counters continued.
    SameBoot,
    /// A host of the same kind after a reboot, so that its counters started again at 0. Whether it
    /// is the same machine cannot be determined, because recordings contain no host names.
    #[default]
    AnotherBoot,
    /// Two different machines, or one machine whose hardware was changed.
    AnotherHost,
}

/// A setting or a device that differs between the two readings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingChange {
    /// Name of the setting in the table of kernel settings, or the kind of thing that changed:
    /// `kernel`, `boot parameters`, `swap`.
    pub name: String,
    /// The instance, if the setting exists several times: a device, a page size, a cgroup.
    pub instance: Option<Name>,
    /// Value in the first reading; `null` if there was none.
    pub from: Option<Name>,
    /// Value in the second reading; `null` if there is none.
    pub to: Option<Name>,
}

/// A size in the first and in the second reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeChange {
    /// Name of the kind of memory.
    pub name: &'static str,
    /// Size in the first reading.
    pub before: Reading<Bytes>,
    /// Size in the second reading.
    pub after: Reading<Bytes>,
}

/// The share of time in which tasks waited, at the first and at the second reading.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PressureChange {
    /// The resource and which tasks waited for it, such as `memory, some`.
    pub name: &'static str,
    /// Share of the 60 s before the first reading in which tasks waited.
    pub before: Reading<Percent>,
    /// Share of the 60 s before the second reading in which tasks waited.
    pub after: Reading<Percent>,
    /// Share of the time between the two readings in which tasks waited; `null` unless both are of
    /// the same boot.
    pub between: Option<Percent>,
}

/// What the number of an activity counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActivityUnit {
    /// The number counts base pages.
    Pages,
    /// The number counts events.
    Events,
}

/// How often a memory-management event happened. Rates are per second, in `unit`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ActivityChange {
    /// The event that is counted.
    pub name: &'static str,
    /// The counters of `/proc/vmstat` that are added up.
    pub counters: &'static [&'static str],
    /// What is counted: base pages or events.
    pub unit: ActivityUnit,
    /// Bytes in a base page; `null` unless pages are counted.
    pub page_bytes: Option<Bytes>,
    /// Rate in the interval over which the first reading was measured.
    pub before: Option<f64>,
    /// Rate in the interval over which the second reading was measured.
    pub after: Option<f64>,
    /// Rate between the two readings; `null` unless both are of the same boot.
    pub between: Option<f64>,
    /// Number of events between the two readings; `null` unless both are of the same boot.
    pub between_count: Option<u64>,
    /// Rates since boot, if the two readings are of different boots.
    pub since_boot: Option<[f64; 2]>,
}

/// CPU time of a kernel thread in the two readings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ThreadChange {
    /// Name of the thread; several threads of one kind (one for each NUMA node) are added up.
    pub name: &'static str,
    /// CPU time from the boot to the first reading.
    pub before: Reading<Nanos>,
    /// CPU time from the boot to the second reading.
    pub after: Reading<Nanos>,
    /// Share of one CPU that the thread used between the two readings; `null` unless both are of
    /// the same boot.
    pub between: Option<Percent>,
    /// Shares of one CPU that the thread used since boot, if the two readings are of different
    /// boots.
    pub since_boot: Option<[Percent; 2]>,
}

/// Whether a cgroup or process exists in both readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// The same cgroup or process exists in both readings.
    Same,
    /// Another cgroup or process of the same name exists in the second reading: it was restarted,
    /// or belongs to another host.
    Namesake,
    /// The cgroup or process exists only in the first reading.
    Gone,
    /// The cgroup or process exists only in the second reading.
    New,
}

/// A cgroup that changed between the two readings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GroupChange {
    /// Path of the cgroup in the second reading, or in the first if it is gone.
    pub path: Name,
    /// Whether the cgroup exists in both readings.
    pub presence: Presence,
    /// Memory charged to the group in the first reading (`memory.current`).
    pub memory_before: Reading<Bytes>,
    /// Memory charged to the group in the second reading (`memory.current`).
    pub memory_after: Reading<Bytes>,
    /// Swap used by the group in the first reading (`memory.swap.current`).
    pub swap_before: Reading<Bytes>,
    /// Swap used by the group in the second reading (`memory.swap.current`).
    pub swap_after: Reading<Bytes>,
    /// Refaults of file pages and of anonymous pages between the two readings; `null` unless both
    /// are of the same boot.
    pub refaults: Option<u64>,
    /// Share of the time between the two readings in which at least one task of the group waited
    /// for memory.
    pub waited: Option<Percent>,
}

/// A process that changed between the two readings, or several processes of the same name together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProgramChange {
    /// Name of the process's command.
    pub name: Name,
    /// Id of the process, if it is one process, the same in both readings.
    pub pid: Option<u32>,
    /// Whether the process exists in both readings.
    pub presence: Presence,
    /// Number of processes with this name in the first reading.
    pub count_before: usize,
    /// Number of processes with this name in the second reading.
    pub count_after: usize,
    /// Resident memory in the first reading; shared pages count in each process.
    pub resident_before: Option<Bytes>,
    /// Resident memory in the second reading; shared pages count in each process.
    pub resident_after: Option<Bytes>,
    /// Memory in swap in the first reading.
    pub swap_before: Option<Bytes>,
    /// Memory in swap in the second reading.
    pub swap_after: Option<Bytes>,
    /// CPU time between the two readings, in seconds; `null` unless it is the same process.
    pub cpu_seconds: Option<f64>,
    /// Major page faults between the two readings; `null` unless it is the same process.
    pub major_faults: Option<u64>,
}

/// What became better or worse, without a claim about its cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ObservedEffect {
    /// Measures that are better in the second reading, each with its two values.
    pub better: Vec<String>,
    /// Measures that are worse in the second reading, each with its two values.
    pub worse: Vec<String>,
    /// Why the comparison does not prove that a changed setting caused the effect.
    pub caveat: String,
    /// The command of an experiment that tests the settings that changed; `null` if no experiment
    /// may change them.
    pub trial: Option<String>,
}
