// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits until tasks stall for lack of memory: a trigger of the kernel's pressure stall information
//! ([`StallAlarm`], Documentation/accounting/psi.rst).
//!
//! A trigger belongs to the open file and ends with it, so it changes no setting of the machine.
//! Without the capability CAP_SYS_RESOURCE the kernel accepts only windows of a multiple of 2 s.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

const PATH: &str = "/proc/pressure/memory";
/// The triggers to try: some task was stalled for at least the first time within a window of the second, both in
/// microseconds.
const TRIGGERS: [&str; 2] = ["some 150000 1000000", "some 150000 2000000"];

/// A trigger for stalls of memory.
#[derive(Debug)]
pub struct StallAlarm {
    file: OwnedFd,
    trigger: &'static str,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Tasks waited for memory.
    Stalled,
    /// The time is over, or a signal arrived.
    NotStalled,
    /// The kernel has removed the trigger.
    Ended,
}

impl StallAlarm {
    /// Sets the trigger with the shortest window that the kernel accepts from this process.
    ///
    /// # Errors
    /// If the kernel has no pressure stall information, or accepts no trigger.
    #[expect(
        clippy::disallowed_methods,
        reason = "a trigger is written to a file of its own, ends with it, and is never recorded"
    )]
    pub fn set() -> std::io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut refused = std::io::Error::from(ErrorKind::Unsupported);
        for trigger in TRIGGERS {
            let file = rustix::fs::open(PATH, flags, Mode::empty())?;
            // the kernel expects a string with its end
            match rustix::io::write(&file, format!("{trigger}\0").as_bytes()) {
                Ok(_) => return Ok(Self { file, trigger }),
                Err(errno) => refused = errno.into(),
            }
        }
        Err(refused)
    }

    /// The trigger as it was written to the kernel: `some`, the stall and the window in microseconds.
    pub fn trigger(&self) -> &'static str {
        self.trigger
    }

    /// Waits for a stall, at most for this time.
    pub fn wait(&self, time: Duration) -> Woken {
        let Ok(timeout) = Timespec::try_from(time) else { return Woken::NotStalled };
        let mut polled = [PollFd::new(&self.file, PollFlags::PRI)];
        if poll(&mut polled, Some(&timeout)).is_err() {
            return Woken::NotStalled;
        }
        let events = polled[0].revents();
        if events.contains(PollFlags::ERR) {
            Woken::Ended
        } else if events.contains(PollFlags::PRI) {
            Woken::Stalled
        } else {
            Woken::NotStalled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel may have no PSI; if it has, a trigger is accepted and waiting ends in time.
    #[test]
    fn a_trigger_is_accepted_where_the_kernel_has_pressure() {
        match StallAlarm::set() {
            Ok(alarm) => {
                assert!(TRIGGERS.contains(&alarm.trigger()));
                assert_ne!(alarm.wait(Duration::from_millis(1)), Woken::Ended);
            }
            Err(error) => {
                let known = [ErrorKind::NotFound, ErrorKind::PermissionDenied];
                let is_off =
                    error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error());
                assert!(known.contains(&error.kind()) || is_off, "{error}");
            }
        }
    }
}
