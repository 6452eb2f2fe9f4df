// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/stat` (times and faults) and `/proc/PID/statm` (sizes) of a process.
//!
//! Each of the two files is one line of numbers. The second field of `stat` is the name in
//! parentheses, which may contain any byte, parentheses included: fields are counted from the last
//! `)`. Times are in ticks of 10 ms; the start time counts from boot on the clock of
//! `/proc/uptime`, which includes suspend. CPU time and faults are those of all threads, including
//! ended ones; those of child processes are in separate fields.
//!
//! `statm` costs a third of `status`. Anonymous memory is its resident minus its shared pages,
//! where "shared" means file pages and shmem. It does not include swap.

use pagewise_model::{Bytes, Millis, Name, Pages, Process, Reading, Source};

use pagewise_hostfs::text::{number, unescape_name, words};
use pagewise_hostfs::{HostRoot, ReadHost, Refusal, absolute_path};

/// Milliseconds per clock tick: `USER_HZ` is 100 on every architecture that this program supports.
const TICK: u64 = 10;
/// Indexes of fields after the name, the first of which is the state (field 3 of proc_pid_stat(5)).
const PARENT: usize = 4 - 3;
const MAJOR_FAULTS: usize = 12 - 3;
const ENDED_MAJOR_FAULTS: usize = 13 - 3;
const USER_TIME: usize = 14 - 3;
const SYSTEM_TIME: usize = 15 - 3;
const ENDED_USER_TIME: usize = 16 - 3;
const ENDED_SYSTEM_TIME: usize = 17 - 3;
const START_TIME: usize = 22 - 3;

/// Fills in start time, CPU time and major faults of the process.
pub(super) fn read_times(host: &HostRoot, process: &mut Process) {
    let line = host.bytes(&path(process.pid));
    fill_times(host, process, line.as_deref());
}

pub(super) fn path(pid: u32) -> String {
    format!("proc/{pid}/stat")
}

/// Fills in start time, CPU time and major faults from the text of `stat`, or why it was not read.
pub(super) fn fill_times(host: &HostRoot, process: &mut Process, text: Result<&[u8], &Refusal>) {
    let source = Source::file(absolute_path(&path(process.pid)));
    let source = || source.clone();
    match text {
        Err(refusal) => {
            process.start_time = refusal.clone().reading(source());
            process.cpu_time = refusal.clone().reading(source());
            process.major_faults = refusal.clone().reading(source());
        }
        Ok(line) => match StatLine::parse(line) {
            None => {
                let why = "a process's name in parentheses and its counters";
                process.start_time = host.report_garbled(source(), why, line.trim_ascii());
            }
            Some(times) => {
                process.start_time = Reading::found(times.start, source());
                process.cpu_time = Reading::found(times.cpu, source());
                process.major_faults = Reading::found(times.major_faults, source());
            }
        },
    }
}

/// The fields of `stat` that are used.
#[derive(Debug, PartialEq)]
pub(crate) struct StatLine {
    pub(crate) parent: u64,
    pub(super) start: Millis,
    pub(crate) cpu: Millis,
    pub(crate) major_faults: u64,
    /// CPU time of the process's descendants that have ended and were waited for; 0 if the field is
    /// missing.
    pub(crate) ended_cpu: Millis,
    pub(crate) ended_major_faults: u64,
}

/// The name in a line of `stat`, escaped as in `status`.
pub(super) fn name(line: &[u8]) -> Option<Name> {
    let start = line.iter().position(|&byte| byte == b'(')? + 1;
    let end = line.iter().rposition(|&byte| byte == b')')?;
    Some(Name::from_bytes(&unescape_name(line.get(start..end)?)))
}

impl StatLine {
    /// Reads `/proc/PID/stat` of a process; `None` if the process has ended or the line cannot be
    /// parsed.
    pub(crate) fn read(host: &HostRoot, pid: u32) -> Option<Self> {
        Self::parse(&host.bytes(&format!("proc/{pid}/stat")).ok()?)
    }

    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let behind_name = &line[line.iter().rposition(|&byte| byte == b')')? + 1..];
        let mut fields = [0u64; START_TIME + 1];
        let mut all = words(behind_name);
        for (at, field) in fields.iter_mut().enumerate() {
            let word = all.next()?;
            // other fields may be no unsigned number: the state is a letter, process groups may be
            // negative
            *field = match number(word) {
                Some(value) => value,
                None if is_wanted(at) => return None,
                None => 0,
            };
        }
        let ticks = |at: usize| fields[at].checked_mul(TICK).map(Millis::new);
        let ended = |at: usize| ticks(at).unwrap_or(Millis::new(0));
        Some(Self {
            parent: fields[PARENT],
            start: ticks(START_TIME)?,
            cpu: ticks(USER_TIME)?.saturating_add(ticks(SYSTEM_TIME)?),
            major_faults: fields[MAJOR_FAULTS],
            ended_cpu: ended(ENDED_USER_TIME).saturating_add(ended(ENDED_SYSTEM_TIME)),
            ended_major_faults: fields[ENDED_MAJOR_FAULTS],
        })
    }
}

fn is_wanted(at: usize) -> bool {
    matches!(at, PARENT | MAJOR_FAULTS | USER_TIME | SYSTEM_TIME | START_TIME)
}

/// A process with the values of `statm`, and its resident size; `None` if it has no memory or has
/// ended.
pub(super) fn read_sizes(host: &HostRoot, pid: u32, page: Bytes) -> Option<(Process, Bytes)> {
    let path = format!("proc/{pid}/statm");
    let line = host.bytes(&path).ok()?;
    let source = Source::file(absolute_path(&path));
    let Some([size, ..]) = three_pages(&line) else {
        host.problem(&source, "numbers of pages", line.trim_ascii());
        return None;
    };
    let Sizes { resident, anon } = sizes(&line, page)?;
    let process = Process {
        pid,
        virtual_size: Reading::found(size.to_bytes(page), source.clone()),
        rss_anon: Reading::found(anon, source),
        ..Process::default()
    };
    Some((process, resident))
}

/// The sizes of a process in `statm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) resident: Bytes,
    pub(super) anon: Bytes,
}

/// Parses the sizes in a line of `statm`; `None` if the process has no memory.
pub(super) fn sizes(line: &[u8], page: Bytes) -> Option<Sizes> {
    let [size, resident, shared] = three_pages(line)?;
    let anon = resident.saturating_sub(shared).to_bytes(page);
    (size != Pages::new(0)).then(|| Sizes { resident: resident.to_bytes(page), anon })
}

fn three_pages(line: &[u8]) -> Option<[Pages; 3]> {
    let mut pages = words(line).map(|word| number(word).map(Pages::new));
    Some([pages.next()??, pages.next()??, pages.next()??])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, host, mangle};

    /// A line of `/proc/PID/stat` from Linux 6.18; the process's name was replaced.
    const STAT: &str = "42 (a) S 9 (b) S 1 42 42 0 -1 4194560 201133 8840 171 13 7006 2381 60 24 20 0 1 0 5 23916544 3151 18446744073709551615 1 1 0 0 0 0\n";

    fn process_with_times(host: &HostRoot) -> Process {
        let mut process = Process { pid: 42, ..Process::default() };
        read_times(host, &mut process);
        process
    }

    #[test]
    fn times_are_counted_behind_the_last_parenthesis() {
        let process = process_with_times(&host([("proc/42/stat", STAT)]));
        assert_eq!(process.start_time.get(), Some(Millis::new(50)));
        assert_eq!(process.cpu_time.get(), Some(Millis::new(93_870)));
        assert_eq!(process.major_faults.get(), Some(171));
        assert_eq!(process.cpu_time.source, Source::file("/proc/42/stat"));
    }

    #[test]
    fn a_name_may_hold_parentheses_and_line_breaks() {
        assert_eq!(name(STAT.as_bytes()).unwrap().as_str(), "a) S 9 (b");
        assert_eq!(name(b"7 (a\\nb\\\\) S 1").unwrap(), Name::from("a\nb\\"));
        assert_eq!(name(b"7 )( S 1"), None);
    }

    #[test]
    fn what_ended_children_used_is_apart() {
        let stat = StatLine::parse(STAT.as_bytes()).unwrap();
        assert_eq!((stat.ended_cpu, stat.ended_major_faults), (Millis::new(840), 13));
    }

    #[test]
    fn a_stat_that_cannot_be_read_is_denied_and_a_garbled_one_a_problem() {
        let process = process_with_times(&HostRoot::memory([denied_entry("proc/42/stat")]));
        assert!(process.start_time.is_denied() && process.cpu_time.is_denied());
        for garbled in ["42 (a S 1", "42 (a) S 1 42", "", &STAT.replace("171", "-171")] {
            let host = host([("proc/42/stat", garbled)]);
            assert_eq!(process_with_times(&host).start_time.get(), None, "{garbled}");
            assert_eq!(host.take_problems().len(), 1, "{garbled}");
        }
    }

    #[test]
    fn statm_tells_anonymous_memory_and_threads_of_the_kernel_have_none() {
        let page = Bytes::new(4096);
        let host = host([
            ("proc/1/statm", "5839 3151 2003 249 0 681 0\n"),
            ("proc/2/statm", "0 0 0 0 0 0 0\n"),
            ("proc/3/statm", "5839 -1 2\n"),
        ]);
        let (process, resident) = read_sizes(&host, 1, page).unwrap();
        assert_eq!(process.rss_anon.get(), Some(Bytes::new(1148 * 4096)));
        assert_eq!(resident, Bytes::new(3151 * 4096));
        assert!(read_sizes(&host, 2, page).is_none() && read_sizes(&host, 4, page).is_none());
        assert_eq!(host.take_problems(), []);
        assert!(read_sizes(&host, 3, page).is_none());
        assert_eq!(host.take_problems().len(), 1);
    }

    /// The values of this process agree with the clock and with `status`.
    #[test]
    fn our_own_times_are_plausible() {
        let live = HostRoot::live().unwrap();
        let pid = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let mut process = Process { pid, ..Process::default() };
        read_times(&live, &mut process);
        let uptime = crate::uptime::read(&live).get().unwrap();
        let age = uptime.saturating_sub(process.start_time.get().unwrap());
        assert!(process.start_time.get().unwrap() <= uptime && age < Millis::new(86_400_000));
        assert!(process.cpu_time.get().unwrap().get() < 86_400_000);
        let (sizes, resident) =
            read_sizes(&live, pid, Bytes::new(rustix::param::page_size() as u64)).unwrap();
        assert!(sizes.rss_anon.get().unwrap() <= resident);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(stat in mangle(STAT), statm in mangle("5839 3151 2003 249 0 681 0\n")) {
            let host = host([("proc/42/stat", stat), ("proc/42/statm", statm)]);
            let _ = process_with_times(&host);
            let _ = read_sizes(&host, 42, Bytes::new(4096));
        }
    }
}
