// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of a journal, each stored as one line of JSON.
//!
//! A line is `{"record":…,"crc32":"0a1b2c3d"}`. The checksum covers everything before it, so a line
//! of which only half is on disk is never accepted.

use pagewise_model::plan::Plan;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::change::{Device, Identity, RecordedChange};

/// A record of the journal, stored as one line. The names in the file are those of earlier
/// versions, which wrote them for loans and for plans alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(crate) enum Record {
    /// The first line of a journal of loans: the run that writes the journal.
    Began(RunStart),
    /// The first line of a plan's journal: the run that writes it, and the whole plan.
    Planned(PlannedRun),
    /// The changes whose records follow belong to this step of the plan.
    Step { id: String },
    /// Every step of the plan was applied: its changes stay until the plan is undone.
    Applied,
    /// The plan is undone at this time (in seconds of Unix time) or at the next boot, unless it is
    /// confirmed before.
    Trial {
        until: u64,
        /// The end of the trial in seconds since boot, suspended time included. This clock decides,
        /// because Unix time can be set. The field is missing in journals of version 0.1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_since_boot: Option<u64>,
    },
    /// The plan on trial was confirmed.
    Confirmed,
    /// From here on the plan is undone. What cannot be undone at once is tried again.
    Undoing,
    /// A change is about to be made.
    #[serde(rename = "taking")]
    Announced {
        #[serde(rename = "loan")]
        id: u64,
        what: RecordedChange,
    },
    /// The zram device that a change created has this number.
    Made {
        #[serde(rename = "loan")]
        id: u64,
        device: Device,
    },
    /// The file or cgroup that a change created has this identity.
    Identified {
        #[serde(rename = "loan")]
        id: u64,
        identity: Identity,
    },
    /// The change is made and was read back.
    Done {
        #[serde(rename = "loan")]
        id: u64,
    },
    /// The change was undone; nothing of it remains.
    #[serde(rename = "returned")]
    Undone {
        #[serde(rename = "loan")]
        id: u64,
    },
    /// Somebody else changed the value: it is left unchanged.
    Conflict {
        #[serde(rename = "loan")]
        id: u64,
        found: String,
    },
}

/// The run that writes a journal, as the journal's first line names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunStart {
    pub(crate) boot_id: String,
    pub(crate) pid: u32,
    pub(crate) unix_seconds: u64,
    /// The version of Pagewise that wrote the journal.
    #[serde(default)]
    pub(crate) pagewise: String,
}

/// The run that applies a plan, and the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedRun {
    #[serde(flatten)]
    pub(crate) run: RunStart,
    #[serde(deserialize_with = "parse_plan")]
    pub(crate) plan: Box<Plan>,
}

/// Parses the plan of a journal that any version wrote: a list that a version does not write is
/// empty. A document that the user gives to `apply` must have all lists.
fn parse_plan<'de, D: Deserializer<'de>>(input: D) -> Result<Box<Plan>, D::Error> {
    let mut plan = Value::deserialize(input)?;
    add_missing_lists(&mut plan, &["declined"]);
    for step in plan.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        add_missing_lists(step, &["coupled", "needs"]);
    }
    serde_json::from_value(plan).map(Box::new).map_err(D::Error::custom)
}

fn add_missing_lists(value: &mut Value, names: &[&str]) {
    let Some(fields) = value.as_object_mut() else { return };
    for name in names {
        fields.entry(*name).or_insert_with(|| Value::Array(Vec::new()));
    }
}

const START: &str = "{\"record\":";
const SUM: &str = ",\"crc32\":\"";
const END: &str = "\"}";
const DIGITS: usize = 8;

impl Record {
    /// The run that writes the journal, if this record is a first line.
    pub(crate) fn run(&self) -> Option<&RunStart> {
        match self {
            Self::Began(run) | Self::Planned(PlannedRun { run, .. }) => Some(run),
            _ => None,
        }
    }

    /// The record as a line of the journal, with its line end.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        // serializing plain text and numbers cannot fail
        with_checksum(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Parses a line of the journal, given without its end; `None` if we cannot have written it.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(record_of_line(line)?).ok()
    }
}

/// The JSON of a record, from its line without the line end; `None` if the checksum is wrong.
pub(crate) fn record_of_line(line: &[u8]) -> Option<&[u8]> {
    let (record, sum) = split_line(line)?;
    (sum == self::checksum(record)).then_some(record)
}

/// Whether a line without an end is what a killed writer leaves: the beginning of a valid line. A
/// line that has a wrong checksum was complete once and was changed.
pub(crate) fn is_torn(line: &[u8]) -> bool {
    // even if a closing brace became a digit, so that the record seems to continue
    if split_line(line).is_some() {
        return false;
    }
    let Some(rest) = line.strip_prefix(START.as_bytes()) else {
        return START.as_bytes().starts_with(line);
    };
    if !rest.is_empty() && !rest.starts_with(b"{") {
        return false;
    }
    let first = |text: &[u8]| {
        let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
        (values.next(), values.byte_offset())
    };
    let ends_early = |text: &[u8]| matches!(first(text), (Some(Err(error)), _) if error.is_eof());
    match first(rest) {
        (None, _) => true,
        // the parser does not accept a sign or decimal point alone as the beginning of a number
        (Some(Err(_)), _) => ends_early(rest) || ends_early(&[rest, b"0"].concat()),
        (Some(Ok(_)), offset) => {
            let (record, found) = rest.split_at(offset);
            let whole = format!("{SUM}{:08x}{END}", checksum(record));
            found.len() < whole.len() && whole.as_bytes().starts_with(found)
        }
    }
}

/// The line that stores a record, with its checksum.
pub(crate) fn with_checksum(record: &[u8]) -> Vec<u8> {
    let sum = format!("{SUM}{:08x}{END}\n", checksum(record));
    [START.as_bytes(), record, sum.as_bytes()].concat()
}

fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(START.as_bytes());
    hasher.update(record);
    hasher.finalize()
}

/// Splits a line into the record and the checksum that it states.
pub(crate) fn split_line(line: &[u8]) -> Option<(&[u8], u32)> {
    let rest = line.strip_suffix(END.as_bytes())?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let record = rest.strip_suffix(SUM.as_bytes())?.strip_prefix(START.as_bytes())?;
    let is_plain = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let sum = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    is_plain.then_some((record, sum))
}
