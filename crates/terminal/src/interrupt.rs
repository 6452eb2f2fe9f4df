// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and its kin → the end of a wait, or a flag for what has to be put in order first.
//!
//! Outside of both Ctrl-C ends the program as usual: there is nothing to put back.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewise_model::Advice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// What asks a program to end: Ctrl-C, `kill`, a terminal that closes, Ctrl-\.
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

/// Set by Ctrl-C and its kin; a second one ends the program as usual.
#[derive(Debug, Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on the first of them only sets the flag. An error if no handler can be installed.
    pub fn listen() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in ENDING {
            signal_hook::flag::register_conditional_default(signal, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(Self(stop))
    }

    /// One that nobody can ask for: for what has to be done to its end.
    pub fn never() -> Self {
        Self(Arc::default())
    }

    /// While this works, the first of them ends the program: nothing has to be put in order.
    pub fn ends_program_during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.store(true, Ordering::SeqCst);
        let answer = work();
        self.0.store(false, Ordering::SeqCst);
        answer
    }

    /// Whether somebody asked for it.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// For threads that outlive who started them.
    pub fn shared(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// For whoever looks at it between two steps.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
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

/// Whether something came through `woken` before the deadline.
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
