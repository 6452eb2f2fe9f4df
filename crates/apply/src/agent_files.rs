// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of `pagewise agent`: a lock and its state in `/run/pagewise`, and beside the journals the
//! log of its decisions, what it wrote to flash, and what was measured of the loops that it proves.
//!
//! The state is in `/run` because it is written in each round, which would wear flash. The log is
//! bounded: when it is full, it becomes `agent.log.1`, which replaces the one before.
//!
//! As [`KnownFindingsFile`](crate::KnownFindingsFile), this does not go through
//! [`HostOps`](crate::host_ops::HostOps): it changes nothing of the machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pagewise_model::{Advice, AgentStatus};
use pagewise_observe::{FolderError, TrustedFolder};
use rustix::fs::{Mode, OFlags, openat, renameat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{TRIES, machine_lock_folder, try_lock};

const LOCK: &str = "agent.lock";
const STATUS: &str = "agent.json";
const UNFINISHED: &str = "agent.json.new";
const FLASH: &str = "agent.flash";
const UNFINISHED_FLASH: &str = "agent.flash.new";
const SWITCHBACK: &str = "agent.switchback";
const UNFINISHED_SWITCHBACK: &str = "agent.switchback.new";
const LOG: &str = "agent.log";
const OLD_LOG: &str = "agent.log.1";
/// The log is replaced when it is longer than this; two of them are kept.
const LONGEST_LOG: u64 = 256 << 10;
/// Maximum length of a file in bytes: a real state has a few kilobytes, and a year of blocks of two hours
/// less than 2 MB.
const LONGEST_STATUS: u64 = 4 << 20;

/// Why the files of the agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentFilesError {
    /// A folder cannot be opened or created, or others may change it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A system call failed, or the state is not understood.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another agent runs on this machine.
    #[error("another agent runs on this machine: it holds {}", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
}

impl Advice for AgentFilesError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Busy { .. } => {
                "`pagewise agent status` says what it does; SIGHUP makes it read its configuration"
            }
            Self::Folder(FolderError::At { source, .. }) | Self::File { source, .. } => {
                match source.kind() {
                    io::ErrorKind::PermissionDenied => "run as root",
                    io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem => {
                        "make room there, or make it writable"
                    }
                    _ => "if the file is damaged or a link, remove it: the agent writes it again",
                }
            }
            Self::Folder(FolderError::Untrusted { .. }) => {
                "make the folder root's own, writable by nobody else, after a look at what is in it"
            }
        };
        Some(next.to_owned())
    }
}

/// The open folders, and the lock that keeps out a second agent.
#[derive(Debug)]
pub struct AgentFiles {
    run: TrustedFolder,
    state: TrustedFolder,
    _lock: File,
}

impl AgentFiles {
    /// Opens the folders, which are created if they are missing, and takes the lock. `state` is the
    /// folder of the journals.
    ///
    /// # Errors
    /// If a folder cannot be used, or another agent runs.
    pub fn open(state: &Path) -> Result<Self, AgentFilesError> {
        Self::open_in(&run_folder(state), state)
    }

    fn open_in(run: &Path, state: &Path) -> Result<Self, AgentFilesError> {
        let (run, state) = (open_folder(run)?, open_folder(state)?);
        let lock = create(&run, LOCK, OFlags::empty())?;
        // `agent status` holds the lock for a moment
        match try_lock(&lock, TRIES) {
            Ok(true) => Ok(Self { run, state, _lock: lock }),
            Ok(false) => Err(AgentFilesError::Busy { path: run.path().join(LOCK) }),
            Err(source) => Err(error(&run, LOCK, source)),
        }
    }

    /// Replaces the state as a whole.
    ///
    /// # Errors
    /// If a system call fails; the state before is still there.
    pub fn write_status(&self, status: &AgentStatus) -> Result<(), AgentFilesError> {
        let at = |source| error(&self.run, UNFINISHED, source);
        let text = serde_json::to_vec(status).map_err(|error| at(error.into()))?;
        let mut file = create(&self.run, UNFINISHED, OFlags::TRUNC)?;
        file.write_all(&text).map_err(at)?;
        let folder = self.run.handle();
        renameat(folder, UNFINISHED, folder, STATUS).map_err(|errno| at(errno.into()))
    }

    /// Replaces the account of what was written to flash. When this returns, it is on disk.
    ///
    /// # Errors
    /// If a system call fails; the account before may still be there.
    pub fn write_flash<T: Serialize>(&self, account: &T) -> Result<(), AgentFilesError> {
        self.write_record((FLASH, UNFINISHED_FLASH), account)
    }

    /// Replaces what was measured of the loops that are proved. When this returns, it is on disk.
    ///
    /// # Errors
    /// As [`Self::write_flash`].
    pub fn write_switchback<T: Serialize>(&self, records: &T) -> Result<(), AgentFilesError> {
        self.write_record((SWITCHBACK, UNFINISHED_SWITCHBACK), records)
    }

    /// What was measured of the loops that are proved; `None` if nothing was ever recorded.
    ///
    /// # Errors
    /// If it cannot be read, or is not understood.
    pub fn read_switchback<T: DeserializeOwned>(&self) -> Result<Option<T>, AgentFilesError> {
        read_json(&self.state, SWITCHBACK)
    }

    fn write_record<T: Serialize>(
        &self,
        (name, unfinished): (&str, &str),
        record: &T,
    ) -> Result<(), AgentFilesError> {
        let at = |source| error(&self.state, unfinished, source);
        let text = serde_json::to_vec(record).map_err(|error| at(error.into()))?;
        let mut file = create(&self.state, unfinished, OFlags::TRUNC)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(at)?;
        let folder = self.state.handle();
        renameat(folder, unfinished, folder, name).map_err(|errno| at(errno.into()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(folder, ".", flags, Mode::empty()).and_then(rustix::fs::fsync);
        opened.map_err(|errno| at(errno.into()))
    }

    /// The account of what was written to flash; `None` if nothing was ever recorded.
    ///
    /// # Errors
    /// If it cannot be read, or is not understood.
    pub fn read_flash<T: DeserializeOwned>(&self) -> Result<Option<T>, AgentFilesError> {
        read_json(&self.state, FLASH)
    }

    /// Appends a line to the log. It is not synced: after a power cut, the last lines may be missing.
    ///
    /// # Errors
    /// If a system call fails, for example because the disk is full.
    pub fn log(&self, line: &str) -> Result<(), AgentFilesError> {
        let at = |source| error(&self.state, LOG, source);
        let mut file = create(&self.state, LOG, OFlags::APPEND)?;
        let length = file.metadata().map_err(at)?.len();
        if length > 0 && length + line.len() as u64 >= LONGEST_LOG {
            let folder = self.state.handle();
            renameat(folder, LOG, folder, OLD_LOG).map_err(|errno| at(errno.into()))?;
            file = create(&self.state, LOG, OFlags::APPEND)?;
        }
        file.write_all(format!("{line}\n").as_bytes()).map_err(at)
    }
}

/// The state that the agent of this machine wrote last, and whether an agent runs now.
///
/// # Errors
/// If the files cannot be read, or the state is not understood.
pub fn read_agent_status(state: &Path) -> Result<(Option<AgentStatus>, bool), AgentFilesError> {
    read_status_in(&run_folder(state))
}

fn read_status_in(run: &Path) -> Result<(Option<AgentStatus>, bool), AgentFilesError> {
    let folder = match TrustedFolder::open(run) {
        Err(FolderError::At { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok((None, false));
        }
        folder => folder?,
    };
    let is_running = match folder.open_file(Path::new(LOCK)) {
        Ok(lock) => !try_lock(&lock, 1).map_err(|source| error(&folder, LOCK, source))?,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(error(&folder, LOCK, source)),
    };
    Ok((read_json(&folder, STATUS)?, is_running))
}

/// The document in a file of the folder; `None` if there is no such file.
fn read_json<T: DeserializeOwned>(
    folder: &TrustedFolder,
    name: &str,
) -> Result<Option<T>, AgentFilesError> {
    let at = |source| error(folder, name, source);
    let file = match folder.open_file(Path::new(name)) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at)?,
    };
    let mut bytes = Vec::new();
    file.take(LONGEST_STATUS).read_to_end(&mut bytes).map_err(at)?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| at(error.into()))
}

/// `/run/pagewise` for root; without root, the user's folder in `/run`, or else that of the journals.
fn run_folder(state: &Path) -> PathBuf {
    machine_lock_folder().unwrap_or_else(|| state.to_owned())
}

fn open_folder(path: &Path) -> Result<TrustedFolder, FolderError> {
    TrustedFolder::open_or_make(path, |below, name| rustix::fs::mkdirat(below, name, Mode::RWXU))
}

fn error(folder: &TrustedFolder, name: &str, source: io::Error) -> AgentFilesError {
    AgentFilesError::File { path: folder.path().join(name), source }
}

fn create(folder: &TrustedFolder, name: &str, more: OFlags) -> Result<File, AgentFilesError> {
    let plain = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = OFlags::WRONLY | OFlags::CREATE | plain | more;
    let made = openat(folder.handle(), name, flags, Mode::RUSR | Mode::WUSR);
    made.map(File::from).map_err(|errno| error(folder, name, errno.into()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read and damage the files")]
mod tests {
    use super::*;

    fn status() -> AgentStatus {
        AgentStatus { pid: 7, cpu_seconds: 0.5, ..AgentStatus::default() }
    }

    #[test]
    fn one_agent_runs_at_a_time_and_its_state_stays_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let (run, state) = (folder.path().join("run"), folder.path().join("state"));
        assert_eq!(read_status_in(&run).unwrap(), (None, false));
        let files = AgentFiles::open_in(&run, &state).unwrap();
        assert_eq!(read_status_in(&run).unwrap(), (None, true));
        files.write_status(&status()).unwrap();
        assert_eq!(read_status_in(&run).unwrap(), (Some(status()), true));
        let busy = AgentFiles::open_in(&run, &folder.path().join("other")).unwrap_err();
        assert!(matches!(busy, AgentFilesError::Busy { .. }) && busy.next().is_some(), "{busy}");
        drop(files);
        assert_eq!(read_status_in(&run).unwrap(), (Some(status()), false));
        AgentFiles::open_in(&run, &state).unwrap();
    }

    #[test]
    fn the_log_is_bounded_and_keeps_the_newest_lines() {
        let folder = tempfile::tempdir().unwrap();
        let files = AgentFiles::open_in(folder.path(), folder.path()).unwrap();
        let filler = "x".repeat(1000);
        for line in 0..900 {
            files.log(&format!("{line:04} {filler}")).unwrap();
        }
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let (old, new) = (read(OLD_LOG), read(LOG));
        assert!(old.len() as u64 <= LONGEST_LOG && new.len() as u64 <= LONGEST_LOG);
        let all = old + &new;
        let numbers: Vec<u32> = all.lines().map(|line| line[..4].parse().unwrap()).collect();
        assert_eq!(numbers.last(), Some(&899));
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "none is missing between");
    }

    #[test]
    fn the_account_of_flash_stays_and_damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let files = AgentFiles::open_in(folder.path(), folder.path()).unwrap();
        assert_eq!(files.read_flash::<u64>().unwrap(), None);
        files.write_flash(&5u64).unwrap();
        files.write_flash(&6u64).unwrap();
        drop(files);
        let files = AgentFiles::open_in(folder.path(), folder.path()).unwrap();
        assert_eq!(files.read_flash().unwrap(), Some(6u64));
        std::fs::write(folder.path().join(FLASH), "").unwrap();
        assert!(files.read_flash::<u64>().is_err());
        assert_eq!(files.read_switchback::<u64>().unwrap(), None);
        files.write_switchback(&7u64).unwrap();
        assert_eq!(files.read_switchback().unwrap(), Some(7u64));
    }

    #[test]
    fn a_damaged_state_is_an_error_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let files = AgentFiles::open_in(folder.path(), folder.path()).unwrap();
        std::fs::write(folder.path().join(STATUS), "{").unwrap();
        assert!(matches!(read_status_in(folder.path()), Err(AgentFilesError::File { .. })));
        let theirs = folder.path().join("theirs");
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, folder.path().join(UNFINISHED)).unwrap();
        std::os::unix::fs::symlink(&theirs, folder.path().join(LOG)).unwrap();
        assert!(files.write_status(&status()).is_err() && files.log("line").is_err());
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    }
}
