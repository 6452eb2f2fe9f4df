// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two hosts, or one host at two times: what changed between them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Nanos, Percent, Reading};

/// The result of `pagewise compare`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The first of the two.
    pub before: ComparedHost,
    /// The second of the two.
    pub after: ComparedHost,
    /// Whether both are the same host since the same boot.
    pub relation: Relation,
    /// What `relation` follows from, in sentences.
    pub reasons: Vec<String>,
    /// Time from the first to the second in seconds; `null` unless both are of the same boot and in
    /// this order.
    pub seconds: Option<f64>,
    /// Settings and devices that differ.
    pub settings: Vec<SettingChange>,
    /// Memory by use, before and after.
    pub memory: Vec<SizeChange>,
    /// Share of the last 60 s in which tasks waited for a resource (PSI).
    pub pressure: Vec<PressureChange>,
    /// How often memory-management events happened.
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

/// One of the two hosts that are compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparedHost {
    /// Where it was read: `live`, or the recording's path.
    pub root: Name,
    /// The host's name; in a recording, a hash of it.
    pub name: Reading<Name>,
    /// The kernel's release.
    pub kernel: Reading<Name>,
    /// Seconds since 1970, UTC; 0 if it is not known.
    pub unix_seconds: f64,
    /// Time since boot in seconds, time in suspend included.
    pub uptime_seconds: Option<f64>,
    /// Time over which its own rates were measured, in seconds; `null` if it was read once.
    pub interval_seconds: Option<f64>,
    /// How short of memory it was, in a sentence.
    pub verdict: String,
}

/// Whether two recordings are of the same host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The same host and the same boot: its counters continued.
    SameBoot,
    /// The same kind of host after a reboot: its counters started again. Whether it is the same
    /// machine cannot be determined, because recordings hold no names.
    #[default]
    AnotherBoot,
    /// Two different machines, or one whose hardware was changed.
    AnotherHost,
}

/// A setting or a device that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingChange {
    /// The name in the knob table, or what it is: `kernel`, `boot parameters`, `swap`.
    pub name: String,
    /// The instance, if there are several: a device, a page size, a cgroup.
    pub instance: Option<Name>,
    /// What it was; `null` if there was none.
    pub from: Option<Name>,
    /// What it is; `null` if there is none.
    pub to: Option<Name>,
}

/// A size before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeChange {
    /// What was measured.
    pub name: &'static str,
    /// Before.
    pub before: Reading<Bytes>,
    /// After.
    pub after: Reading<Bytes>,
}

/// The share of time in which tasks waited, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PressureChange {
    /// The resource and which tasks waited: `memory, some`.
    pub name: &'static str,
    /// In the 60 s before the first reading.
    pub before: Reading<Percent>,
    /// In the 60 s before the second reading.
    pub after: Reading<Percent>,
    /// Between the two readings; `null` unless both are of the same boot.
    pub between: Option<Percent>,
}

/// The unit of a number of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActivityUnit {
    /// Base pages.
    Pages,
    /// Events.
    Events,
}

/// How often something happened. Rates are per second, in `unit`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ActivityChange {
    /// What happened.
    pub name: &'static str,
    /// The counters of `/proc/vmstat` whose sum this is.
    pub counters: &'static [&'static str],
    /// What is counted: pages or events.
    pub unit: ActivityUnit,
    /// Bytes in a page; `null` unless pages are counted.
    pub page_bytes: Option<Bytes>,
    /// Within the first host's own interval.
    pub before: Option<f64>,
    /// Within the second host's own interval.
    pub after: Option<f64>,
    /// Between the two; `null` unless both are of the same boot.
    pub between: Option<f64>,
    /// Number of events between the two; `null` unless both are of the same boot.
    pub between_count: Option<u64>,
    /// Since the boot of each, if they are of different boots.
    pub since_boot: Option<[f64; 2]>,
}

/// CPU time of a kernel thread.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ThreadChange {
    /// The thread's name; several of one kind (one for each NUMA node) are added up.
    pub name: &'static str,
    /// From the boot to the first reading.
    pub before: Reading<Nanos>,
    /// From the boot to the second reading.
    pub after: Reading<Nanos>,
    /// Share of one CPU between the two; `null` unless both are of the same boot.
    pub between: Option<Percent>,
    /// Share of one CPU since the boot of each, if they are of different boots.
    pub since_boot: Option<[Percent; 2]>,
}

/// Whether something exists in both readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// It exists in both.
    Same,
    /// Another one of the same name: it was restarted, or belongs to another host.
    Namesake,
    /// Only in the first.
    Gone,
    /// Only in the second.
    New,
}

/// A cgroup that changed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GroupChange {
    /// The path after, or before if it is gone.
    pub path: Name,
    /// Whether it exists in both readings.
    pub presence: Presence,
    /// `memory.current` before.
    pub memory_before: Reading<Bytes>,
    /// `memory.current` after.
    pub memory_after: Reading<Bytes>,
    /// `memory.swap.current` before.
    pub swap_before: Reading<Bytes>,
    /// `memory.swap.current` after.
    pub swap_after: Reading<Bytes>,
    /// Refaults of files and of anonymous memory between the two; `null` unless both are of the
    /// same boot.
    pub refaults: Option<u64>,
    /// Share of the time between the two in which at least one of its tasks waited for memory.
    pub waited: Option<Percent>,
}

/// A process that changed, or several processes of the same name together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProgramChange {
    /// The command's name.
    pub name: Name,
    /// The process's id if it is one process, the same at both times.
    pub pid: Option<u32>,
    /// Whether it exists in both readings.
    pub presence: Presence,
    /// How many processes before.
    pub count_before: usize,
    /// How many processes after.
    pub count_after: usize,
    /// Resident memory before; shared pages count in each process.
    pub resident_before: Option<Bytes>,
    /// Resident memory after.
    pub resident_after: Option<Bytes>,
    /// Memory in swap before.
    pub swap_before: Option<Bytes>,
    /// Memory in swap after.
    pub swap_after: Option<Bytes>,
    /// CPU time between the two in seconds; `null` unless it is the same process.
    pub cpu_seconds: Option<f64>,
    /// Major page faults between the two; `null` unless it is the same process.
    pub major_faults: Option<u64>,
}

/// What differs, without a claim about its cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ObservedEffect {
    /// Measures that are better after, each with its two values.
    pub better: Vec<String>,
    /// Measures that are worse after, each with its two values.
    pub worse: Vec<String>,
    /// Why the comparison does not prove a cause.
    pub caveat: String,
    /// The command of an experiment with the settings that changed; `null` if no experiment may
    /// change them.
    pub trial: Option<String>,
}
