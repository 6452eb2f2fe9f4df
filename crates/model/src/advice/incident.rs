// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened to a host's memory in some time, from the readings of that time.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Level, Name};

/// What happened to a host's memory in some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Incident {
    /// Time of the first reading that was examined, in seconds since 1970.
    pub from_unix_seconds: f64,
    /// Time of the last reading that was examined, in seconds since 1970.
    pub to_unix_seconds: f64,
    /// Number of readings that were examined.
    pub readings: u64,
    /// The time in which memory was short; `null` if no reading shows that.
    pub trouble: Option<Trouble>,
    /// What happened, the earliest first.
    pub events: Vec<IncidentEvent>,
    /// Programs that took memory from the last calm reading to the worst one, or to the kill of one of
    /// their processes, the most first.
    pub growers: Vec<Grown>,
    /// Memory of no process that grew from the last calm reading to the worst one, the most first.
    pub areas: Vec<GrownArea>,
    /// What would have prevented the kills: commands, with how long they last and how to undo them.
    pub change: Vec<String>,
    /// What could not be judged, and why.
    pub unknown: Vec<String>,
}

/// A time in which memory was short.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Trouble {
    /// Time of the first reading that is not calm, in seconds since 1970.
    pub begun_unix_seconds: f64,
    /// Time of the first calm reading after it; `null` if the last reading is not calm.
    pub ended_unix_seconds: Option<f64>,
    /// Time of the worst reading.
    pub worst_unix_seconds: f64,
    /// The verdict's level at that time.
    pub level: Level,
    /// The verdict at that time, in a sentence.
    pub line: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IncidentEvent {
    /// When it happened, in seconds since 1970; or the first reading that shows it.
    pub unix_seconds: f64,
    /// What kind of thing it is.
    pub kind: IncidentEventKind,
    /// What happened, in a sentence.
    pub text: String,
    /// For a kill, the time since the last reading before it.
    pub seconds_since_reading: Option<f64>,
}

/// A kind of thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentEventKind {
    /// The machine started, or the record does.
    Boot,
    /// For some time there is no reading.
    Gap,
    /// A setting has another value.
    Setting,
    /// A unit or container started.
    Started,
    /// A unit or container ended.
    Ended,
    /// A swap area is full.
    Full,
    /// The verdict's level changed.
    Level,
    /// A process was killed for lack of memory.
    Kill,
}

/// A process that took memory, or a program of which many processes did.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Grown {
    /// Name of the process.
    pub name: Name,
    /// Its process id; of many processes, that of the largest.
    pub pid: u32,
    /// Number of processes of this name whose memory is added up: 1 if one of them took most of it.
    pub processes: u64,
    /// Its cgroup, if it is known.
    pub group: Option<Name>,
    /// Its anonymous memory before, in RAM and in swap; 0 if it did not exist.
    pub from: Bytes,
    /// Its anonymous memory at the worst reading, in RAM and in swap; of a killed process that was smaller at
    /// the reading before, what the kernel printed, which is in RAM alone.
    pub to: Bytes,
    /// Time between the two readings.
    pub seconds: f64,
}

/// Memory that belongs to no process, and grew.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrownArea {
    /// What it is, in words.
    pub name: &'static str,
    /// Its size before.
    pub from: Bytes,
    /// Its size at the worst reading.
    pub to: Bytes,
    /// Time between the two readings.
    pub seconds: f64,
}
