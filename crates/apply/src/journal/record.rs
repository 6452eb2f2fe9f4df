// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of a journal, each stored as one line of JSON.
//!
//! A line is `{"record":…,"crc32":"0a1b2c3d"}`. The checksum covers everything before it, so a line
//! of which only half is on disk is never accepted.

use pagewise_model::plan::{Plan, ZramSwap};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(crate) enum Record {
    /// The first line: the run that writes the journal.
    Began { boot_id: String, pid: u32, unix_seconds: u64, pagewise: String },
    /// The first line of a plan's journal: the run that writes it, and the whole plan.
    Planned { boot_id: String, pid: u32, unix_seconds: u64, pagewise: String, plan: Box<Plan> },
    /// The changes that follow belong to this step of the plan.
    Step { id: String },
    /// Every step of the plan was applied: its changes stay until the plan is undone.
    Applied,
    /// The plan is undone at this time (in seconds of Unix time) or at the next boot, unless it is
    /// confirmed before.
    Trial { until: u64 },
    /// The plan on trial was confirmed.
    Confirmed,
    /// A loan is about to be taken.
    Taking { loan: u64, what: Loan },
    /// The created device has this number.
    Made { loan: u64, device: Device },
    /// The created file or cgroup has this identity.
    Identified { loan: u64, identity: Identity },
    /// The loan is taken and set up.
    Done { loan: u64 },
    /// The loan was returned; nothing of it remains.
    Returned { loan: u64 },
    /// Somebody else changed the value: it is left unchanged.
    Conflict { loan: u64, found: String },
}

/// A loan or change, with everything that is needed to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum Loan {
    /// A kernel module that we loaded.
    Module { name: String },
    /// A zram device that we create; its number is known only afterwards.
    Zram {
        others: Vec<u32>,
        newest_diskseq: u64,
        /// When this record was written, in milliseconds of Unix time; missing in early versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        announced: Option<u64>,
    },
    /// A swap file.
    SwapFile { path: String, folder_inode: u64 },
    /// A swap area that we enabled; `diskseq` distinguishes a zram device from a later one with its
    /// number.
    SwapOn {
        area: String,
        diskseq: Option<u64>,
        /// Its settings, if a plan's files create the same device again at each boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zram: Option<ZramSwap>,
    },
    /// A memory cgroup, and the cgroup that our process was in before.
    Group { folder: String, home: Option<String> },
    /// The memory controller that we enabled for the child groups of this folder.
    Controller { folder: String },
    /// The value of a setting: `back` is what to write to restore the old value.
    Setting { name: String, path: String, old: String, ours: String, back: Write },
    /// A configuration file that a plan wrote.
    File { path: String, old: Option<FileText>, ours: String },
    /// A symbolic link that a plan made.
    Link { path: String, old: Option<String>, ours: String },
    /// A folder for configuration files that a plan made.
    Folder { path: String },
    /// systemd reloaded its unit files.
    Units,
    /// The timer that undoes a plan on trial.
    Timer,
    /// An existing zram device without a size, to which a plan gave a size.
    ZramSize { device: Device, algorithm: String, disksize: u64 },
    /// A swap area that a plan disabled.
    Drained { area: String, priority: i32, zram: Option<ZramSetup> },
}

/// A configuration file: its text, and the attributes that replacing it by a new file would lose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileText {
    pub(crate) text: String,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Its SELinux context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

/// The settings of a zram device. The kernel does not report the level of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZramSetup {
    pub(crate) number: u32,
    pub(crate) algorithm: String,
    pub(crate) disksize: u64,
    pub(crate) mem_limit: u64,
}

/// A value to write to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) value: String,
}

/// The identity of a block device: device numbers are reused, sequence numbers never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) number: u32,
    pub(crate) diskseq: u64,
}

/// The identity of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

const START: &str = "{\"record\":";
const SUM: &str = ",\"crc32\":\"";
const END: &str = "\"}";
const DIGITS: usize = 8;

impl Record {
    /// The record as a line, with its line end.
    pub(crate) fn line(&self) -> Vec<u8> {
        // serializing plain text and numbers cannot fail
        summed(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Parses a line without its end; `None` if it is not as we write it.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(record_of_line(line)?).ok()
    }
}

/// The JSON of a line without its end, if its checksum is right.
pub(crate) fn record_of_line(line: &[u8]) -> Option<&[u8]> {
    let (record, sum) = parts(line)?;
    (sum == self::sum(record)).then_some(record)
}

/// Whether a line without an end is what a killed writer leaves: the beginning of a valid line. A
/// line that has a wrong checksum was complete once and was changed.
pub(crate) fn is_torn(line: &[u8]) -> bool {
    // even if a closing brace became a digit, so that the record seems to continue
    if parts(line).is_some() {
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
            let whole = format!("{SUM}{:08x}{END}", sum(record));
            found.len() < whole.len() && whole.as_bytes().starts_with(found)
        }
    }
}

/// A record with its checksum, as a line.
pub(crate) fn summed(record: &[u8]) -> Vec<u8> {
    let sum = format!("{SUM}{:08x}{END}\n", sum(record));
    [START.as_bytes(), record, sum.as_bytes()].concat()
}

fn sum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(START.as_bytes());
    hasher.update(record);
    hasher.finalize()
}

/// The record of a line, and the checksum that the line states.
pub(crate) fn parts(line: &[u8]) -> Option<(&[u8], u32)> {
    let rest = line.strip_suffix(END.as_bytes())?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let record = rest.strip_suffix(SUM.as_bytes())?.strip_prefix(START.as_bytes())?;
    let is_plain = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let sum = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    is_plain.then_some((record, sum))
}

impl Loan {
    /// A description in words, such as `swap on /dev/zram3`.
    pub(crate) fn described(&self, made: Option<Device>) -> String {
        match (self, made) {
            (Self::Module { name }, _) => format!("module {name}"),
            (Self::Zram { .. }, Some(device)) => format!("zram device zram{}", device.number),
            (Self::Zram { .. }, None) => "a zram device".to_owned(),
            (Self::SwapFile { path, .. }, _) => format!("swap file {path}"),
            (Self::SwapOn { area, .. }, _) => format!("swap on {area}"),
            (Self::File { path, .. }, _) => format!("file {path}"),
            (Self::Link { path, ours, .. }, _) => format!("link {path} to {ours}"),
            (Self::Folder { path }, _) => format!("folder {path}"),
            (Self::Timer, _) => "timer of the trial".to_owned(),
            (Self::Units, _) => "units of systemd, read again".to_owned(),
            (Self::ZramSize { device, .. }, _) => format!("size of zram{}", device.number),
            (Self::Drained { area, .. }, _) => format!("swap off {area}"),
            (Self::Group { folder, .. }, _) => format!("memory cgroup {folder}"),
            (Self::Controller { folder }, _) => format!("memory controller below {folder}"),
            (Self::Setting { name, old, ours, .. }, _) => format!("{name} = {ours} (was {old})"),
        }
    }
}
