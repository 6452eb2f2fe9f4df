// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file in which `doctor --journal` keeps what it has reported, between runs.
//!
//! The file is one line in the form of a journal's, with a checksum, and is replaced as a whole: a power cut leaves
//! the old file or the new one. A file that cannot be read is no error: its reader begins anew and says why. The
//! file is private to Pagewise; other programs read the entries in the journal instead.
//!
//! The file is not written through [`HostOps`](crate::host_ops::HostOps), because it changes nothing of the machine
//! and nothing has to be undone.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pagewise_model::{Advice, KnownFindings};
use pagewise_observe::{FolderError, TrustedFolder};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat, renameat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::journal::{record_of_line, with_checksum};

/// The name and version of the format. A reader begins anew with any other.
const SCHEMA: &str = "pagewise/known-findings/1";
const NAME: &str = "findings";
const UNFINISHED: &str = "findings.new";
const LOCK: &str = "lock";
/// Maximum length of the file: 256 findings with the longest names that there can be are shorter.
const MOST_BYTES: u64 = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    schema: String,
    #[serde(flatten)]
    known: KnownFindings,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownFindingsError {
    /// The folder cannot be opened or created, or others may change it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A system call failed.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another run uses the folder.
    #[error("{}: another run of pagewise keeps its findings in this folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
}

impl Advice for KnownFindingsError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Busy { .. } => "wait until it has ended",
            Self::Folder(_) | Self::File { .. } => {
                "run as root, or name a folder that only you may change: STATE_DIRECTORY=FOLDER"
            }
        };
        Some(next.to_owned())
    }
}

/// The open folder with the file, locked against other runs as long as this lives.
#[derive(Debug)]
pub struct KnownFindingsFile {
    folder: TrustedFolder,
    _lock: File,
}

impl KnownFindingsFile {
    /// Opens the folder, which is created if it is missing, and locks it.
    ///
    /// # Errors
    /// If the folder cannot be used, or another run holds the lock.
    pub fn open(folder: &Path) -> Result<Self, KnownFindingsError> {
        let folder = TrustedFolder::open_or_make(folder, |below, name| {
            rustix::fs::mkdirat(below, name, Mode::RWXU)
        })?;
        let lock = create(&folder, LOCK, OFlags::empty())?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder, _lock: lock }),
            Err(Errno::WOULDBLOCK) => {
                Err(KnownFindingsError::Busy { path: folder.path().to_owned() })
            }
            Err(errno) => Err(error(&folder, LOCK, errno.into())),
        }
    }

    /// The findings that the last run kept, and what is wrong with the file if it cannot be parsed. If it cannot be
    /// parsed, and before the first run, there are no findings.
    pub fn read(&self) -> (KnownFindings, Option<String>) {
        match self.parse() {
            Ok(known) => (known, None),
            Err(why) => {
                let path = self.folder.path().join(NAME);
                (KnownFindings::default(), Some(format!("{}: {why}", path.display())))
            }
        }
    }

    fn parse(&self) -> Result<KnownFindings, String> {
        let file = match self.folder.open_file(Path::new(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(KnownFindings::default());
            }
            file => file.map_err(|error| error.to_string())?,
        };
        let mut bytes = Vec::new();
        let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!("expected at most {} MiB", MOST_BYTES >> 20));
        }
        let damaged = "expected a line with a valid checksum, found another text";
        let line = bytes.strip_suffix(b"\n").ok_or(damaged)?;
        let record = record_of_line(line).ok_or(damaged)?;
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        let version: Version = serde_json::from_slice(record).map_err(|_| damaged)?;
        if version.schema != SCHEMA {
            let found = pagewise_model::Name::from(&*version.schema);
            return Err(format!("expected the format {SCHEMA}, found {found}"));
        }
        let kept: Kept = serde_json::from_slice(record).map_err(|error| error.to_string())?;
        Ok(kept.known)
    }

    /// Replaces what was kept; when this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written; the earlier file stays as it was.
    pub fn replace(&self, known: &KnownFindings) -> Result<(), KnownFindingsError> {
        let kept = Kept { schema: SCHEMA.to_owned(), known: known.clone() };
        let at = |source| error(&self.folder, UNFINISHED, source);
        let text = serde_json::to_vec(&kept).map_err(|error| at(error.into()))?;
        let mut file = create(&self.folder, UNFINISHED, OFlags::TRUNC)?;
        file.write_all(&with_checksum(&text)).and_then(|()| file.sync_all()).map_err(at)?;
        let folder = self.folder.handle();
        renameat(folder, UNFINISHED, folder, NAME).map_err(|errno| at(errno.into()))
    }
}

/// A lock that the service which follows the findings all the time holds, so that other runs know that they need
/// not do so. The lock is a file that everybody may read, in the folder that systemd makes for the service below
/// `/run`.
#[derive(Debug)]
pub struct FollowLock(#[expect(dead_code, reason = "open as long as the lock is held")] File);

impl FollowLock {
    /// Takes the lock; its file is made if it is missing.
    ///
    /// # Errors
    /// If the file cannot be made, or another process holds the lock.
    pub fn take(path: &Path) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = File::from(rustix::fs::open(path, flags, mode)?);
        // the service's umask hides its files from others
        rustix::fs::fchmod(&file, mode)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self(file))
    }

    /// Whether a process holds the lock. A file that cannot be opened counts as not held.
    pub fn is_held(path: &Path) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }
}

fn error(folder: &TrustedFolder, name: &str, source: io::Error) -> KnownFindingsError {
    KnownFindingsError::File { path: folder.path().join(name), source }
}

fn create(folder: &TrustedFolder, name: &str, more: OFlags) -> Result<File, KnownFindingsError> {
    let plain = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = OFlags::WRONLY | OFlags::CREATE | plain | more;
    let made = openat(folder.handle(), name, flags, Mode::RUSR | Mode::WUSR);
    made.map(File::from).map_err(|errno| error(folder, name, errno.into()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests damage the file")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pagewise_model::{KnownFinding, Severity};

    use super::*;

    fn known() -> KnownFindings {
        let finding = KnownFinding {
            id: "zram-full".to_owned(),
            about: Some("/dev/zram0".to_owned()),
            unit: None,
            severity: Severity::Critical,
            title: "/dev/zram0 is full".to_owned(),
            evidence: vec!["/proc/swaps".to_owned()],
            newest_event: Some(u64::MAX),
        };
        KnownFindings { boot_id: Some("b".to_owned()), findings: vec![finding] }
    }

    #[test]
    fn what_is_kept_comes_back_and_one_run_at_a_time_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/doctor");
        let file = KnownFindingsFile::open(&path).unwrap();
        assert_eq!(file.read(), (KnownFindings::default(), None));
        file.replace(&known()).unwrap();
        assert_eq!(file.read(), (known(), None));
        let busy = KnownFindingsFile::open(&path).unwrap_err();
        assert!(matches!(busy, KnownFindingsError::Busy { .. }) && busy.next().is_some());
        drop(file);
        assert_eq!(KnownFindingsFile::open(&path).unwrap().read(), (known(), None));
        let mode = path.join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_follow_lock_is_seen_as_long_as_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.lock");
        assert!(!FollowLock::is_held(&path));
        let lock = FollowLock::take(&path).unwrap();
        assert!(FollowLock::is_held(&path) && FollowLock::take(&path).is_err());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        drop(lock);
        assert!(!FollowLock::is_held(&path));
    }

    /// Whatever byte is changed, nothing of the file is believed.
    #[test]
    fn a_damaged_file_is_named_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = KnownFindingsFile::open(folder.path()).unwrap();
        file.replace(&known()).unwrap();
        let path = folder.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let (read, why) = file.read();
            assert_eq!(read, KnownFindings::default(), "{at}");
            assert!(why.unwrap().contains("/findings: expected"), "{at}");
        }
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(file.read().1.is_some(), "{cut}");
        }
        file.replace(&known()).unwrap();
        assert_eq!(file.read(), (known(), None));
    }

    #[test]
    fn a_later_format_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = KnownFindingsFile::open(folder.path()).unwrap();
        let later = br#"{"schema":"pagewise/known-findings/2","more":[]}"#;
        std::fs::write(folder.path().join(NAME), with_checksum(later)).unwrap();
        let why = file.read().1.unwrap();
        assert!(why.ends_with("found pagewise/known-findings/2"), "{why}");
    }

    #[test]
    fn no_link_and_no_folder_of_others_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = KnownFindingsFile::open(folder.path()).unwrap();
        let theirs = folder.path().join("theirs");
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, folder.path().join(UNFINISHED)).unwrap();
        assert!(matches!(file.replace(&known()), Err(KnownFindingsError::File { .. })));
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        drop(file);
        let refused = KnownFindingsFile::open(folder.path()).unwrap_err();
        assert!(matches!(refused, KnownFindingsError::Folder(FolderError::Untrusted { .. })));
    }
}
