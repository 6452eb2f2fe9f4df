// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host answers to the question for a file: its bytes, or a [`Refusal`]; and what a recording keeps of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pagewise_model::{Outcome, Reading, Source};
use rustix::io::Errno;

/// The path as Readings name it.
pub fn absolute(path: &str) -> String {
    ["/", path].concat()
}

/// Why a file gave no bytes: there is none.
pub const NO_SUCH_FILE: &str = "no such file";

/// Why a file gave no bytes: the kernel has the feature, and it is off (`EOPNOTSUPP`).
pub const SWITCHED_OFF: &str = "compiled in but switched off";

/// Why a file gave no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not there, or the kernel says that it means nothing here.
    Absent(Cow<'static, str>),
    /// It is there, and we may not read it; the text says what would help.
    Denied(Cow<'static, str>),
}

impl Refusal {
    /// This refusal as a Reading of any kind.
    pub fn reading<T>(self, source: Source) -> Reading<T> {
        match self {
            Self::Absent(why) => Reading::absent(why, source),
            Self::Denied(help) => Reading::denied(help, source),
        }
    }

    /// The same refusal, where it is an absence for the reason `general` with a better reason.
    pub fn explained(self, general: &str, special: &'static str) -> Self {
        match self {
            Self::Absent(why) if why == general => Self::Absent(special.into()),
            other => other,
        }
    }

    /// What an error of the kernel means.
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

/// The reading; where it is an absence for the reason `general`, with the better reason `special`.
pub fn explained<T>(reading: Reading<T>, general: &str, special: &'static str) -> Reading<T> {
    match reading.outcome {
        Outcome::Absent(why) if why == general => Reading::absent(special, reading.source),
        outcome => Reading { outcome, source: reading.source },
    }
}

/// What a recording holds for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The file's bytes; empty for a file of which only its presence was asked.
    File(Vec<u8>),
    /// Reading it was refused.
    Refused(Refusal),
}

impl Entry {
    /// What a recording holds where this was the answer.
    pub fn from_answer(answer: &Result<Vec<u8>, Refusal>) -> Self {
        match answer {
            Ok(bytes) => Self::File(bytes.clone()),
            Err(refusal) => Self::Refused(refusal.clone()),
        }
    }
}

/// The files of a recording by path, without the leading `/`.
pub type Files = BTreeMap<String, Entry>;

/// The clock and page size of a host, which no file tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// Seconds on a clock that nobody sets.
    pub monotonic_seconds: f64,
    /// Bytes in a base page.
    pub page_size: Option<u64>,
    /// The clock of the kernel log, which stops while the machine is suspended.
    pub awake_seconds: Option<f64>,
}

impl Facts {
    /// Without a clock.
    pub(crate) fn unknown(page_size: Option<u64>) -> Self {
        Self { unix_seconds: 0.0, monotonic_seconds: 0.0, page_size, awake_seconds: None }
    }
}
