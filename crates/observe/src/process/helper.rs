// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files that may block, within a time budget: the parent's side of the helper process.
//!
//! smaps_rollup takes the memory lock of the process it tells about. Whoever holds that lock may be
//! waiting for a disk or a network file system: then the read sleeps, and nothing can be done about
//! it from inside. So a forked helper reads (see [`crate::calls`]) and we wait no longer than makes
//! sense: what has not answered is [`FileAnswer::Stuck`], its helper is killed, another one goes on with
//! the rest.
//!
//! A machine that is short of memory is also short of processor time. A helper that is late
//! because it waits for a processor is not stuck: its state tells the two apart.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::calls::{self, Child, HEAD, Job, NO_TIME, now};

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileAnswer {
    /// Its bytes.
    Read(Vec<u8>),
    /// The kernel said no.
    Refused(Errno),
    /// It did not fit into the budget.
    NotRead,
    /// It had not answered when it should long have.
    Stuck,
    /// The helper that was reading it was ended: by somebody's signal, or for want of memory.
    HelperEnded,
}

/// Helpers that are begun in one go: each but the first stands for a file that is stuck, or at which
/// a helper was ended.
const MAX_HELPERS: usize = 8;
/// How long one file may take, however small or large it is; between them four times its cost.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// How long all of them may take at least, however small the budget.
const LEAST_GRACE: Duration = Duration::from_millis(100);

/// Reads the files in the given order, which should be the cheapest first. Answers are in the same
/// order. Takes the budget, and at most twice that or 100 ms when something is stuck.
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
    /// What has arrived and is not a whole answer yet.
    pending: Vec<u8>,
}

impl<'a> Helper<'a> {
    /// `None` where the system has no process left for us.
    fn start(jobs: &'a [Job], until: Duration) -> Option<Self> {
        let child = calls::fork_reader(jobs, until).ok()?;
        Some(Self { jobs, child, pending: Vec::new() })
    }

    /// Takes answers until all are there (`None`), or until the helper ends or is given up at a file:
    /// what to say of that file.
    fn collect(mut self, answers: &mut Vec<FileAnswer>, end: Duration) -> Option<FileAnswer> {
        let mut open = self.jobs;
        let mut heard = now();
        while !open.is_empty() {
            let give_up = heard.saturating_add(patience(open)).min(end);
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
                let is_late = now().saturating_sub(heard) >= patience(open);
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

    /// `false` when the helper has ended.
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

/// How long to wait for the answer to the first of these.
fn patience(jobs: &[Job]) -> Duration {
    let cost = jobs.first().map_or(Duration::ZERO, |job| job.cost);
    cost.saturating_mul(4).clamp(LEAST_PATIENCE, MOST_PATIENCE)
}

/// Whether there is something to read, or the other end is closed, before `timeout` has passed.
fn wait_readable(pipe: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let mut waiting = [PollFd::new(pipe, PollFlags::IN)];
    rustix::event::poll(&mut waiting, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// Whether a process has, or waits for, a processor: it is late, but nothing holds it up.
fn is_running(pid: Pid) -> bool {
    state(pid) == Some(b'R')
}

/// The letter of its state.
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

/// Helpers that were killed and had not died: they sleep where no signal reaches them, and die when
/// they wake. They cannot be waited for, only looked after later.
static LEFT: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Ends a helper, without waiting for one that cannot be woken.
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

/// Whether a helper has ended; if so its remains are taken away.
fn is_gone(pid: Pid) -> bool {
    !matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))
}

/// Helpers of earlier readings that still have not died.
pub(super) fn left_behind() -> Vec<u32> {
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

    /// Whether something becomes true within a minute.
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

    /// A FIFO without a writer blocks whoever opens it, as a held memory lock blocks whoever reads.
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

    /// The file that it was reading is told of, another helper goes on with the rest, and nobody waits
    /// for one that is gone.
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

    /// The child never comes back here, and none is left.
    #[test]
    fn helpers_end() {
        let folder = tempfile::tempdir().unwrap();
        let child = calls::fork_reader(&[fifo(folder.path(), "f")], now() + AMPLE).unwrap();
        let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
        assert!(comes_true(|| state(child.pid) == Some(b'S')), "it does not sleep in open");
        assert_eq!(test_kill_process(child.pid), Ok(()));
        assert!(!is_running(child.pid), "sleeps in open");
        end(child.pid);
        // a busy machine may need longer than `end` waits
        assert!(comes_true(|| !left_behind().contains(&pid)), "still there");
        assert_eq!(test_kill_process(child.pid), Err(Errno::SRCH));
    }

    /// A helper is not left alone with what blocks it when we are killed. The kernel goes by the
    /// thread that forked it, so a thread that ends stands for us here.
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
