// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened to a host's memory during a period, derived from recorded readings of that period.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Level, Name};

/// What happened to a host's memory during a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Incident {
    /// Time of the first reading that was examined, in seconds since 1970.
    pub from_unix_seconds: f64,
    /// Time of the last reading that was examined, in seconds since 1970.
    pub to_unix_seconds: f64,
    /// Number of readings that were examined.
    pub readings: u64,
    /// The period in which memory was short; `null` if no reading shows a shortage.
    pub trouble: Option<Trouble>,
    /// The events of the period, the earliest first.
    pub events: Vec<IncidentEvent>,
    /// Programs whose memory grew between the last calm reading and the worst one (or the kill of
    /// one of their processes), sorted by growth, largest first.
    pub growers: Vec<Grown>,
    /// Kinds of memory that belong to no process and grew between the last calm reading and the
    /// worst one, largest growth first.
    pub areas: Vec<GrownArea>,
    /// Commands that would have prevented the kills; each says how long its effect lasts and how to
    /// undo it.
    pub change: Vec<String>,
    /// What could not be judged, and why.
    pub unknown: Vec<String>,
    /// Files of the record or recording that could not be read completely. The readings that are
    /// missing may be anywhere in the record, not only in the period that was examined.
    pub unread: Vec<UnreadFile>,
    /// What sysstat recorded before, if an sosreport or another collection of files has its data.
    pub sar: Option<SarHistory>,
}

/// What the texts of `sar` say about memory. Their values are averages of some minutes, or the state at
/// the end of that time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct SarHistory {
    /// Paths of the texts that were read.
    pub texts: Vec<Name>,
    /// Paths of files that have the name of such a text but could not be read as one.
    pub unread: Vec<Name>,
    /// Paths of binary files of which there is no text. Pagewise does not read them.
    pub binary: Vec<Name>,
    /// Number of times for which there are values.
    pub times: u64,
    /// The time with the least available memory; `null` if no text has that value.
    pub least_available: Option<SarTime>,
    /// The time in which some task waited for memory most; `null` if none did or no text says so.
    pub most_waiting: Option<SarTime>,
    /// The time with the fullest swap areas; `null` if none was used or no text says so.
    pub most_swap: Option<SarTime>,
    /// The time with the most major faults; `null` if there were none or no text says so.
    pub most_major_faults: Option<SarTime>,
}

/// The values of `sar` at one time; `null` if the text does not have the value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct SarTime {
    /// Time and day as `sar` printed them: the local time of that machine.
    pub time: Name,
    /// Memory available without swapping (`kbavail`).
    pub available: Option<Bytes>,
    /// Used memory (`kbmemused`).
    pub used: Option<Bytes>,
    /// Used part of all swap areas in percent (`%swpused`).
    pub swap_percent: Option<f64>,
    /// Major faults per second (`majflt/s`).
    pub major_faults_per_second: Option<f64>,
    /// Share of the time in which some task waited for memory, in percent (`%smem`).
    pub some_percent: Option<f64>,
    /// Share of the time in which all tasks waited for memory, in percent (`%fmem`).
    pub full_percent: Option<f64>,
}

/// A file of readings over time of which a part could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UnreadFile {
    /// Path of the file.
    pub path: Name,
    /// Why a part of it could not be read, in a sentence.
    pub why: String,
    /// Time of the last reading before the part that could not be read, in seconds since 1970;
    /// `null` if no reading of the file could be read.
    pub readable_until_unix_seconds: Option<f64>,
}

/// A period in which memory was short.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Trouble {
    /// Time of the first reading that is not calm, in seconds since 1970.
    pub begun_unix_seconds: f64,
    /// Time of the first calm reading after the trouble; `null` if the last reading is not calm.
    pub ended_unix_seconds: Option<f64>,
    /// Time of the worst reading.
    pub worst_unix_seconds: f64,
    /// Time of the earlier of the two readings whose sizes are compared: a calm one before the trouble,
    /// if there is one.
    pub growth_from_unix_seconds: f64,
    /// Time of the later one: the worst reading, or the one before it if the worst shows a kill.
    pub growth_to_unix_seconds: f64,
    /// The longest time in seconds between two neighbouring readings of the trouble; 0 if it has only
    /// one reading.
    pub longest_seconds_between_readings: f64,
    /// The verdict's level at the worst reading.
    pub level: Level,
    /// The verdict at the worst reading, in a sentence.
    pub line: String,
}

/// An event that is relevant to a host's memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IncidentEvent {
    /// Time of the event, or of the first reading that shows it, in seconds since 1970.
    pub unix_seconds: f64,
    /// The kind of event.
    pub kind: IncidentEventKind,
    /// What happened, in a sentence.
    pub text: String,
    /// For a kill: seconds between the last reading before the kill and the kill; otherwise `null`.
    pub seconds_since_reading: Option<f64>,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentEventKind {
    /// The machine booted, or the record of readings begins.
    Boot,
    /// There are no readings for some time.
    Gap,
    /// A setting changed its value.
    Setting,
    /// A unit or container started.
    Started,
    /// A unit or container ended.
    Ended,
    /// A swap area became full.
    Full,
    /// The verdict's level changed.
    Level,
    /// A process was killed for lack of memory.
    Kill,
}

/// A process whose memory grew, or a program whose processes grew together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Grown {
    /// Name of the process.
    pub name: Name,
    /// Process id; if several processes are added up, the id of the largest.
    pub pid: u32,
    /// Number of processes of this name whose memory is added up: 1 if a single process accounts
    /// for most of the growth.
    pub processes: u64,
    /// Cgroup of the process, if it is known.
    pub group: Option<Name>,
    /// Anonymous memory in RAM and in swap at the earlier reading; 0 if the process did not exist.
    pub from: Bytes,
    /// Anonymous memory in RAM and in swap at the worst reading. For a process that was killed, and
    /// whose size was smaller at the last reading than the kernel printed at the kill: the printed
    /// size, which does not include swap.
    pub to: Bytes,
    /// Seconds between the two readings.
    pub seconds: f64,
}

/// Memory that belongs to no process, and that grew.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrownArea {
    /// The kind of memory, such as `page tables`.
    pub name: &'static str,
    /// Size of this memory at the earlier reading.
    pub from: Bytes,
    /// Size of this memory at the worst reading.
    pub to: Bytes,
    /// Seconds between the two readings.
    pub seconds: f64,
}
