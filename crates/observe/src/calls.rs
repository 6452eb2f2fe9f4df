// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls and instructions without a safe wrapper: forking a child that reads files which may
//! block, reading the time stamp counter of the CPU (guests under an emulator count instructions
//! with it), and reading the CPU time and page faults of this process.
//!
//! The child shares only a pipe with its parent. The parent may have other threads when it forks (a
//! progress display), and one of them may hold the allocator's lock at that moment. The child
//! therefore allocates nothing, takes no lock, cannot panic and never returns: it uses only memory
//! that was prepared before the fork, its own stack, and system calls.
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

/// One file that the child process is to read.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) path: CString,
    /// The expected time to read the file, estimated before the read.
    pub(crate) cost: Duration,
}

/// A running child and the read end of the pipe on which its answers arrive, in the order of the
/// jobs.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) answers: OwnedFd,
}

/// The largest answer in bytes: `PIPE_BUF`, because only writes up to that size to a pipe are
/// atomic.
const FRAME: usize = 4096;
/// The header of an answer: a code and the number of bytes that follow, four bytes each.
pub(crate) const HEAD: usize = 8;
/// Codes in the header of an answer. Any other code is the errno of the failed call.
pub(crate) const READ: u32 = 0;
pub(crate) const NO_TIME: u32 = u32::MAX;

/// The current time of `CLOCK_MONOTONIC`, the clock of all deadlines of children.
pub(crate) fn now() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// The time stamp counter of the CPU. Under an emulator that counts instructions (QEMU `-icount`)
/// it follows the number of instructions. `None` on other architectures: whether their counters
/// follow instructions too has not been verified.
#[must_use]
pub fn ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has the instruction; it only reads a counter. A process can be
    // barred from it (PR_TSC_SIGSEGV), but only if somebody asked for that with prctl.
    let ticks = Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    let ticks = None;
    ticks
}

/// CPU time and page faults of this process or of its children, as the kernel counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnUsage {
    /// CPU time of the process, user and system.
    pub cpu: Duration,
    /// Number of major faults: those that had to read from a device.
    pub major_faults: u64,
    /// Number of minor faults: those served without I/O.
    pub minor_faults: u64,
}

impl OwnUsage {
    /// Resource usage of this process.
    #[must_use]
    pub fn of_ourselves() -> Self {
        Self::read(libc::RUSAGE_SELF)
    }

    /// Usage of all child processes, and of their children, that have ended and were waited for.
    #[must_use]
    pub fn of_ended_children() -> Self {
        Self::read(libc::RUSAGE_CHILDREN)
    }

    fn read(whose: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is ours and has the size that the call expects. All zeros are a valid
        // rusage, so it may be read even if the call failed; it cannot fail with the two arguments
        // used here.
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

/// Maps the first `length` bytes of a file, shared, until this process ends.
#[cfg(test)]
pub(crate) fn map_shared(file: &OwnedFd, length: usize) -> *mut libc::c_void {
    use std::os::fd::AsRawFd as _;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (at, file) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: without MAP_FIXED the kernel chooses unused addresses, so no existing mapping is
    // replaced; nobody gets a reference into the new one.
    unsafe { libc::mmap(at, length, protection, libc::MAP_SHARED, file, 0) }
}

/// Forks a child that reads the files it can finish before `until`, and then exits. The kernel
/// kills the child if the thread that called this function ends, because that thread is its parent.
///
/// A file for which no time is left is still opened, which shows cheaply whether it may be read.
///
/// # Errors
/// If no pipe or no process can be created.
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

/// The main function of the child process that reads files.
fn serve(jobs: &[Job], until: Duration, parent: Pid, answers: OwnedFd, out: &OwnedFd) -> ! {
    // A child that outlives its parent would keep memory and the files of other processes open. If
    // the parent died before this call, the child has another parent by now, which is checked here.
    let dies_with_us = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    if dies_with_us && rustix::process::getppid() == Some(parent) {
        drop(answers);
        answer_all(jobs, until, out);
    }
    // SAFETY: _exit has no preconditions; it runs no exit handler of the parent.
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
        // writes up to PIPE_BUF are atomic; an error means that nobody reads the pipe any more
        if rustix::io::write(out, frame.get(..HEAD + length).unwrap_or_default()).is_err() {
            return;
        }
    }
}

/// Reads one file into `body` and returns the number of bytes; `None` if the time left is less than
/// the expected cost.
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

/// Blocks every signal until [`restore_signals`] and returns the mask that was set before.
///
/// The child keeps all signals blocked. Otherwise it would run the signal handler of the parent,
/// and report a Ctrl-C to the parent's threads a second time through the pipe that both share.
/// SIGKILL cannot be blocked, so the child can still be killed.
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
