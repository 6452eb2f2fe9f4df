// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles Ctrl-C and similar signals: they end a wait, or set a flag if something has to be
//! restored first.
//!
//! If nothing has to be restored, the signals end the program as usual.

use std::fmt;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewise_model::Advice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Signals that ask a program to end: Ctrl-C, `kill`, a closed terminal, Ctrl-\.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The error of a verb that the user stopped before it measured or wrote anything.
#[derive(Debug)]
pub struct Interrupted {
    /// How long the verb had waited.
    pub after: Duration,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        write!(f, "stopped by Ctrl-C after {seconds:.1} s")
    }
}

impl std::error::Error for Interrupted {}

impl Advice for Interrupted {
    fn state(&self) -> Option<String> {
        Some("nothing was measured or written".to_owned())
    }

    fn next(&self) -> Option<String> {
        None
    }
}

/// A flag that is set by the first signal that asks the program to end, such as that of Ctrl-C; a
/// second signal ends the program as usual.
#[derive(Debug, Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Installs the handlers; from now on the first signal only sets the flag. An error if that is
    /// not possible.
    pub fn listen() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in ENDING {
            signal_hook::flag::register_conditional_default(signal, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(Self(stop))
    }

    /// As [`Stop::listen`], but SIGHUP does not end the program: it sets the second flag, which asks
    /// for the configuration to be read again. Each of these signals ends a wait of the third. An error if
    /// that is not possible.
    pub fn listen_with_reload() -> anyhow::Result<(Self, Arc<AtomicBool>, SignalWait)> {
        let (stop, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        for signal in ENDING.into_iter().filter(|signal| *signal != SIGHUP) {
            signal_hook::flag::register_conditional_default(signal, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, reload.clone())?;
        // after the flags, because the handlers of a signal run in this order
        for signal in ENDING {
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok((Self(stop), reload, SignalWait(woken)))
    }

    /// A flag that is never set, for work that must be completed.
    pub fn never() -> Self {
        Self(Arc::default())
    }

    /// While `work` runs, the first signal ends the program, because nothing has to be restored.
    pub fn ends_program_during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.store(true, Ordering::SeqCst);
        let answer = work();
        self.0.store(false, Ordering::SeqCst);
        answer
    }

    /// Whether a signal has asked the program to end.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag, for threads that outlive the caller.
    pub fn shared(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// The flag, for code that checks it between two steps.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// A wait that ends early when a signal of [`Stop::listen_with_reload`] arrives, or has arrived since the
/// last wait.
#[derive(Debug)]
pub struct SignalWait(UnixStream);

impl SignalWait {
    /// Waits for `time` at most.
    ///
    /// # Errors
    /// If the kernel cannot wait for the signal.
    pub fn wait(&self, time: Duration) -> anyhow::Result<()> {
        if poll_until(&self.0, Instant::now() + time)? {
            let mut bytes = [0; 64];
            while (&self.0).read(&mut bytes).is_ok_and(|number| number == bytes.len()) {}
        }
        Ok(())
    }
}

/// From now on Ctrl-C does not end this process: a program that it started has the terminal.
///
/// # Errors
/// If the handler cannot be installed.
pub fn leave_to_child() -> std::io::Result<()> {
    signal_hook::flag::register(SIGINT, Arc::default())?;
    Ok(())
}

/// Waits for `time`; the error is [`Interrupted`] if Ctrl-C ended the wait.
pub fn wait(time: Duration) -> anyhow::Result<()> {
    let started = Instant::now();
    let (woken, waker) = UnixStream::pair()?;
    let usual = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_default(SIGINT, usual.clone())?;
    signal_hook::low_level::pipe::register(SIGINT, waker)?;
    let stopped = poll_until(&woken, started + time)?;
    usual.store(true, Ordering::SeqCst);
    if stopped {
        anyhow::bail!(Interrupted { after: started.elapsed() });
    }
    Ok(())
}

/// Waits until data arrives through `woken`; false if the deadline passes first.
fn poll_until(woken: &UnixStream, deadline: Instant) -> anyhow::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left)?;
        match poll(&mut [PollFd::new(woken, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_a_wait_once_and_sets_its_flag() {
        let (stop, reload, wait) = Stop::listen_with_reload().unwrap();
        wait.wait(Duration::from_millis(1)).unwrap();
        assert!(!stop.is_asked() && !reload.load(Ordering::SeqCst));
        // also a signal that arrived before the wait
        signal_hook::low_level::raise(SIGHUP).unwrap();
        wait.wait(Duration::from_secs(3600)).unwrap();
        assert!(reload.swap(false, Ordering::SeqCst) && !stop.is_asked());
        let began = Instant::now();
        wait.wait(Duration::from_millis(30)).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(30), "the signal was counted twice");
        signal_hook::low_level::raise(SIGTERM).unwrap();
        wait.wait(Duration::from_secs(3600)).unwrap();
        assert!(stop.is_asked());
    }
}
