// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: swapon, swapoff, and the handler of signals that say that this program is
//! broken.
//!
//! The only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "system calls and signal handlers have no safe wrapper")]

use std::ffi::{CStr, CString};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::time::Duration;

/// `SWAP_FLAG_PREFER`: the lower bits are a priority.
const PREFER: libc::c_int = 0x8000;

/// Switches a swap area on.
pub(crate) fn swap_on(area: &str, priority: Option<i16>) -> io::Result<()> {
    let area = CString::new(area)?;
    let flags = match priority {
        Some(priority) if priority >= 0 => PREFER | libc::c_int::from(priority),
        Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        None => 0,
    };
    // SAFETY: `area` is a string that ends in a zero and lives until the call is over; swapon only
    // reads it.
    answered(unsafe { libc::swapon(area.as_ptr(), flags) })
}

/// Switches a swap area off: all that is in it comes back into memory first.
pub(crate) fn swap_off(area: &str) -> io::Result<()> {
    let area = CString::new(area)?;
    // SAFETY: as for swapon.
    answered(unsafe { libc::swapoff(area.as_ptr()) })
}

/// Switches a swap area off for as long as `goes_on` says so; then the area stays on, and this answers
/// `Interrupted`. The kernel ends swapoff at any signal that has a handler.
pub(crate) fn swap_off_while(area: &str, mut goes_on: impl FnMut() -> bool) -> io::Result<()> {
    const BETWEEN: Duration = Duration::from_millis(20);
    let area = CString::new(area)?;
    handle_by_nothing(libc::SIGURG)?;
    let thread_id = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // SAFETY: gettid has no preconditions.
            thread_id.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            // SAFETY: as for swapon.
            answered(unsafe { libc::swapoff(area.as_ptr()) })
        });
        while !worker.is_finished() {
            let thread = thread_id.load(Ordering::SeqCst);
            // again and again: a signal that comes before the call does not end it
            if thread != 0 && !goes_on() {
                // SAFETY: tgkill takes three numbers. The thread is one of this process and has not been
                // joined; a signal to a thread that has just ended fails and does nothing.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGURG) };
            }
            std::thread::sleep(BETWEEN);
        }
        worker.join().unwrap_or_else(|_| Err(io::Error::other("the thread of swapoff panicked")))
    })
}

/// From now on this signal interrupts system calls and does nothing else.
fn handle_by_nothing(signal: libc::c_int) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: as for `handle`; the handler does nothing.
    answered(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    })
}

fn answered(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Signals that end a program which is broken or over a limit of the kernel. abort() raises the first.
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

/// What is started when one of them comes: laid out before, as a handler may not allocate.
#[derive(Debug)]
struct HandlerCommand {
    /// Whose end is waited for. A child that was forked has the handler too and starts nothing.
    pid: libc::pid_t,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

static START: AtomicPtr<HandlerCommand> = AtomicPtr::new(ptr::null_mut());

/// This program's own file, also where it was replaced or removed since.
const OURSELVES: &CStr = c"/proc/self/exe";

/// From now on a fatal signal starts this program anew with these arguments and this environment, once
/// this process is gone. What is laid out for that is never freed: a handler may be reading it.
///
/// # Errors
/// Where a text holds a zero byte, or the kernel refuses a handler.
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

/// A fatal signal ends the process as usual again.
pub(crate) fn start_nothing() {
    START.store(ptr::null_mut(), Ordering::SeqCst);
}

/// Whether a fatal signal would start something.
pub(crate) fn starts_after_crash() -> bool {
    !START.load(Ordering::SeqCst).is_null()
}

fn handle(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: sigaction is a C struct of which all zeros is a value: no flags, an empty mask. `crashed`
    // has the type that a handler without SA_SIGINFO has and keeps to async-signal-safe calls. On the
    // alternate stack, where the thread has one, it also runs when the stack is used up.
    answered(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = crashed as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    })
}

/// Forks who starts what was laid out, then ends this process as the signal would have.
extern "C" fn crashed(signal: libc::c_int) {
    let start = START.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: `start` is null or was made by `start_after_crash` and is never freed. getpid, signal and
    // raise are async-signal-safe. fork of the C library may wait for a lock of the allocator, which the
    // thread that crashed may hold, so the system call is used: with these flags and no stack clone is
    // fork, and the child keeps to system calls.
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
        // it comes when this handler returns
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The longest wait for the process that crashed: it may write a core first.
const LOOKS: u32 = 12_000;
static BETWEEN: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// The child's life.
///
/// # Safety
/// Only after a fork: it closes all files.
unsafe fn start_once_gone(start: &HandlerCommand, parent: libc::pid_t) -> ! {
    // SAFETY: all of these are system calls without a precondition but that pointers are good: those of
    // `start` are to texts and lists that end in zero, the others to values on this stack.
    unsafe {
        // a Ctrl-C at the terminal shall not stop it
        libc::setsid();
        // the lock of the session and ends of pipes, of which somebody may wait for the end; standard
        // output belongs to the answer
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
