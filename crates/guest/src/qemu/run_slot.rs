// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest's folder: also its place among the guests that run at the same time.
//!
//! Each run has a folder with a lock that its runner holds, and a note of what the guest takes. The
//! kernel drops the lock with the runner, however that ends: so a folder without a holder is what a
//! killed runner left, and whoever comes next removes it and says so. The notes of the others are
//! added up before a guest starts; one guest may always run. One of those that wait is the next: whoever comes
//! meanwhile waits behind it, else one that takes two processors would be overtaken as long as others come that
//! take one.
//!
//! A QEMU ends with its runner (see program.rs). Should one be left all the same, its command line names
//! the folder. The folder is renamed before QEMUs are looked for, and removed after that: one that is only
//! being started then finds no kernel.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pagewise_model::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use super::disk::comma_doubled;
use crate::cache::Cache;
use crate::error::{Error, ErrorContext};
use crate::files;
use crate::lock::{Kind, Lock};

/// What QEMU takes beyond the guest's memory: its own, and that for translated code.
const OVERHEAD: u64 = 128 << 20;

/// What guests of one user may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Virtual processors.
    pub cpus: u32,
    /// Memory.
    pub memory: u64,
}

impl Budget {
    /// As many processors as there are, and three quarters of memory.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let system = rustix::system::sysinfo();
        // Word sizes differ between architectures.
        let memory = u64::from(system.mem_unit).saturating_mul(system.totalram as u64);
        Self { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory: memory / 4 * 3 }
    }

    fn holds(self, taken: &[Self]) -> bool {
        let cpus = taken.iter().fold(0, |sum: u32, one| sum.saturating_add(one.cpus));
        let memory = taken.iter().fold(0, |sum: u64, one| sum.saturating_add(one.memory));
        cpus <= self.cpus && memory <= self.memory
    }
}

/// A folder of our own, until it is dropped.
#[derive(Debug)]
pub(super) struct RunSlot {
    pub(super) folder: PathBuf,
    _lock: Lock,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl RunSlot {
    /// Waits until what the guest takes is free, unless the user stops us.
    pub(super) fn take(
        cache: &Cache,
        cpus: u32,
        memory: Bytes,
        budget: Budget,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let requested = Budget { cpus, memory: memory.get().saturating_add(OVERHEAD) };
        let mut next = None;
        for look in 0_u64.. {
            if next.is_none() {
                next = Lock::attempt(&turn(cache), Kind::Alone)?;
            }
            let waits = if next.is_some() {
                let _admission = Lock::wait(&admission(cache), Kind::Alone, stop)?;
                for left in clean_admitted(cache)? {
                    tell(&left);
                }
                let mut taken = taken(cache)?;
                taken.push(requested);
                if taken.len() == 1 || budget.holds(&taken) {
                    return Self::new(cache, requested);
                }
                match taken.len() - 1 {
                    1 => "waiting for another guest to end".to_owned(),
                    others => format!("waiting for one of {others} other guests to end"),
                }
            } else {
                "waiting behind another guest that waits for CPUs or memory".to_owned()
            };
            // not of one that is only about to start
            if look == 1 {
                tell(&waits);
            }
            std::thread::sleep(Duration::from_millis(100));
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
        Err(Error::Stopped)
    }

    fn new(cache: &Cache, requested: Budget) -> Result<Self, Error> {
        let folder = new_folder(&runs(cache))?;
        let lock = Lock::attempt(&folder.join("lock"), Kind::Alone)?.ok_or(Error::Stopped)?;
        let seat = Self { folder, _lock: lock };
        let note = serde_json::to_vec(&requested).unwrap_or_default();
        files::write(&seat.folder.join("takes"), &note, 0o600)?;
        Ok(seat)
    }
}

/// Process numbers are unique in one namespace only, and several may share a cache.
fn new_folder(runs: &Path) -> Result<PathBuf, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let folder = runs.join(format!("{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.with_path(&folder).map(|()| folder),
        }
    }
}

fn runs(cache: &Cache) -> PathBuf {
    cache.folder().join("runs")
}

fn admission(cache: &Cache) -> PathBuf {
    cache.folder().join("locks/.admission")
}

/// Held by the next one to start, while it waits.
fn turn(cache: &Cache) -> PathBuf {
    cache.folder().join("locks/.next")
}

fn folders(cache: &Cache) -> Result<Vec<PathBuf>, Error> {
    let runs = runs(cache);
    Ok(fs::read_dir(&runs).with_path(&runs)?.flatten().map(|entry| entry.path()).collect())
}

fn taken(cache: &Cache) -> Result<Vec<Budget>, Error> {
    let note = |folder: PathBuf| {
        serde_json::from_slice(&fs::read(folder.join("takes")).unwrap_or_default()).ok()
    };
    Ok(folders(cache)?.into_iter().filter_map(note).collect())
}

/// Removes what killed runners left; a line for each.
///
/// # Errors
/// Where that is not possible.
pub fn clean(cache: &Cache, stop: &AtomicBool) -> Result<Vec<String>, Error> {
    let _admission = Lock::wait(&admission(cache), Kind::Alone, stop)?;
    clean_admitted(cache)
}

fn clean_admitted(cache: &Cache) -> Result<Vec<String>, Error> {
    let mut lines = cache.clean_unfinished()?;
    for folder in folders(cache)? {
        // A runner may end between our look and now, and take its folder with it.
        let Ok(Some(_lock)) = Lock::attempt(&folder.join("lock"), Kind::Alone) else { continue };
        let aside = folder.with_extension("gone");
        fs::rename(&folder, &aside).with_path(&folder)?;
        let killed = if kill_qemu(&folder.with_extension("")) { " and its QEMU" } else { "" };
        files::remove_folder(&aside)?;
        lines.push(format!("removed {}{killed}, left by a run that was killed", folder.display()));
    }
    Ok(lines)
}

/// Ends a QEMU whose runner is gone: the process whose guest is named after this folder.
fn kill_qemu(folder: &Path) -> bool {
    let mark = mark(folder);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(Pid::from_raw)
        .any(|pid| kill_marked(pid, mark.as_encoded_bytes()) == Some(()))
}

/// Kills this process, if the mark is among its arguments, and waits until it is gone. The handle
/// keeps its number from becoming somebody else's.
fn kill_marked(pid: Pid, mark: &[u8]) -> Option<()> {
    let line = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
    let is_marked = |line: Vec<u8>| line.split(|byte| *byte == 0).any(|word| word == mark);
    is_marked(fs::read(&line).ok()?).then_some(())?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    is_marked(fs::read(&line).ok()?).then_some(())?;
    rustix::process::pidfd_send_signal(&process, Signal::KILL).ok()?;
    let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience));
    Some(())
}

/// What this guest's QEMU alone has among its arguments.
pub(super) fn mark(folder: &Path) -> OsString {
    let mut name = OsString::from("guest=");
    name.push(comma_doubled(folder));
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const ROOM: Budget = Budget { cpus: 2, memory: 1 << 40 };

    fn seat(cache: &Cache, stop: bool, lines: &mut Vec<String>) -> Result<RunSlot, Error> {
        let mut tell = |line: &str| lines.push(line.to_owned());
        RunSlot::take(cache, 1, Bytes::new(1 << 20), ROOM, &AtomicBool::new(stop), &mut tell)
    }

    #[test]
    fn the_third_waits_for_two_processors() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let mut lines = Vec::new();
        let one = seat(&cache, false, &mut lines).unwrap();
        let two = seat(&cache, false, &mut lines).unwrap();
        assert!(two.folder.is_dir() && one.folder != two.folder);
        std::thread::scope(|scope| {
            let (line, lines) = std::sync::mpsc::channel();
            let mut tell = move |text: &str| line.send(text.to_owned()).unwrap();
            let (memory, stop) = (Bytes::new(1 << 20), AtomicBool::new(false));
            let cache = &cache;
            let third = scope
                .spawn(move || RunSlot::take(cache, 1, memory, ROOM, &stop, &mut tell).map(|_| ()));
            // it has found no room, and goes on only when there is some
            let listed = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(listed, "waiting for one of 2 other guests to end");
            assert!(!third.is_finished());
            drop(one);
            third.join().unwrap().unwrap();
        });
        drop(two);
        assert_eq!(folders(&cache).unwrap(), Vec::<PathBuf>::new());
    }

    /// One that takes both processors waits for one that takes one; another of these comes later.
    #[test]
    fn who_waits_is_not_overtaken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let first = seat(&cache, false, &mut Vec::new()).unwrap();
        let (stop, memory) = (AtomicBool::new(false), Bytes::new(1 << 20));
        let (line, told) = std::sync::mpsc::channel();
        let (got, seats) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let comes = |cpus| {
                let (line, got, cache, stop) = (line.clone(), got.clone(), &cache, &stop);
                let mut tell = move |text: &str| line.send(text.to_owned()).unwrap();
                scope.spawn(move || {
                    let seat = RunSlot::take(cache, cpus, memory, ROOM, stop, &mut tell);
                    got.send((cpus, seat.unwrap())).unwrap();
                });
                told.recv_timeout(Duration::from_secs(60)).unwrap()
            };
            assert_eq!(comes(2), "waiting for another guest to end");
            assert_eq!(comes(1), "waiting behind another guest that waits for CPUs or memory");
            drop(first);
            for expected in [2, 1] {
                let (cpus, seat) = seats.recv_timeout(Duration::from_secs(60)).unwrap();
                assert_eq!(cpus, expected);
                drop(seat);
            }
        });
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let mut lines = Vec::new();
        let _taken = [(); 2].map(|()| seat(&cache, false, &mut lines).unwrap());
        assert!(matches!(seat(&cache, true, &mut lines), Err(Error::Stopped)));
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let left = folder.path().join("runs/1234-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("initramfs"), b"x").unwrap();
        // One has the mark of a QEMU, the other only reads the log.
        let log = left.join("kernel.log").into_os_string();
        let sleeper = |word: &std::ffi::OsStr| {
            let mut sleeper = std::process::Command::new("sh");
            // ends with its input, so that nothing of it outlives the test
            sleeper.args(["-c", "read line"]).arg(word);
            let sleeper = sleeper.stdin(std::process::Stdio::piped()).spawn().unwrap();
            // it is spawned a moment before the kernel shows its arguments
            let line = format!("/proc/{}/cmdline", sleeper.id());
            let shown = [word.as_encoded_bytes(), b"\0"].concat();
            let is_shown = |_| {
                std::thread::sleep(Duration::from_millis(1));
                fs::read(&line).unwrap().ends_with(&shown)
            };
            assert!((0..10_000).any(is_shown), "{line} shows no arguments");
            sleeper
        };
        let (mut qemu, mut reader) = (sleeper(&mark(&left)), sleeper(&log));
        let mut lines = Vec::new();
        let seat = seat(&cache, false, &mut lines).unwrap();
        assert!(lines.len() == 1 && lines[0].contains("1234-0 and its QEMU, left"), "{lines:?}");
        assert_eq!(qemu.wait().unwrap().signal(), Some(9));
        assert!(reader.try_wait().unwrap().is_none());
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert!(!left.exists() && seat.folder.exists());
        assert!(clean(&cache, &AtomicBool::new(false)).unwrap().is_empty());
    }
}
