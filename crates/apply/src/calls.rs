// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper: swapon, swapoff, and installing a handler for fatal
//! signals.
//!
//! The only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "system calls and signal handlers have no safe wrapper")]

use std::ffi::{CStr, CString};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// `SWAP_FLAG_PREFER`: tells swapon that the lower bits of the flags are a priority.
const PREFER: libc::c_int = 0x8000;

/// Enables a swap area; with `None` the kernel chooses its priority.
pub(crate) fn swap_on(area: &str, priority: Option<i16>) -> io::Result<()> {
    let area = CString::new(area)?;
    let flags = match priority {
        Some(priority) if priority >= 0 => PREFER | libc::c_int::from(priority),
        Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        None => 0,
    };
    // SAFETY: `area` is a string that ends in a zero byte and lives until the call returns; swapon
    // only reads it.
    to_result(unsafe { libc::swapon(area.as_ptr(), flags) })
}

/// Disables a swap area. The kernel first reads all its pages back into memory.
pub(crate) fn swap_off(area: &str) -> io::Result<()> {
    let area = CString::new(area)?;
    // SAFETY: as for swapon.
    to_result(unsafe { libc::swapoff(area.as_ptr()) })
}

/// Interval at which a running swapoff is checked.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// How a child process ended that called swapoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildEnd {
    /// The error number of swapoff; 0 if it succeeded.
    Exit(libc::c_int),
    /// A signal killed the child, so the area stays enabled.
    Signal(libc::c_int),
}

/// Disables a swap area in a child process, and kills this child as soon as `check` returns an
/// error: the area then stays enabled, and the error of `check` is returned as `Interrupted`. What
/// was read back before stays in memory.
///
/// Why a child: the kernel kills whoever calls swapoff first if memory runs out, whatever its
/// `oom_score_adj`. A thread of this process would take the whole process with it. The kernel
/// notices the signal only after the process (or shared memory object) whose pages it reads back
/// at that moment.
pub(crate) fn swap_off_while(
    area: &str,
    mut check: impl FnMut() -> Result<(), String>,
) -> io::Result<()> {
    let area = CString::new(area)?;
    let child = start_swap_off(&area)?;
    let mut stopped = None;
    loop {
        if let Some(end) = wait_for(child, libc::WNOHANG)? {
            return match (end, stopped) {
                (ChildEnd::Exit(0), _) => Ok(()),
                (_, Some(why)) => Err(io::Error::new(io::ErrorKind::Interrupted, why)),
                (ChildEnd::Exit(error), None) => Err(io::Error::from_raw_os_error(error)),
                (ChildEnd::Signal(libc::SIGKILL), None) => Err(io::Error::new(
                    io::ErrorKind::OutOfMemory,
                    "the kernel killed the process that reads the pages back",
                )),
                (ChildEnd::Signal(signal), None) => Err(io::Error::new(
                    io::ErrorKind::Interrupted,
                    format!("signal {signal} stopped the process that reads the pages back"),
                )),
            };
        }
        if stopped.is_none() {
            if let Err(why) = check() {
                stopped = Some(why);
                // SAFETY: kill takes two numbers. The child was not waited for, so no other
                // process has its id.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
        }
        std::thread::sleep(BETWEEN_CHECKS);
    }
}

/// Starts a child process that calls swapoff. The child ends with its parent, and asks the kernel
/// to kill it before any other process.
fn start_swap_off(area: &CStr) -> io::Result<libc::pid_t> {
    // SAFETY: getpid has no preconditions.
    let parent = unsafe { libc::getpid() };
    // SAFETY: between fork and _exit the child only makes system calls through async-signal-safe
    // functions, and uses strings that exist since before the fork: it does not allocate.
    unsafe {
        let child = libc::fork();
        if child != 0 {
            return if child > 0 { Ok(child) } else { Err(io::Error::last_os_error()) };
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(libc::EINTR);
        }
        let score = libc::open(OOM_SCORE.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if score >= 0 {
            // any process may raise its own value
            libc::write(score, WORST_SCORE.as_ptr().cast(), WORST_SCORE.count_bytes());
            libc::close(score);
        }
        // the process that watches memory must run before the child, and so must other programs
        libc::setpriority(libc::PRIO_PROCESS, 0, LOW_PRIORITY);
        let answer = libc::swapoff(area.as_ptr());
        libc::_exit(if answer == 0 { 0 } else { *libc::__errno_location() })
    }
}

/// A child process that writes the same request to a file several times.
#[derive(Debug)]
pub(crate) struct Reclaiming(libc::pid_t);

/// How a [`Reclaiming`] ended.
#[derive(Debug)]
pub(crate) enum SliceEnd {
    /// The file took all requests, or the kernel found no more to take, or the time was over.
    Done,
    /// It was killed, because a request blocked for too long.
    Late,
    /// It was killed for this reason, and has not ended yet.
    Stuck(Reclaiming),
    /// The error number of the first request that was refused.
    Error(libc::c_int),
}

/// Time between two requests, for other programs on the same CPU.
static BETWEEN_SLICES: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// How long a killed child may take to end, in polls of [`POLL`].
const POLLS: u32 = 200;
const POLL: Duration = Duration::from_millis(5);

impl Reclaiming {
    /// Starts a child that writes `request` `count` times, until `limit` has passed.
    pub(crate) fn start(
        file: &std::fs::File,
        request: &CStr,
        count: u32,
        limit: Duration,
    ) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let file = file.as_raw_fd();
        let end = now().saturating_add(limit);
        // SAFETY: getpid has no preconditions.
        let parent = unsafe { libc::getpid() };
        // SAFETY: between fork and _exit the child only makes system calls through async-signal-safe
        // functions, on a file and a string that exist since before the fork: it does not allocate.
        unsafe {
            let child = libc::fork();
            if child != 0 {
                return if child > 0 { Ok(Self(child)) } else { Err(io::Error::last_os_error()) };
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(libc::EINTR);
            }
            libc::setpriority(libc::PRIO_PROCESS, 0, LOW_PRIORITY);
            for _ in 0..count {
                if libc::write(file, request.as_ptr().cast(), request.count_bytes()) < 0 {
                    libc::_exit(*libc::__errno_location());
                }
                if now() >= end {
                    break;
                }
                libc::nanosleep(&raw const BETWEEN_SLICES, ptr::null_mut());
            }
            libc::_exit(0)
        }
    }

    /// Waits until it has ended; kills it if it still blocks some time after `limit`.
    pub(crate) fn wait(self, limit: Duration) -> io::Result<SliceEnd> {
        let end = now().saturating_add(limit).saturating_add(limit);
        loop {
            match wait_for(self.0, libc::WNOHANG)? {
                // less than was requested: the kernel found no more
                Some(ChildEnd::Exit(0 | libc::EAGAIN)) => return Ok(SliceEnd::Done),
                Some(ChildEnd::Exit(error)) => return Ok(SliceEnd::Error(error)),
                Some(ChildEnd::Signal(_)) => return Ok(SliceEnd::Late),
                None if now() >= end => break,
                None => std::thread::sleep(POLL),
            }
        }
        // SAFETY: kill takes two numbers. The child was not waited for, so no other process has its id.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        for _ in 0..POLLS {
            if self.has_ended() {
                return Ok(SliceEnd::Late);
            }
            std::thread::sleep(POLL);
        }
        Ok(SliceEnd::Stuck(self))
    }

    /// Whether it has ended; then it must not be used any more.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(wait_for(self.0, libc::WNOHANG), Ok(None))
    }
}

/// Time since boot; async-signal-safe.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a variable of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The nice value of the child.
const LOW_PRIORITY: libc::c_int = 10;
const OOM_SCORE: &CStr = c"/proc/self/oom_score_adj";
const WORST_SCORE: &CStr = c"1000";

/// Waits for a child; `None` if it still runs.
fn wait_for(child: libc::pid_t, flags: libc::c_int) -> io::Result<Option<ChildEnd>> {
    let mut status = 0;
    // SAFETY: `status` is a variable of this frame.
    match unsafe { libc::waitpid(child, &raw mut status, flags) } {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
        _ if libc::WIFSIGNALED(status) => Ok(Some(ChildEnd::Signal(libc::WTERMSIG(status)))),
        _ => Ok(Some(ChildEnd::Exit(libc::WEXITSTATUS(status)))),
    }
}

fn to_result(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Signals that terminate a program that is broken or exceeds a limit. abort() raises the first.
const FATAL: [libc::c_int; 9] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// The command that the signal handler starts. Prepared in advance, because a signal handler must
/// not allocate.
#[derive(Debug)]
struct HandlerCommand {
    /// Id of this process, for whose end the command waits. A forked child inherits the handler
    /// but must not start it.
    pid: libc::pid_t,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

static START: AtomicPtr<HandlerCommand> = AtomicPtr::new(ptr::null_mut());

/// The executable of this program, even if its file was replaced or removed since the start.
const OURSELVES: &CStr = c"/proc/self/exe";

/// After this, a fatal signal starts this program again with these arguments and this environment,
/// once this process is gone. The prepared command is never freed, because a handler may be reading
/// it.
///
/// # Errors
/// If a string contains a zero byte, or the kernel refuses a handler.
pub(crate) fn set_command_after_crash(
    arguments: Vec<CString>,
    environment: Vec<CString>,
) -> io::Result<()> {
    let leaked = |texts: Vec<CString>| {
        let pointers = texts.into_iter().map(|text| text.into_raw().cast_const());
        pointers.chain([ptr::null()]).collect::<Vec<_>>()
    };
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() };
    let start =
        HandlerCommand { pid, arguments: leaked(arguments), environment: leaked(environment) };
    START.store(Box::into_raw(Box::new(start)), Ordering::SeqCst);
    FATAL.into_iter().try_for_each(install_handler)
}

/// Makes sure that a fatal signal terminates the process without starting the prepared command.
pub(crate) fn cancel_command_after_crash() {
    START.store(ptr::null_mut(), Ordering::SeqCst);
}

/// Whether a fatal signal would start the prepared command.
pub(crate) fn has_command_after_crash() -> bool {
    !START.load(Ordering::SeqCst).is_null()
}

fn install_handler(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: sigaction is a C struct for which all zeros is a valid value: no flags, an empty mask.
    // `handle_fatal_signal` has the type of a handler without SA_SIGINFO and makes only async-signal-safe calls. If
    // the thread has an alternate stack, the handler runs on it and works even after a stack overflow.
    to_result(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            handle_fatal_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    })
}

/// The signal handler of [`FATAL`] signals: forks a child that starts the prepared command, then
/// lets the signal terminate this process.
extern "C" fn handle_fatal_signal(signal: libc::c_int) {
    let start = START.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: `start` is null or was made by `set_command_after_crash` and is never freed. getpid, signal and raise
    // are async-signal-safe. fork of the C library may wait for a lock of the allocator, which the crashed thread
    // may hold, so the system call is used: with these flags and no stack, clone is fork, and the child makes only
    // system calls.
    unsafe {
        if let Some(start) = start.as_ref() {
            let parent = libc::getpid();
            let (flags, none) = (libc::c_long::from(libc::SIGCHLD), 0 as libc::c_long);
            if start.pid == parent
                && libc::syscall(libc::SYS_clone, flags, none, none, none, none) == 0
            {
                start_after_parent_exit(start, parent);
            }
        }
        // the signal is delivered when this handler returns
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Number of polls of 5 ms: the longest wait for the crashed process, which may write a core dump
/// first.
const LOOKS: u32 = 12_000;
static BETWEEN: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Waits in the forked child until the crashed process is gone, then executes the prepared command.
///
/// # Safety
/// Only after a fork: it closes all files.
unsafe fn start_after_parent_exit(start: &HandlerCommand, parent: libc::pid_t) -> ! {
    // SAFETY: all of these are system calls whose only precondition is valid pointers: those in
    // `start` point to zero-terminated strings and lists, the others to values on this stack.
    unsafe {
        // a session of its own, so that Ctrl-C at the terminal does not stop the child
        libc::setsid();
        // closes the lock of the session, and pipes whose reader may wait for their end; standard
        // output is reserved for the program's result
        libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
        let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) =
            (3, libc::c_uint::MAX, 0);
        if libc::syscall(libc::SYS_close_range, first, last, flags) != 0 {
            (3..4096).for_each(|file| {
                libc::close(file);
            });
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        for _ in 0..LOOKS {
            if libc::getppid() != parent {
                break;
            }
            libc::nanosleep(&raw const BETWEEN, ptr::null_mut());
        }
        libc::execve(OURSELVES.as_ptr(), start.arguments.as_ptr(), start.environment.as_ptr());
        libc::_exit(127)
    }
}
