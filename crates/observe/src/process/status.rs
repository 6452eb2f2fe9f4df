// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/status` and `/proc/PID/cgroup` into a [`Process`].
//!
//! "kB" means KiB. A kernel thread has no lines about memory; newer kernels also print `Kthread:
//! 1`. A zombie has none either and has `State: Z`. The owner is the second of the four user ids,
//! the effective one.
//!
//! `Name` is the only text in the file that anybody may choose. The kernel prints a newline in it
//! as `\n` and a backslash as `\\`, so it is always one line.

use pagewise_model::{Bytes, Name, Process, Reading, Source};

use pagewise_hostfs::text::{
    Line, NO_LINE, Text, flag, kib, number, split_three, unescape_name, words,
};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, Refusal, absolute_path};

/// The kind of task behind a process id.
#[derive(Debug)]
pub(super) enum Task {
    /// A process that has memory, and its resident size if known.
    Process(Box<Process>, Option<Bytes>),
    /// A kernel thread.
    KernelThread,
    /// The process has ended and its memory is freed.
    Ended,
}

/// Reads one process from its `status`; one that no longer exists has ended.
pub(super) fn read(host: &HostRoot, pid: u32) -> Task {
    match read_sizes(host, pid) {
        Task::Process(mut process, resident) => {
            process.cgroup = cgroup(host, pid);
            Task::Process(process, resident)
        }
        other => other,
    }
}

/// Reads the sizes of a process, without its cgroup.
pub(super) fn read_sizes(host: &HostRoot, pid: u32) -> Task {
    let path = format!("proc/{pid}/status");
    match host.text(&path) {
        Ok(text) => parse(host, pid, &text).task(host, &text),
        Err(Refusal::Absent(_)) => Task::Ended,
        Err(denied) => Task::Process(
            Box::new(blank_process(pid, &denied, &Source::file(absolute_path(&path)))),
            None,
        ),
    }
}

#[derive(Debug, Default)]
struct Found {
    process: Process,
    resident: Option<Bytes>,
    has_name: bool,
    has_memory: bool,
    is_kernel_thread: Option<bool>,
    has_ended: bool,
}

impl Found {
    fn is_process(&self) -> bool {
        self.has_memory && self.is_kernel_thread != Some(true)
    }

    fn task(self, host: &HostRoot, text: &Text) -> Task {
        match self.is_kernel_thread {
            _ if self.is_process() => {
                let resident = self.process.resident().or(self.resident);
                Task::Process(Box::new(self.process), resident)
            }
            Some(true) => Task::KernelThread,
            // neither memory nor a kernel thread: the process is exiting
            Some(false) => Task::Ended,
            None if self.has_ended => Task::Ended,
            None if self.has_name => Task::KernelThread,
            None => {
                host.problem(&text.source(), "the status of a process", b"");
                Task::Ended
            }
        }
    }
}

/// A process in which every field has the same refusal.
fn blank_process(pid: u32, refusal: &Refusal, source: &Source) -> Process {
    let mut process = Process { pid, ..Process::default() };
    for field in sizes(&mut process) {
        *field.1 = refusal.clone().reading(source.clone());
    }
    process.uid = refusal.clone().reading(source.clone());
    process.thp_allowed = refusal.clone().reading(source.clone());
    process.threads = refusal.clone().reading(source.clone());
    process
}

fn sizes(process: &mut Process) -> [(&'static [u8], &mut Reading<Bytes>); 9] {
    [
        (b"VmSize", &mut process.virtual_size),
        (b"RssAnon", &mut process.rss_anon),
        (b"RssFile", &mut process.rss_file),
        (b"RssShmem", &mut process.rss_shmem),
        (b"VmHWM", &mut process.peak),
        (b"VmSwap", &mut process.swap),
        (b"VmLck", &mut process.locked),
        (b"VmData", &mut process.data),
        (b"VmPTE", &mut process.page_tables),
    ]
}

fn parse(host: &HostRoot, pid: u32, text: &Text) -> Found {
    let process = blank_process(pid, &Refusal::Absent(NO_LINE.into()), &text.source());
    let mut found = Found { process, ..Found::default() };
    text.lines().for_each(|line| take(host, &mut found, &line));
    found
}

fn take(host: &HostRoot, found: &mut Found, line: &Line<'_>) {
    let Some((key, rest)) = line.split_name(host) else { return };
    // about a dozen of fifty lines are used, and this file is read for every process
    if !matches!(key.first(), Some(b'K' | b'N' | b'R' | b'S' | b'T' | b'U' | b'V')) {
        return;
    }
    let process = &mut found.process;
    match key {
        b"Name" => {
            process.name = name(line);
            found.has_name = true;
        }
        b"State" => found.has_ended = matches!(rest.first(), Some(b'Z' | b'X')),
        b"Kthread" => found.is_kernel_thread = flag(rest),
        b"Uid" => process.uid = owner(host, line, rest),
        b"Threads" => process.threads = line.reading(host, "a whole number", number(rest)),
        b"THP_enabled" => process.thp_allowed = line.reading(host, "0 or 1", flag(rest)),
        b"VmRSS" => {
            found.resident = kib(rest);
            found.has_memory = true;
        }
        other => {
            if let Some((_, field)) = sizes(process).into_iter().find(|(name, _)| *name == other) {
                *field = line.size(host, rest);
                found.has_memory = true;
            }
        }
    }
}

/// The process's name in the line `Name:`. A name may begin or end with white space: it starts
/// after one tab and is not trimmed.
fn name(line: &Line<'_>) -> Name {
    Name::from_bytes(&unescape_name(line.bytes.get(b"Name:\t".len()..).unwrap_or_default()))
}

fn owner(host: &HostRoot, line: &Line<'_>, rest: &[u8]) -> Reading<u32> {
    line.reading(host, "four user ids", words(rest).nth(1).and_then(number))
}

/// The path of a process's memory cgroup.
///
/// A line is `hierarchy:controllers:path`. Version 1 has a line per hierarchy, and the one with
/// `memory` counts; if there is none, memory is in the version 2 hierarchy, `0::path`.
fn cgroup(host: &HostRoot, pid: u32) -> Reading<Name> {
    let path = format!("proc/{pid}/cgroup");
    let text = match host.text(&path) {
        Ok(text) => text,
        Err(refusal) => return refusal.reading(Source::file(absolute_path(&path))),
    };
    let mut unified = None;
    for line in text.lines() {
        let Some([hierarchy, controllers, path]) = split_three(line.bytes) else {
            return host.report_garbled(line.source(), "hierarchy:controllers:path", line.bytes);
        };
        let here = || Reading::found(Name::from_bytes(path), line.source());
        if controllers.split(|&byte| byte == b',').any(|one| one == b"memory") {
            return here();
        }
        if hierarchy == b"0" && controllers.is_empty() {
            unified = Some(here());
        }
    }
    unified.unwrap_or_else(|| Reading::absent("in no memory cgroup", text.source()))
}

#[cfg(test)]
mod tests {
    use pagewise_model::Outcome;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, host, mangle};

    /// The `status` of a process on Linux 6.18, shortened.
    const STATUS: &str = "Name:\tredis-server\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t42\nUid:\t1000\t105\t105\t105\nGroups:\t \nKthread:\t0\nVmPeak:\t    3060 kB\nVmSize:\t    3060 kB\nVmHWM:\t    2004 kB\nVmRSS:\t    1722 kB\nRssAnon:\t     112 kB\nRssFile:\t    1608 kB\nRssShmem:\t       2 kB\nVmSwap:\t       8 kB\nTHP_enabled:\t1\nThreads:\t1\n";
    const KTHREAD: &str =
        "Name:\tkthreadd\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\nKthread:\t1\nThreads:\t1\n";
    const ZOMBIE: &str = "Name:\tsh\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\nThreads:\t1\n";
    const CGROUP: &str = "9:name=systemd:/init\n4:cpu,memory:/a:b/c\n1:cpuset:/\n0::/unified\n";

    fn process(status: &str, cgroup: &str) -> Process {
        let host = host([("proc/42/status", status), ("proc/42/cgroup", cgroup)]);
        match read(&host, 42) {
            Task::Process(process, _) => *process,
            other => panic!("{other:?}"),
        }
    }

    fn source_at(line: u32) -> Source {
        Source::line("/proc/42/status", line)
    }

    fn kib(kib: u64, line: u32) -> Reading<Bytes> {
        Reading::found(Bytes::from_kib(kib).unwrap(), source_at(line))
    }

    #[test]
    fn every_field_comes_from_its_line() {
        let found = process(STATUS, CGROUP);
        assert_eq!((found.pid, found.name.as_str()), (42, "redis-server"));
        assert_eq!(found.uid, Reading::found(105, source_at(5)));
        assert_eq!(found.virtual_size, kib(3060, 9));
        assert_eq!(found.peak, kib(2004, 10));
        assert_eq!(found.rss_anon, kib(112, 12));
        assert_eq!(found.rss_file, kib(1608, 13));
        assert_eq!(found.rss_shmem, kib(2, 14));
        assert_eq!(found.swap, kib(8, 15));
        assert_eq!(found.thp_allowed, Reading::found(true, source_at(16)));
        assert_eq!(found.threads, Reading::found(1, source_at(17)));
        assert_eq!(found.resident(), Bytes::from_kib(1722));
    }

    #[test]
    fn a_line_that_an_old_kernel_lacks_is_absent_and_its_total_still_known() {
        let old: String =
            STATUS.lines().filter(|l| !l.contains("Rss")).map(|l| format!("{l}\n")).collect();
        assert_eq!(process(&old, CGROUP).rss_anon.get(), None);
        let host = host([("proc/42/status", STATUS.replace("RssAnon", "RssAnin"))]);
        let Task::Process(found, resident) = read(&host, 42) else { panic!() };
        assert_eq!((found.resident(), resident), (None, Bytes::from_kib(1722)));
    }

    #[test]
    fn kernel_threads_and_zombies_are_told_apart_on_new_and_old_kernels() {
        let task = |status: &str| read(&host([("proc/42/status", status)]), 42);
        assert!(matches!(task(KTHREAD), Task::KernelThread));
        assert!(matches!(task(&KTHREAD.replace("Kthread:\t1\n", "")), Task::KernelThread));
        assert!(matches!(task(ZOMBIE), Task::Ended));
        assert!(matches!(task(&KTHREAD.replace("Kthread:\t1", "Kthread:\t0")), Task::Ended));
        assert!(matches!(read(&host([("proc/1/x", "")]), 42), Task::Ended));
    }

    #[test]
    fn a_process_that_we_may_not_read_is_still_a_process() {
        let host = HostRoot::memory([denied_entry("proc/42/status")]);
        let Task::Process(found, None) = read(&host, 42) else { panic!() };
        assert!(found.uid.is_denied() && found.swap.is_denied() && found.rss_anon.is_denied());
    }

    #[test]
    fn names_are_what_the_process_called_itself_made_printable() {
        let named = |name: &str| {
            process(&STATUS.replace("redis-server", name), CGROUP).name.as_str().to_owned()
        };
        assert_eq!(named(" a:b c "), " a:b c ");
        assert_eq!(named(r"two\nlines \\ back"), r"two\u{a}lines \ back");
        assert_eq!(named("\u{1b}[2J"), r"\u{1b}[2J");
        assert_eq!(named(""), "");
        let raw = [&b"Name:\t\xff\xfe\n"[..], STATUS.split_once('\n').unwrap().1.as_bytes()];
        let host = host([("proc/42/status", raw.concat())]);
        let Task::Process(found, _) = read(&host, 42) else { panic!() };
        assert_eq!(found.name.as_str(), r"\xff\xfe");
    }

    #[test]
    fn the_memory_tree_of_version_1_comes_before_the_unified_one() {
        let group = |text: &str| process(STATUS, text).cgroup;
        let place = |line| Source::line("/proc/42/cgroup", line);
        assert_eq!(group(CGROUP), Reading::found(Name::from("/a:b/c"), place(2)));
        assert_eq!(group("0::/x y\n"), Reading::found(Name::from("/x y"), place(1)));
        for none in ["1:cpu:/\n", ""] {
            let why = Outcome::Absent("in no memory cgroup".into());
            assert_eq!(group(none).outcome, why);
        }
    }

    #[test]
    fn garbled_lines_are_problems_and_the_rest_stands() {
        let text = STATUS
            .replace("     112 kB", "99999999999999999999999999999999 kB")
            .replace("105\t105\t105", "")
            .replace("THP_enabled:\t1", "THP_enabled:\tmaybe");
        let host = host([("proc/42/status", text)]);
        let Task::Process(found, _) = read(&host, 42) else { panic!() };
        assert_eq!(
            (found.rss_anon.get(), found.uid.get(), found.thp_allowed.get()),
            (None, None, None)
        );
        assert_eq!(found.swap, kib(8, 15));
        let lines: Vec<_> = host.take_problems().iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(5), Some(12), Some(16)]);
    }

    proptest! {
        #[test]
        fn no_status_and_no_cgroup_file_panics(
            status in mangle(STATUS),
            cgroup in mangle(CGROUP),
        ) {
            let host = host([("proc/42/status", status), ("proc/42/cgroup", cgroup)]);
            let _ = read(&host, 42);
        }
    }
}
