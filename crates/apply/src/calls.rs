// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls without a safe wrapper: swapon, swapoff, and installing a handler for fatal
//! signals.
//!
//! The only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "system calls and signal handlers have no safe wrapper")]

use std::ffi::{CStr, CString};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
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

/// Disables a swap area, but gives up as soon as `goes_on` returns false: the area then stays
/// enabled and this returns `Interrupted`. The kernel aborts swapoff at any signal that has a
/// handler.
pub(crate) fn swap_off_while(area: &str, mut goes_on: impl FnMut() -> bool) -> io::Result<()> {
    const BETWEEN: Duration = Duration::from_millis(20);
    let area = CString::new(area)?;
    ignore(libc::SIGURG)?;
    let thread_id = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // SAFETY: gettid has no preconditions.
            thread_id.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            // SAFETY: as for swapon.
            to_result(unsafe { libc::swapoff(area.as_ptr()) })
        });
        while !worker.is_finished() {
            let thread = thread_id.load(Ordering::SeqCst);
            // repeatedly: a signal that arrives before the call does not interrupt it
            if thread != 0 && !goes_on() {
                // SAFETY: tgkill takes three numbers. The thread belongs to this process and has
                // not been joined; a signal to a thread that has just ended fails without effect.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGURG) };
            }
            std::thread::sleep(BETWEEN);
        }
        worker.join().unwrap_or_else(|_| Err(io::Error::other("the thread of swapoff panicked")))
    })
}

/// Installs a handler that does nothing: from now on this signal only interrupts system calls.
fn ignore(signal: libc::c_int) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: as for `handle`; the handler is empty.
    to_result(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    })
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
pub(crate) fn start_after_crash(
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
    FATAL.into_iter().try_for_each(handle)
}

/// Makes sure that a fatal signal terminates the process without starting the prepared command.
pub(crate) fn cancel_start() {
    START.store(ptr::null_mut(), Ordering::SeqCst);
}

/// Whether a fatal signal would start the prepared command.
pub(crate) fn starts_after_crash() -> bool {
    !START.load(Ordering::SeqCst).is_null()
}

fn handle(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: sigaction is a C struct for which all zeros is a valid value: no flags, an empty
    // mask. `crashed` has the type of a handler without SA_SIGINFO and makes only async-signal-safe
    // calls. If the thread has an alternate stack, the handler runs on it and works even after a
    // stack overflow.
    to_result(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = crashed as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    })
}

/// The signal handler of [`FATAL`] signals: forks a child that starts the prepared command, then
/// lets the signal terminate this process.
extern "C" fn crashed(signal: libc::c_int) {
    let start = START.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: `start` is null or was made by `start_after_crash` and is never freed. getpid, signal
    // and raise are async-signal-safe. fork of the C library may wait for a lock of the allocator,
    // which the crashed thread may hold, so the system call is used: with these flags and no stack,
    // clone is fork, and the child makes only system calls.
    unsafe {
        if let Some(start) = start.as_ref() {
            let parent = libc::getpid();
            let (flags, none) = (libc::c_long::from(libc::SIGCHLD), 0 as libc::c_long);
            if start.pid == parent
                && libc::syscall(libc::SYS_clone, flags, none, none, none, none) == 0
            {
                start_once_gone(start, parent);
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

/// What the forked child does.
///
/// # Safety
/// Only after a fork: it closes all files.
unsafe fn start_once_gone(start: &HandlerCommand, parent: libc::pid_t) -> ! {
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
