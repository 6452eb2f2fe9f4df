// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One session at a time. The kernel drops the lock with the process, so a killed one leaves none.

#![expect(clippy::disallowed_methods, reason = "the lock is there before there are hands to act")]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

const NAME: &str = "lock";

impl Lock {
    /// Takes it, and says in it who has it. The folder is made where it is not there.
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let said = |source| Error::State { path: folder.display().to_string(), source };
        make(folder).map_err(said)?;
        let mut file = open(folder).map_err(said)?;
        if !locked(&file).map_err(said)? {
            return Err(held(folder, &mut file));
        }
        sign(&mut file).map_err(said)?;
        Ok(Self { _file: file })
    }
}

/// What stands in it is done as root, so nobody else may write there.
fn make(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // so that a power cut does not take it, and the journal in it, away
        OpenOptions::new().read(true).open(folder.join(".."))?.sync_all()?;
    }
    let found = folder.metadata()?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let what = "expected a folder that nobody else owns or may write to";
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// One that was killed while it started a program holds the lock until that program has begun.
const TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(20);

fn locked(file: &File) -> io::Result<bool> {
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

fn open(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(folder.join(NAME))
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn held(folder: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    // who is just signing has not said it yet
    let read = Read::take(file, 32).read_to_string(&mut text);
    let pid = read.ok().and_then(|_| text.trim().parse().ok());
    Error::Busy { state: folder.display().to_string(), pid }
}

/// Whether there is a folder of state that may be looked into.
pub(crate) fn is_there(folder: &Path) -> Result<bool, Error> {
    match folder.join(".").metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::State { path: folder.display().to_string(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_is_refused_and_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("deep/state");
        let first = Lock::take(&state).unwrap();
        let refused = Lock::take(&state).unwrap_err();
        assert!(matches!(refused, Error::Busy { pid: Some(pid), .. } if pid == std::process::id()));
        drop(first);
        Lock::take(&state).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let refused = Lock::take(folder.path()).unwrap_err();
        let source = std::error::Error::source(&refused).unwrap().to_string();
        assert!(source.contains("nobody else"), "{source}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("lock");
        drop(Lock::take(folder.path()).unwrap());
        let refused = Lock::take(&state).unwrap_err();
        assert!(matches!(refused, Error::State { ref path, .. } if path.ends_with("/lock")));
        assert!(!is_there(&folder.path().join("no")).unwrap());
        assert!(is_there(folder.path()).unwrap());
    }
}
