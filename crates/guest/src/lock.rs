// SPDX-License-Identifier: Apache-2.0 OR MIT
//! File locks in the cache. The kernel releases them when the process ends, so a killed process
//! leaves no lock behind.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, ErrorContext};

/// A lock, held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Shared with other holders.
    Shared,
    /// Held by one process alone.
    Alone,
}

/// Result of trying to lock an existing file.
#[derive(Debug)]
pub(crate) enum Held {
    /// Another process holds the lock.
    ByOther,
    /// Nobody held the lock; this process holds it now.
    ByNobody(Lock),
    /// The file of the lock does not exist.
    Gone,
}

impl Lock {
    /// Takes the lock if it is free; makes its file if that is missing.
    pub(crate) fn try_take(path: &Path, kind: Kind) -> Result<Option<Self>, Error> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_path(path)?;
        Self::of_file(file, path, kind)
    }

    /// Takes an exclusive lock if it is free; does not make its file.
    pub(crate) fn try_lock_existing(path: &Path) -> Result<Held, Error> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Held::Gone),
            opened => opened.with_path(path)?,
        };
        let lock = Self::of_file(file, path, Kind::Alone)?;
        Ok(lock.map_or(Held::ByOther, Held::ByNobody))
    }

    fn of_file(file: File, path: &Path, kind: Kind) -> Result<Option<Self>, Error> {
        let operation = match kind {
            Kind::Shared => FlockOperation::NonBlockingLockShared,
            Kind::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno).with_path(path),
        }
    }

    /// Waits for the lock, until the user stops the program.
    pub(crate) fn wait(path: &Path, kind: Kind, stop: &AtomicBool) -> Result<Self, Error> {
        loop {
            if let Some(lock) = Self::try_take(path, kind)? {
                return Ok(lock);
            }
            if stop.load(Ordering::SeqCst) {
                return Err(Error::Stopped);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let one = Lock::try_take(&path, Kind::Shared).unwrap();
        let two = Lock::try_take(&path, Kind::Shared).unwrap();
        assert!(one.is_some() && two.is_some());
        assert!(Lock::try_take(&path, Kind::Alone).unwrap().is_none());
        drop((one, two));
        let alone = Lock::try_take(&path, Kind::Alone).unwrap();
        assert!(alone.is_some() && Lock::try_take(&path, Kind::Shared).unwrap().is_none());
        let stop = AtomicBool::new(true);
        assert!(matches!(Lock::wait(&path, Kind::Alone, &stop), Err(Error::Stopped)));
    }

    #[test]
    fn a_probe_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(matches!(Lock::try_lock_existing(&path).unwrap(), Held::Gone) && !path.exists());
        let alone = Lock::try_take(&path, Kind::Alone).unwrap();
        assert!(matches!(Lock::try_lock_existing(&path).unwrap(), Held::ByOther));
        drop(alone);
        let taken = Lock::try_lock_existing(&path).unwrap();
        assert!(matches!(taken, Held::ByNobody(_)));
        assert!(Lock::try_take(&path, Kind::Alone).unwrap().is_none());
    }
}
