// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits a while, unless Ctrl-C comes first.
//!
//! Outside of the wait Ctrl-C ends the program as usual: there is nothing to put back.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGINT;

use crate::trouble::Interrupted;

/// Waits; an error where the user did not want to.
pub(crate) fn wait(time: Duration) -> anyhow::Result<()> {
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
