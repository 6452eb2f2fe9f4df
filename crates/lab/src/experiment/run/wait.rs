// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for a running command, and returns how it ended.

use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::experiment::processes::end_group;

/// Maximum interval for checking whether the user stops, and for sampling.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The first interval between two samples; each later interval is twice as long, so that short
/// commands are sampled, too.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// How the command's own process ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum CommandEnd {
    Exit(ExitStatus),
    TimedOut,
}

/// What happens while the command runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum RunEvent {
    /// The interval is over: it is time for a sample.
    SampleDue,
    /// The command, which leads this process group, has printed the line from which on it is
    /// measured.
    LinePrinted(Pid),
}

/// Waits until the command has ended; `None` if the user stopped the experiment, which also ends
/// the command. `found` is the eventfd that signals that the command has printed the line.
pub(super) fn wait_until_end(
    child: &mut Child,
    mut found: Option<OwnedFd>,
    deadline: Instant,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(RunEvent),
) -> std::io::Result<Option<CommandEnd>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("no process id"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let mut next = FIRST_LOOK;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match wait(&handle, found.as_ref(), left.min(next)) {
            Some(Waited::Ended) => {
                return child.wait().map(|status| Some(CommandEnd::Exit(status)));
            }
            Some(Waited::Found) => {
                found = None;
                on_event(RunEvent::LinePrinted(pid));
            }
            None => on_event(RunEvent::SampleDue),
        }
        next = LOOK.min(next * 2);
        let stopped = stop.load(Ordering::SeqCst);
        if stopped || Instant::now() >= deadline {
            end_group(pid, |patience| has_ended_within(&handle, patience));
            child.wait()?;
            return Ok((!stopped).then_some(CommandEnd::TimedOut));
        }
    }
}

fn has_ended_within(handle: &OwnedFd, time: Duration) -> bool {
    wait(handle, None, time).is_some()
}

/// What ended the waiting for a command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waited {
    /// The command has ended.
    Ended,
    /// The command has printed the line.
    Found,
}

/// Waits until the command ends or the line is found; `None` if neither happens in this time.
pub(super) fn wait(handle: &OwnedFd, found: Option<&OwnedFd>, time: Duration) -> Option<Waited> {
    let until = Instant::now() + time;
    let mut waited: Vec<PollFd<'_>> =
        [handle].into_iter().chain(found).map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok()?;
        match poll(&mut waited, Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) if waited[0].revents().is_empty() => return Some(Waited::Found),
            Ok(_) => return Some(Waited::Ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
