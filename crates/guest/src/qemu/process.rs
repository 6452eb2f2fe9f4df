// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU processes in `/proc`: found by the folder of their run, their CPU time and memory; and how
//! to kill one.
//!
//! Each QEMU has the folder of its run among its arguments (its *mark*). The pid could not be
//! stored by one run for another: pids are valid in one PID namespace, and runs of several
//! namespaces may share a cache. A QEMU is not found if its PID namespace is not a descendant of
//! ours.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::time::{ClockId, clock_gettime};

use super::disk::double_commas;

/// The command-line argument by which this guest's QEMU is found.
pub(super) fn name_argument(folder: &Path) -> OsString {
    let mut name = OsString::from("guest=");
    name.push(double_commas(folder));
    name
}

/// Finds the QEMU process for each of these folders that has one; reads the arguments of all
/// processes.
pub(super) fn find_qemus<'a>(
    folders: impl IntoIterator<Item = &'a PathBuf>,
) -> HashMap<&'a PathBuf, Pid> {
    let marks: Vec<(OsString, &PathBuf)> =
        folders.into_iter().map(|folder| (name_argument(folder), folder)).collect();
    let mut found = HashMap::new();
    if marks.is_empty() {
        return found;
    }
    for pid in list_pids() {
        let arguments = read_arguments(pid).unwrap_or_default();
        let mut words = arguments.split(|byte| *byte == 0);
        let marked = words.find_map(|word| {
            marks.iter().find(|(mark, _)| mark.as_encoded_bytes() == word).map(|(_, folder)| folder)
        });
        if let Some(folder) = marked {
            found.insert(*folder, pid);
        }
    }
    found
}

fn list_pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw)
}

fn read_arguments(pid: Pid) -> Option<Vec<u8>> {
    fs::read(proc_path(pid, "cmdline")).ok()
}

fn proc_path(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_nonzero())
}

/// Kills the QEMU with this folder's mark, after its runner has died; returns whether there was
/// one.
pub(super) fn kill_qemu(folder: &Path) -> bool {
    let mark = name_argument(folder);
    list_pids().any(|pid| kill_marked(pid, mark.as_encoded_bytes()) == Some(()))
}

/// Kills this process if the mark is among its arguments, and waits until it is gone. The pidfd
/// makes sure that the pid is not reused in between.
fn kill_marked(pid: Pid, mark: &[u8]) -> Option<()> {
    let is_marked = |line: Vec<u8>| line.split(|byte| *byte == 0).any(|word| word == mark);
    is_marked(read_arguments(pid)?).then_some(())?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    is_marked(read_arguments(pid)?).then_some(())?;
    rustix::process::pidfd_send_signal(&process, Signal::KILL).ok()?;
    let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience));
    Some(())
}

/// CPU time of a process (user and system) in seconds.
pub(super) fn cpu_seconds(pid: Pid) -> Option<f64> {
    let stat = Stat::read(pid)?;
    Some((stat.number(UTIME)? + stat.number(STIME)?) / ticks_per_second()?)
}

/// Start time of a process in clock ticks since boot: with the pid, it identifies a process even if
/// the pid is reused.
pub(super) fn start_ticks(pid: Pid) -> Option<u64> {
    Stat::read(pid)?.word(STARTTIME)?.parse().ok()
}

/// Time since a process started; `start_ticks` is in clock ticks since boot.
pub(super) fn age(start_ticks: u64) -> Option<Duration> {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    #[expect(clippy::cast_precision_loss, reason = "ticks of 10 ms since boot")]
    let started = Duration::try_from_secs_f64(start_ticks as f64 / ticks_per_second()?).ok()?;
    Some(now.saturating_sub(started))
}

/// Resident memory of a process in bytes.
pub(super) fn resident_bytes(pid: Pid) -> Option<u64> {
    let statm = fs::read_to_string(proc_path(pid, "statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// CPU time that the threads of a process used, plus the time for which they were runnable and
/// waited for a CPU. If waiting were not counted, guests would seem to need less CPU on a busy
/// machine. On a kernel without `schedstat` this is only the used time.
pub(super) fn cpu_demand(pid: Pid) -> Option<Duration> {
    let threads = fs::read_dir(proc_path(pid, "task")).ok()?.flatten();
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
        Some(words.next()??.saturating_add(words.next()??))
    };
    let known: Vec<u64> = threads.filter_map(of_thread).collect();
    if known.is_empty() {
        return Duration::try_from_secs_f64(cpu_seconds(pid)?).ok();
    }
    Some(Duration::from_nanos(known.into_iter().fold(0, u64::saturating_add)))
}

/// Text of `/proc/PID/stat` after the program's name, which may contain spaces.
struct Stat(String);

/// Indices of fields of `/proc/PID/stat`, counted from the first field after the name.
const UTIME: usize = 11;
const STIME: usize = 12;
const STARTTIME: usize = 19;

impl Stat {
    fn read(pid: Pid) -> Option<Self> {
        let text = fs::read_to_string(proc_path(pid, "stat")).ok()?;
        Some(Self(text.rsplit_once(')')?.1.to_owned()))
    }

    fn word(&self, field: usize) -> Option<&str> {
        self.0.split_whitespace().nth(field)
    }

    fn number(&self, field: usize) -> Option<f64> {
        self.word(field)?.parse::<u32>().ok().map(f64::from)
    }
}

fn ticks_per_second() -> Option<f64> {
    u32::try_from(rustix::param::clock_ticks_per_second()).ok().map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values read for this process are plausible: CPU time, threads and memory are not zero,
    /// and the process started after the machine.
    #[test]
    fn a_process_is_read_as_proc_shows_it() {
        let own = rustix::process::getpid();
        let spent = || (cpu_seconds(own).unwrap(), cpu_demand(own).unwrap());
        let (used, demand) = spent();
        while spent().0 < used + 0.05 {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
        assert!(spent().1 > demand);
        assert!(resident_bytes(own).unwrap() > 1 << 20);
        let ticks = start_ticks(own).unwrap();
        let boot = clock_gettime(ClockId::Boottime).tv_sec;
        assert!(i128::from(age(ticks).unwrap().as_secs()) <= i128::from(boot));
        assert_eq!(start_ticks(own), Some(ticks));
    }

    #[test]
    fn a_process_that_is_gone_has_no_readings() {
        let gone = Pid::from_raw(i32::MAX).unwrap();
        assert_eq!((cpu_demand(gone), resident_bytes(gone), start_ticks(gone)), (None, None, None));
    }
}
