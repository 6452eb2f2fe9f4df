// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files that may block, within a time budget: the parent's side of the helper process.
//!
//! Reading smaps_rollup takes the memory lock (mmap lock) of the process. If the holder of that
//! lock waits for a disk or a network file system, the reader sleeps uninterruptibly. A forked
//! helper therefore does the reads (see [`crate::calls`]), and the parent waits for a limited time:
//! a file without an answer is [`FileAnswer::Stuck`], its helper is killed, and another helper
//! continues with the rest.
//!
//! A machine that is short of memory is also short of CPU time. A helper that is late because it
//! waits for a CPU is not stuck: its process state shows the difference.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::calls::{self, Child, HEAD, Job, NO_TIME, now};

/// The result of reading one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileAnswer {
    Read(Vec<u8>),
    /// The kernel refused to open or read the file.
    Refused(Errno),
    /// The time budget was used up before the file could be read.
    NotRead,
    /// The file gave no answer within its time limit.
    Stuck,
    /// The helper process ended while reading the file: killed by a signal or by the OOM killer.
    HelperEnded,
}

/// Maximum number of helper processes for one call. Each after the first is needed because a file
/// was stuck or a helper ended.
const MAX_HELPERS: usize = 8;
/// Bounds of the time limit for reading one file, which is four times the expected time.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// Lower bound of the time after which all helper processes are given up, for small time budgets.
const LEAST_GRACE: Duration = Duration::from_millis(100);

/// Reads the files in the given order, which should be the cheapest first. Answers have the same
/// order. Takes at most the budget; if something is stuck, at most twice the budget or 100 ms,
/// whichever is longer.
pub(super) fn read_all(jobs: &[Job], budget: Duration) -> Vec<FileAnswer> {
    let begun = now();
    let until = begun.saturating_add(budget);
    let end = begun.saturating_add(budget.saturating_mul(2).max(LEAST_GRACE));
    let mut answers = Vec::with_capacity(jobs.len());
    for _ in 0..MAX_HELPERS {
        let rest = jobs.get(answers.len()..).unwrap_or_default();
        if rest.is_empty() || now() >= until {
            break;
        }
        let Some(last) =
            Helper::start(rest, until).and_then(|helper| helper.collect(&mut answers, end))
        else {
            break;
        };
        answers.push(last);
    }
    answers.resize(jobs.len(), FileAnswer::NotRead);
    answers
}

struct Helper<'a> {
    jobs: &'a [Job],
    child: Child,
    /// The received part of an incomplete answer of the helper.
    pending: Vec<u8>,
}

impl<'a> Helper<'a> {
    /// Starts a helper process that reads these files; `None` if no process can be created.
    fn start(jobs: &'a [Job], until: Duration) -> Option<Self> {
        let child = calls::fork_reader(jobs, until).ok()?;
        Some(Self { jobs, child, pending: Vec::new() })
    }

    /// Receives answers until all have arrived (`None`). If the helper ends or is given up, returns
    /// the answer for the file that it was reading.
    fn collect(mut self, answers: &mut Vec<FileAnswer>, end: Duration) -> Option<FileAnswer> {
        let mut open = self.jobs;
        let mut heard = now();
        while !open.is_empty() {
            let give_up = heard.saturating_add(time_limit(open)).min(end);
            if wait_readable(&self.child.answers, give_up.saturating_sub(now())) {
                if !self.receive() {
                    return Some(FileAnswer::HelperEnded);
                }
                while let Some(answer) = self.next_answer() {
                    answers.push(answer);
                    open = open.get(1..).unwrap_or_default();
                }
                heard = now();
            } else if now() >= give_up {
                let is_late = now().saturating_sub(heard) >= time_limit(open);
                if is_late && !is_running(self.child.pid) {
                    return Some(FileAnswer::Stuck);
                }
                if now() >= end {
                    return Some(FileAnswer::NotRead);
                }
                heard = now();
            }
        }
        None
    }

    /// Receives a part of the helper's answers; returns `false` if the helper has ended.
    fn receive(&mut self) -> bool {
        let mut piece = [0; 1 << 14];
        match rustix::io::read(&self.child.answers, &mut piece) {
            Ok(0) => false,
            Ok(length) => {
                self.pending.extend_from_slice(&piece[..length]);
                true
            }
            Err(errno) => errno == Errno::INTR,
        }
    }

    fn next_answer(&mut self) -> Option<FileAnswer> {
        let (code, rest) = self.pending.split_first_chunk::<4>()?;
        let (length, body) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
        let answer = match u32::from_ne_bytes(*code) {
            calls::READ => FileAnswer::Read(body.get(..length)?.to_vec()),
            NO_TIME => FileAnswer::NotRead,
            code => FileAnswer::Refused(Errno::from_raw_os_error(i32::try_from(code).ok()?)),
        };
        self.pending.drain(..HEAD + length);
        Some(answer)
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        end(self.child.pid);
    }
}

/// The time limit for the first of these files.
fn time_limit(jobs: &[Job]) -> Duration {
    let cost = jobs.first().map_or(Duration::ZERO, |job| job.cost);
    cost.saturating_mul(4).clamp(LEAST_PATIENCE, MOST_PATIENCE)
}

/// Waits until data can be read or the other end is closed; `false` if `timeout` passes first.
fn wait_readable(pipe: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let mut waiting = [PollFd::new(pipe, PollFlags::IN)];
    rustix::event::poll(&mut waiting, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// Whether a process is running or waits for a CPU: then it is late, but not blocked.
fn is_running(pid: Pid) -> bool {
    state(pid) == Some(b'R')
}

/// The state letter of a process in `/proc/PID/stat`.
#[expect(clippy::disallowed_methods, reason = "a child of ours, which no recording has")]
fn state(pid: Pid) -> Option<u8> {
    let mut stat = [0; 128];
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let read = rustix::fs::open(path, flags, Mode::empty())
        .and_then(|file| rustix::io::read(file, &mut stat));
    let text = stat.get(..read.unwrap_or(0)).unwrap_or_default();
    let name_ends = text.iter().rposition(|&byte| byte == b')');
    name_ends.and_then(|at| text.get(at + 2)).copied()
}

/// Helper processes that were killed but are still in an uninterruptible sleep. They die when they
/// wake; until then waitpid would block, so they are only checked later.
static LEFT: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Kills a helper process, without waiting for one that sleeps uninterruptibly.
fn end(pid: Pid) {
    if is_gone(pid) {
        return;
    }
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    for _ in 0..20 {
        if is_gone(pid) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
}

/// Whether a helper process has ended; if so it is reaped.
fn is_gone(pid: Pid) -> bool {
    !matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))
}

/// Helper processes of earlier readings that are still alive.
pub(super) fn helpers_left_behind() -> Vec<u32> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|&pid| !is_gone(pid));
    left.iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use rustix::fs::{CWD, FileType};
    use rustix::process::test_kill_process;

    use super::*;
    use pagewise_hostfs::HostRoot;
    use pagewise_hostfs::ReadHost;

    const AMPLE: Duration = Duration::from_secs(60);

    /// Whether the condition becomes true within a minute.
    fn comes_true(holds: impl Fn() -> bool) -> bool {
        (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            holds()
        })
    }

    fn job(path: &Path) -> Job {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        Job { path, cost: Duration::from_micros(30) }
    }

    fn fifo(folder: &Path, name: &str) -> Job {
        let path = folder.join(name);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        job(&path)
    }

    /// Opening a FIFO without a writer blocks, like reading a file whose memory lock is held.
    #[test]
    fn what_blocks_is_stuck_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let readable = job(Path::new("/proc/self/smaps_rollup"));
        let jobs = [
            readable.clone(),
            fifo(folder.path(), "one"),
            readable.clone(),
            fifo(folder.path(), "two"),
            readable,
        ];
        let answers = read_all(&jobs, AMPLE);
        for (at, answer) in answers.iter().enumerate() {
            match answer {
                FileAnswer::Read(bytes) => assert!(at % 2 == 0 && bytes.ends_with(b"kB\n"), "{at}"),
                other => assert_eq!((at % 2, other), (1, &FileAnswer::Stuck)),
            }
        }
    }

    /// If a helper is killed, the file it was reading gets `HelperEnded`, another helper reads the
    /// rest, and nobody waits for the helper that is gone.
    #[test]
    fn a_helper_that_is_ended_costs_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let readable = job(Path::new("/proc/self/oom_score"));
        let jobs = [readable.clone(), fifo(folder.path(), "f"), readable.clone(), readable];
        let helper = Helper::start(&jobs, now() + AMPLE).unwrap();
        let pid = helper.child.pid;
        assert!(comes_true(|| state(pid) == Some(b'S')), "it does not sleep in open");
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        let mut answers = Vec::new();
        assert_eq!(helper.collect(&mut answers, now() + AMPLE), Some(FileAnswer::HelperEnded));
        assert!(matches!(answers[..], [FileAnswer::Read(_)]), "{answers:?}");
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH), "it was not waited for");
        let rest = read_all(&jobs[2..], AMPLE);
        assert!(matches!(rest[..], [FileAnswer::Read(_), FileAnswer::Read(_)]), "{rest:?}");
    }

    #[test]
    fn no_more_helpers_are_begun_than_may_be_stuck() {
        let folder = tempfile::tempdir().unwrap();
        let jobs: Vec<Job> = (0..30).map(|n| fifo(folder.path(), &n.to_string())).collect();
        let answers = read_all(&jobs, Duration::from_secs(60));
        assert_eq!(answers.len(), jobs.len());
        assert!(
            answers[..MAX_HELPERS].iter().all(|answer| *answer == FileAnswer::Stuck),
            "{answers:?}"
        );
        assert!(answers[MAX_HELPERS..].iter().all(|answer| *answer == FileAnswer::NotRead));
    }

    #[test]
    fn a_read_that_does_not_fit_is_not_begun_but_a_refusal_is_still_known() {
        let dear = Job { cost: 2 * AMPLE, ..job(Path::new("/proc/self/status")) };
        let missing = Job { cost: Duration::MAX, ..job(Path::new("/proc/self/none")) };
        let cheap = job(Path::new("/proc/self/oom_score"));
        let answers = read_all(&[dear, missing, cheap], AMPLE);
        assert_eq!(answers[..2], [FileAnswer::NotRead, FileAnswer::Refused(Errno::NOENT)]);
        assert!(matches!(answers[2], FileAnswer::Read(_)));
    }

    #[test]
    fn hundreds_of_answers_arrive_whole_and_in_order() {
        let paths = ["/proc/self/status", "/proc/sys/kernel/osrelease", "/proc/self/none"];
        let jobs: Vec<Job> = paths.iter().cycle().take(600).map(|p| job(Path::new(p))).collect();
        let answers = read_all(&jobs, AMPLE);
        let release = HostRoot::live().unwrap().bytes("proc/sys/kernel/osrelease").unwrap();
        for three in answers.chunks(3) {
            assert!(matches!(&three[0], FileAnswer::Read(bytes) if bytes.starts_with(b"Name:")));
            assert_eq!(three[1], FileAnswer::Read(release.clone()));
            assert_eq!(three[2], FileAnswer::Refused(Errno::NOENT));
        }
    }

    #[test]
    fn without_a_budget_or_files_nothing_is_begun() {
        assert!(read_all(&[], AMPLE).is_empty());
        let answers = read_all(&[job(Path::new("/proc/self/status"))], Duration::ZERO);
        assert_eq!(answers, [FileAnswer::NotRead]);
    }

    /// The child process never returns into this code, and no child is left.
    #[test]
    fn helpers_end() {
        let folder = tempfile::tempdir().unwrap();
        let child = calls::fork_reader(&[fifo(folder.path(), "f")], now() + AMPLE).unwrap();
        let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
        assert!(comes_true(|| state(child.pid) == Some(b'S')), "it does not sleep in open");
        assert_eq!(test_kill_process(child.pid), Ok(()));
        assert!(!is_running(child.pid), "sleeps in open");
        end(child.pid);
        // on a busy machine this may take longer than `end` waits
        assert!(comes_true(|| !helpers_left_behind().contains(&pid)), "still there");
        assert_eq!(test_kill_process(child.pid), Err(Errno::SRCH));
    }

    /// A blocked helper dies with its parent. For the kernel the parent is the thread that forked,
    /// so the test ends a thread instead of the process.
    #[test]
    fn helpers_die_with_who_forked_them() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = [job(Path::new("/proc/self/status")), fifo(folder.path(), "f")];
        let forked = std::thread::spawn(move || {
            let child = calls::fork_reader(&jobs, now() + AMPLE).unwrap();
            assert!(wait_readable(&child.answers, AMPLE), "it is up");
            child
        });
        let child = forked.join().unwrap();
        assert!(comes_true(|| is_gone(child.pid)), "still there");
    }
}
