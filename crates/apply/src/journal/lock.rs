// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allows one session at a time on a machine. The kernel releases a lock when its process ends, so
//! a killed process leaves none.
//!
//! There are two locks. The first is for the machine: `/run/pagewise/lock`, whatever folder of
//! journals is used, because two runs with two journals would overwrite each other's knobs. Only
//! root can set knobs, so the folder belongs to root and no user can hold the lock to block it.
//! (Any user could bind an abstract socket, and it would be visible only in one network namespace.)
//! A user without root has `/run/user/UID/pagewise`. A container has its own `/run` but may write
//! the same knobs: `PAGEWISE_LOCK` names another folder, such as the host's if it is mounted.
//!
//! The second lock is beside the journals: a run that holds it may write there, even from another
//! container or from an early version that knows no other lock.
//!
//! If a file system is read-only and has no lock file, no process can hold the lock, so it is not
//! needed.

#![expect(
    clippy::disallowed_methods,
    reason = "the lock is taken before there is a HostOps to act"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagewise_observe::{FolderError, TrustedFolder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::Error;

/// The lock of the machine and the lock of the folder of journals; dropping this releases both.
#[derive(Debug)]
pub(crate) struct Lock {
    _files: Vec<File>,
}

const NAME: &str = "lock";

impl Lock {
    /// Takes both locks and writes our process id into them. Missing folders are created.
    pub(crate) fn take(state: &Path) -> Result<Self, Error> {
        Self::take_both(machine_lock_folder().as_deref(), state)
    }

    fn take_both(machine: Option<&Path>, state: &Path) -> Result<Self, Error> {
        let folders = machine.into_iter().chain([state]);
        let files: Result<Vec<Option<File>>, Error> = folders.map(take_one).collect();
        Ok(Self { _files: files?.into_iter().flatten().collect() })
    }
}

/// The folder of the lock for the machine; `None` for a user without root who has none.
pub(crate) fn machine_lock_folder() -> Option<PathBuf> {
    let named = std::env::var_os("PAGEWISE_LOCK").filter(|it| !it.is_empty());
    if named.is_some() {
        return named.map(PathBuf::from);
    }
    let user = rustix::process::geteuid().as_raw();
    if user == 0 {
        return Some("/run/pagewise".into());
    }
    let own = PathBuf::from(format!("/run/user/{user}"));
    own.is_dir().then(|| own.join("pagewise"))
}

fn take_one(folder: &Path) -> Result<Option<File>, Error> {
    let describe = |source| Error::State { path: folder.display().to_string(), source };
    match make_private_folder(folder) {
        Err(FolderError::At { source, .. }) if is_read_only(&source) && !folder.exists() => {
            return Ok(None);
        }
        Err(FolderError::At { source, .. }) => return Err(describe(source)),
        Err(FolderError::Untrusted { path, why }) => {
            return Err(Error::Untrusted { path: path.display().to_string(), why });
        }
        Ok(()) => (),
    }
    let Some(mut file) = open(folder).map_err(describe)? else { return Ok(None) };
    let is_locked = try_lock(&file, TRIES).map_err(describe)?
        || holder(&mut file).is_some_and(has_ended)
            && try_lock(&file, MORE_TRIES).map_err(describe)?;
    if !is_locked {
        let pid = holder(&mut file);
        return Err(Error::Busy { state: folder.display().to_string(), pid });
    }
    // the lock is valid even if our id cannot be written: the file is read-only, or the disk is
    // full
    let _ = write_pid(&mut file);
    Ok(Some(file))
}

fn is_read_only(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ReadOnlyFilesystem
}

/// Creates the folder of journals or of the lock. Root carries out what journals say, so no other
/// user may write there or replace the folder.
fn make_private_folder(folder: &Path) -> Result<(), FolderError> {
    let is_new = !folder.is_dir();
    let made = TrustedFolder::open_or_make(folder, |below, name| {
        rustix::fs::mkdirat(below, name, Mode::RWXU)
    })?;
    if is_new {
        // so that a power cut does not remove the folder with the journal in it
        let path = made.path().join("..");
        let synced = OpenOptions::new().read(true).open(&path).and_then(|above| above.sync_all());
        return synced.map_err(|source| FolderError::At { path, source });
    }
    Ok(())
}

/// Number of tries to take the lock: if a process was killed while it was starting a program, the
/// lock is held until that program has executed.
pub(crate) const TRIES: u32 = 50;
/// Number of tries to take the lock if the process that the lock file names has exited: on a busy
/// machine, 1 s was once too short for the program to start.
const MORE_TRIES: u32 = 500;
const BETWEEN: Duration = Duration::from_millis(20);

pub(crate) fn try_lock(file: &File, tries: u32) -> io::Result<bool> {
    for _ in 0..tries {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Opens the lock file; `None` if it does not exist and cannot be created because the file system
/// is read-only.
fn open(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(NAME);
    let plain = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(plain);
    let file = match options.open(&path) {
        Err(error) if is_read_only(&error) => {
            match OpenOptions::new().read(true).custom_flags(plain).open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                file => file?,
            }
        }
        file => file?,
    };
    if file.metadata()?.is_file() {
        return Ok(Some(file));
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "expected a plain file called lock in it"))
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Id of the process that holds the lock, or held it last, as the lock file names it.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    // a process that has just taken the lock may not have written its id yet
    Read::take(file, 32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether the process has exited, including a zombie.
fn has_ended(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            let mut polled = [PollFd::new(&process, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        }
        Err(errno) => errno == Errno::SRCH,
    }
}

/// Whether the folder of journals exists and is searchable.
pub(crate) fn has_folder(folder: &Path) -> Result<bool, Error> {
    match folder.join(".").metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::State { path: folder.display().to_string(), source }),
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::Advice;

    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn take(state: &Path) -> Result<Lock, Error> {
        Lock::take_both(None, state)
    }

    #[test]
    fn the_machines_lock_excludes_whatever_the_folder_of_state() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run/pagewise");
        let first = Lock::take_both(Some(&run), &folder.path().join("one")).unwrap();
        let refused = Lock::take_both(Some(&run), &folder.path().join("two")).unwrap_err();
        assert!(
            matches!(&refused, Error::Busy { state, pid: Some(pid) }
                if state.ends_with("run/pagewise") && *pid == std::process::id()),
            "{refused}"
        );
        assert!(take(&folder.path().join("two")).is_ok(), "another machine's");
        drop(first);
        Lock::take_both(Some(&run), &folder.path().join("two")).unwrap();
        let mode = run.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o700);
    }

    #[test]
    fn a_lock_that_is_no_plain_file_is_refused_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, lock) = (folder.path().join("target"), folder.path().join("lock"));
        std::fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &lock).unwrap();
        assert!(matches!(take(folder.path()), Err(Error::State { .. })));
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        assert!(matches!(take(folder.path()), Err(Error::State { .. })));
    }

    #[test]
    fn a_second_is_refused_and_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("deep/state");
        let first = take(&state).unwrap();
        let refused = take(&state).unwrap_err();
        assert!(matches!(refused, Error::Busy { pid: Some(pid), .. } if pid == std::process::id()));
        drop(first);
        take(&state).unwrap();
    }

    /// A process that was killed while it started a program leaves the lock held until that program
    /// has executed.
    #[test]
    fn the_lock_of_one_that_has_ended_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let first = take(&state).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        std::fs::write(state.join(NAME), ended.id().to_string()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(BETWEEN * (TRIES + TRIES / 2));
                drop(first);
            });
            take(&state).unwrap();
        });
    }

    /// A user who can write to a parent folder could replace our folder of journals.
    #[test]
    fn a_folder_that_others_may_write_to_is_refused_and_so_is_a_parent() {
        let folder = tempfile::tempdir().unwrap();
        let (open, state) = (folder.path().join("open"), folder.path().join("open/of/state"));
        std::fs::create_dir_all(&state).unwrap();
        drop(take(&state).unwrap());
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        for place in [&open, &state] {
            let refused = take(place).unwrap_err();
            let path = open.display().to_string();
            assert!(
                matches!(&refused, Error::Untrusted { path: found, why }
                    if *found == path && why.contains("others may write")),
                "{refused}"
            );
            assert!(refused.next().unwrap().contains(&format!("chmod go-w {path}")));
        }
        assert!(take(&open.join("new")).is_err() && !open.join("new").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("lock");
        drop(take(folder.path()).unwrap());
        let refused = take(&state).unwrap_err();
        assert!(matches!(refused, Error::State { ref path, .. } if path.ends_with("/lock")));
        assert!(!has_folder(&folder.path().join("no")).unwrap());
        assert!(has_folder(folder.path()).unwrap());
    }
}
