// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: one process is forked, to read files that may block; the
//! processor's time stamp counter is read, by which guests count instructions; and our own account of
//! processor time and page faults is.
//!
//! The child shares nothing with us but a pipe. Other threads may exist when it is forked (a
//! progress display), and one of them may have held the allocator's lock: so the child allocates
//! nothing, takes no lock, cannot panic and never returns. It works on what was laid out before the
//! fork and on its own stack, by system calls alone.
//!
//! This is the only module of the crate with `unsafe`.

#![expect(
    unsafe_code,
    reason = "fork, the signal mask, _exit, rdtsc and getrusage have no safe wrapper"
)]

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};
use rustix::time::ClockId;

/// One file that the child is to read.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The file.
    pub(crate) path: CString,
    /// What reading it will take, as far as can be told before.
    pub(crate) cost: Duration,
}

/// A running child and the end of the pipe where its answers arrive, in order of the jobs.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) answers: OwnedFd,
}

/// The longest answer. A pipe takes this much in one piece or not at all.
const FRAME: usize = 4096;
/// What stands before the bytes of an answer: a code and their number, four bytes each.
pub(crate) const HEAD: usize = 8;
/// Codes; all others are the error that the kernel gave.
pub(crate) const READ: u32 = 0;
pub(crate) const NO_TIME: u32 = u32::MAX;

/// The time on the clock by which children are given their time.
pub(crate) fn now() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// The processor's time stamp counter: under an emulator that counts instructions, their number.
/// Other architectures have counters too, of which nobody has shown that they count so.
#[must_use]
pub fn ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has the instruction; it only reads a counter. A kernel may
    // forbid it to programs (PR_TSC_SIGSEGV), which nobody does unasked.
    let ticks = Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    let ticks = None;
    ticks
}

/// Processor time and page faults that the kernel has counted for us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnUsage {
    /// Processor time, in the kernel and outside.
    pub cpu: Duration,
    /// Faults for which something had to be read.
    pub major_faults: u64,
    /// All other faults.
    pub minor_faults: u64,
}

impl OwnUsage {
    /// Of this process.
    #[must_use]
    pub fn of_ourselves() -> Self {
        Self::read(libc::RUSAGE_SELF)
    }

    /// Of all processes that were children of ours, or of theirs, and were waited for.
    #[must_use]
    pub fn of_ended_children() -> Self {
        Self::read(libc::RUSAGE_CHILDREN)
    }

    fn read(whose: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is ours and as large as the call expects; zeros are a valid rusage, so it may
        // be read even if the call failed, which it cannot with the two arguments that it is given here.
        let usage = unsafe {
            libc::getrusage(whose, usage.as_mut_ptr());
            usage.assume_init()
        };
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        let time = |time: libc::timeval| {
            Duration::from_secs(number(time.tv_sec)) + Duration::from_micros(number(time.tv_usec))
        };
        Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            major_faults: number(usage.ru_majflt),
            minor_faults: number(usage.ru_minflt),
        }
    }
}

/// Forks a child that reads each file which it can finish before `until`, and ends. It is killed
/// when the thread that called this ends: to the kernel that is its parent.
///
/// A file that does not fit any more is still opened: whether we may read it costs nothing to know.
///
/// # Errors
/// Where there can be no pipe or no process.
pub(crate) fn fork_reader(jobs: &[Job], until: Duration) -> std::io::Result<Child> {
    let (answers, to_parent) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let parent = rustix::process::getpid();
    let before = block_signals();
    // SAFETY: fork has no preconditions of its own. In the child of a process with threads only
    // async-signal-safe functions may be called: `serve` keeps to system calls on what exists
    // already (see the module's head) and does not return, so no destructor and no code of ours
    // runs after it.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        serve(jobs, until, parent, answers, &to_parent);
    }
    let failure = std::io::Error::last_os_error();
    restore_signals(&before);
    let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
    pid.map(|pid| Child { pid, answers }).ok_or(failure)
}

/// The child's life.
fn serve(jobs: &[Job], until: Duration, parent: Pid, answers: OwnedFd, out: &OwnedFd) -> ! {
    // A child that outlived us would hold on to memory and to the processes it reads. Where we
    // died before this call, our place is taken by another parent.
    let dies_with_us = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    if dies_with_us && rustix::process::getppid() == Some(parent) {
        drop(answers);
        answer_all(jobs, until, out);
    }
    // SAFETY: _exit has no preconditions; it runs no handler of the parent's.
    unsafe { libc::_exit(0) }
}

fn answer_all(jobs: &[Job], until: Duration, out: &OwnedFd) {
    let mut frame = [0u8; FRAME];
    for job in jobs {
        let (head, body) = frame.split_at_mut(HEAD);
        let (code, length) = match answer(job, until, body) {
            Ok(Some(length)) => (READ, length),
            Ok(None) => (NO_TIME, 0),
            Err(errno) => (errno.raw_os_error().unsigned_abs(), 0),
        };
        let counted = u32::try_from(length).unwrap_or(0);
        for (to, from) in
            head.iter_mut().zip(code.to_ne_bytes().iter().chain(&counted.to_ne_bytes()))
        {
            *to = *from;
        }
        // up to PIPE_BUF is written as a whole; an error means that nobody listens any more
        if rustix::io::write(out, frame.get(..HEAD + length).unwrap_or_default()).is_err() {
            return;
        }
    }
}

/// How many bytes were read into `body`; `None` where the time that is left does not suffice.
#[expect(clippy::disallowed_methods, reason = "the child reads what may block")]
fn answer(job: &Job, until: Duration, body: &mut [u8]) -> Result<Option<usize>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(rustix::fs::CWD, job.path.as_c_str(), flags, Mode::empty())?;
    if now().saturating_add(job.cost) > until {
        return Ok(None);
    }
    let mut filled = 0;
    while let Some(rest) = body.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest)? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(Some(filled))
}

/// Keeps every signal from arriving until [`restore_signals`], and answers what was kept before.
///
/// The child inherits this for good: a handler of ours would else run in it, and tell our own
/// threads of a Ctrl-C for the second time through a pipe that both share. It can be killed all
/// the same.
fn block_signals() -> MaybeUninit<libc::sigset_t> {
    let mut every = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both point to a signal set of ours. sigfillset initialises the one that
    // pthread_sigmask reads; pthread_sigmask writes the other.
    unsafe {
        libc::sigfillset(every.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, every.as_ptr(), before.as_mut_ptr());
    }
    before
}

fn restore_signals(before: &MaybeUninit<libc::sigset_t>) {
    // SAFETY: `before` was written by block_signals, whose pthread_sigmask cannot fail: its only
    // error is an unknown first argument. No old set is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
}
