// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of reading a file of a host: its bytes, or a [`Refusal`]; and what a recording stores
//! of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pagewise_model::{Outcome, Reading, Source};
use rustix::io::Errno;

/// The path with a leading `/`, as in Readings.
pub fn absolute_path(path: &str) -> String {
    ["/", path].concat()
}

/// Reason for an absence: the file does not exist.
pub const NO_SUCH_FILE: &str = "no such file";

/// Reason for an absence in a recording that has copies of some files of a host: it is not known
/// whether the host had the file.
pub const NOT_COLLECTED: &str = "not in this recording";

/// Reason for an absence: the kernel has the feature, but it is switched off (`EOPNOTSUPP`).
pub const SWITCHED_OFF: &str = "compiled in but switched off";

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The file does not exist, or the kernel says that it has no meaning here.
    Absent(Cow<'static, str>),
    /// The file exists, and we may not read it; the text says what would help.
    Denied(Cow<'static, str>),
}

impl Refusal {
    /// A Reading of any type that states this refusal.
    pub fn reading<T>(self, source: Source) -> Reading<T> {
        match self {
            Self::Absent(why) => Reading::absent(why, source),
            Self::Denied(help) => Reading::denied(help, source),
        }
    }

    /// Whether the file was not found: the host does not have it, or it was not collected.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Absent(why) => why == NO_SUCH_FILE,
            Self::Denied(why) => why == NOT_COLLECTED,
        }
    }

    /// If the file is absent for the reason `general`, replaces this reason by `special`.
    pub fn explain(self, general: &str, special: &'static str) -> Self {
        match self {
            Self::Absent(why) if why == general => Self::Absent(special.into()),
            other => other,
        }
    }

    /// The refusal that an error of the kernel means for a file of a folder that holds copies of
    /// some files of a host. It is not known which files were copied, so that a file that is
    /// missing there proves nothing.
    pub(crate) fn from_errno_of_copy(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Denied(NOT_COLLECTED.into()),
            other => Self::from_errno(other),
        }
    }

    /// The refusal that an error of the kernel means for a file of the live machine.
    pub fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::SRCH => Self::Absent(NO_SUCH_FILE.into()),
            Errno::OPNOTSUPP => Self::Absent(SWITCHED_OFF.into()),
            Errno::ACCESS | Errno::PERM if rustix::process::geteuid().is_root() => {
                Self::Denied("refused even to root".into())
            }
            Errno::ACCESS | Errno::PERM => Self::Denied("run as root".into()),
            other => {
                Self::Absent(format!("the kernel answered: {}", std::io::Error::from(other)).into())
            }
        }
    }
}

/// If a reading is absent for the reason `general`, replaces this reason by `special`.
pub fn explain<T>(reading: Reading<T>, general: &str, special: &'static str) -> Reading<T> {
    match reading.outcome {
        Outcome::Absent(why) if why == general => Reading::absent(special, reading.source),
        outcome => Reading { outcome, source: reading.source },
    }
}

/// What a recording stores for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The file's bytes; empty if only its existence was checked.
    File(Vec<u8>),
    /// Reading the file was refused.
    Refused(Refusal),
}

impl Entry {
    /// The entry that a recording stores for a result of reading.
    pub fn from_answer(answer: &Result<Vec<u8>, Refusal>) -> Self {
        match answer {
            Ok(bytes) => Self::File(bytes.clone()),
            Err(refusal) => Self::Refused(refusal.clone()),
        }
    }
}

/// The files of a recording by path, without the leading `/`.
pub type Files = BTreeMap<String, Entry>;

/// The clock and page size of a host, which no file contains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Time of day, in seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// Time on a monotonic clock, in seconds.
    pub monotonic_seconds: f64,
    /// Size of a base page in bytes.
    pub page_size: Option<u64>,
    /// The clock of the kernel log, which does not advance while the machine is suspended.
    pub awake_seconds: Option<f64>,
}

impl Facts {
    /// Facts with the clock unknown.
    pub(crate) fn unknown(page_size: Option<u64>) -> Self {
        Self { unix_seconds: 0.0, monotonic_seconds: 0.0, page_size, awake_seconds: None }
    }
}
