// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be done with the unused pages of a zram device: mark them, compress them again, write them
//! to the backing device.
//!
//! The kernel does none of this by itself. Contents do not change, and a page that is used again comes
//! back by itself, so there is nothing to undo. But writing wears flash, so each writeback has a limit
//! (`writeback_limit`), which only the kernel can enforce exactly. The limit is in force
//! (`writeback_limit_enable`) as a loan with a journal: if this process is killed, `pagewise undo` or
//! the next run switches it off again. The number itself counts down and has no effect while it is
//! switched off, so it has no entry in the journal.

use std::io;
use std::path::Path;
use std::time::Duration;

use pagewise_model::lend::KnobSetting;
use pagewise_model::undo::{Outcome, Recovered};
use pagewise_model::{Advice, BdStat, Bytes};
use rustix::io::Errno;

use crate::error::{Doing, Error};
use crate::host_ops::HostOps;
use crate::live::{self, Live};
use crate::loan::zram;
use crate::recover::boot_id;
use crate::session::Session;

const LIMIT: &str = "writeback_limit";
const ENABLE: &str = "writeback_limit_enable";

/// Why nothing, or nothing more, was done with the pages of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZramError {
    /// The device was removed, or another one has its name.
    #[error("zram{0}: the device was removed, or another one took its place")]
    Gone(u32),
    /// Somebody else limits the writeback of the device.
    #[error("zram{0}: somebody else limits its writeback (writeback_limit_enable is 1)")]
    Limited(u32),
    /// The limit could not be switched off again.
    #[error("zram{number}: the limit on its writeback stays in force: {why}")]
    Kept {
        /// The number of the device.
        number: u32,
        /// Why.
        why: String,
    },
    /// The kernel refused.
    #[error("zram{number}: {what}")]
    Kernel {
        /// The number of the device.
        number: u32,
        /// What was written to which file.
        what: String,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// Another run is active, or the journal cannot be written.
    #[error(transparent)]
    Loan(#[from] Error),
}

impl Advice for ZramError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Gone(_) => "`pagewise status` names the devices",
            Self::Limited(_) => "leave the writeback to what set it, or write 0 to that file",
            Self::Kept { .. } => "`pagewise undo` tries it again",
            Self::Kernel { .. } => "dmesg may say more",
            Self::Loan(error) => return error.next(),
        };
        Some(next.to_owned())
    }
}

fn path(number: u32, file: &str) -> String {
    format!("/sys/block/zram{number}/{file}")
}

fn write(number: u32, file: &str, value: &str) -> Result<(), ZramError> {
    live::write(&path(number, file), value).map_err(|source| refused(number, file, value, source))
}

fn refused(number: u32, file: &str, value: &str, source: io::Error) -> ZramError {
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::NODEV) => ZramError::Gone(number),
        _ => ZramError::Kernel { number, what: format!("{file} = {value}"), source },
    }
}

fn read(host: &dyn HostOps, number: u32, file: &str) -> Result<String, ZramError> {
    let path = path(number, file);
    host.read(&path).map_err(|source| ZramError::Kernel { number, what: file.to_owned(), source })
}

/// A name for the device with this number that no later device has, nor one of another boot; `None`
/// if there is no device.
#[must_use]
pub fn epoch(number: u32) -> Option<String> {
    let host = Live::new().ok()?;
    let device = zram::device(&host, number)?;
    Some(format!("{}/{}", boot_id(&host).ok()?, device.diskseq))
}

/// Whether the kernel can limit the writeback of this device.
#[must_use]
pub fn can_limit_writeback(number: u32) -> bool {
    Live::new()
        .is_ok_and(|host| [LIMIT, ENABLE].iter().all(|file| host.exists(&path(number, file))))
}

/// Marks pages as idle: those that were unused for this long, or all. False if the kernel does not
/// know how long a page was unused; then none is marked.
///
/// # Errors
/// If the kernel refuses.
pub fn mark_idle(number: u32, unused_for: Option<Duration>) -> Result<bool, ZramError> {
    let Some(time) = unused_for else { return write(number, "idle", "all").map(|()| true) };
    match write(number, "idle", &time.as_secs().to_string()) {
        Ok(()) => Ok(true),
        Err(ZramError::Kernel { source, .. })
            if Errno::from_io_error(&source) == Some(Errno::INVAL) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Compresses idle pages again, with the algorithm of this priority. A page that does not become
/// smaller stays as it is.
///
/// # Errors
/// If the kernel refuses.
pub fn recompress(number: u32, priority: u32) -> Result<(), ZramError> {
    // without a priority, some kernels try all algorithms, others only that of priority 1
    write(number, "recompress", &format!("type=idle priority={priority}"))
}

/// How a write to `writeback` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritebackEnd {
    /// All pages of the kind were written.
    Complete,
    /// The limit was reached; there may be more pages.
    LimitReached,
    /// The backing device is full.
    Full,
    /// This kernel does not know the kind.
    UnknownKind,
}

/// The limit on the writeback of a device, switched on until [`Writeback::end`].
#[derive(Debug)]
pub struct Writeback {
    session: Session,
    number: u32,
    epoch: String,
    /// What was in `writeback_limit` before.
    earlier: String,
}

impl Writeback {
    /// Switches the limit on, at zero. What an earlier run left behind is undone first; `state` is the
    /// folder of journals. The device must be the one with this [`epoch`].
    ///
    /// # Errors
    /// If another run is active, or somebody else limits the writeback of the device.
    pub fn begin(
        state: &Path,
        number: u32,
        expected: &str,
    ) -> Result<(Self, Vec<Recovered>), ZramError> {
        let (session, recovered) = Session::open(state)?;
        let host = Live::new().doing(|| "/".to_owned())?;
        if epoch(number).as_deref() != Some(expected) {
            return Err(ZramError::Gone(number));
        }
        if read(&host, number, ENABLE)? != "0" {
            return Err(ZramError::Limited(number));
        }
        let earlier = read(&host, number, LIMIT)?;
        write(number, LIMIT, "0")?;
        let epoch = expected.to_owned();
        let mut writeback = Self { session, number, epoch, earlier };
        let instance = number.to_string();
        let enable = KnobSetting::of_instance("zram.writeback_limit_enable", &instance, "1");
        writeback.session.knob(&enable)?;
        Ok((writeback, recovered))
    }

    /// Writes pages of a kind, such as `idle`, at most this many bytes of them. Returns when they are
    /// written.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn write(&mut self, kind: &str, most: Bytes) -> Result<WritebackEnd, ZramError> {
        if epoch(self.number).as_deref() != Some(&self.epoch) {
            return Err(ZramError::Gone(self.number));
        }
        write(self.number, LIMIT, &(most.get() / BdStat::UNIT).to_string())?;
        let written = write(self.number, "writeback", kind);
        let host = Live::new().doing(|| "/".to_owned())?;
        let is_spent = read(&host, self.number, LIMIT)? == "0";
        match written {
            Ok(()) => Ok(WritebackEnd::Complete),
            Err(ZramError::Kernel { what, source, .. }) => match Errno::from_io_error(&source) {
                Some(Errno::IO) if is_spent => Ok(WritebackEnd::LimitReached),
                Some(Errno::NOSPC) => Ok(WritebackEnd::Full),
                Some(Errno::INVAL) => Ok(WritebackEnd::UnknownKind),
                _ => Err(ZramError::Kernel { number: self.number, what, source }),
            },
            Err(error) => Err(error),
        }
    }

    /// Switches the limit off again.
    ///
    /// # Errors
    /// If it stays in force.
    pub fn end(self) -> Result<(), ZramError> {
        let number = self.number;
        for ended in self.session.end() {
            match ended.outcome {
                Outcome::Returned | Outcome::Gone => {}
                Outcome::Kept { why } | Outcome::Left { why, .. } => {
                    return Err(ZramError::Kept { number, why });
                }
                Outcome::Conflict { found, .. } => {
                    let why = format!("somebody else has set it to {found}");
                    return Err(ZramError::Kept { number, why });
                }
            }
        }
        write(number, LIMIT, &self.earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u32 = 4_000_000;

    #[test]
    fn a_device_that_is_not_there_is_said_to_be_gone() {
        assert_eq!(epoch(NONE), None);
        assert!(!can_limit_writeback(NONE));
        for refused in [mark_idle(NONE, None).map(drop), recompress(NONE, 1)] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, ZramError::Gone(NONE)), "{refused}");
            assert!(refused.next().is_some());
        }
    }
}
