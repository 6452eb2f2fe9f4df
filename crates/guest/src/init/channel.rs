// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends events to the runner, as frames on the second serial port.
//!
//! Up to three processes write to the same port: PID 1, the process that runs the job under
//! systemd, and the job if it is this program. The kernel does not mix the bytes of two calls of
//! `write` to one terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use rustix::fs::OFlags;
use rustix::termios::{self, OptionalActions};

use crate::wire::{Event, LONGEST_MESSAGE};

const PORT: &str = "/dev/ttyS1";

/// The connection to the runner, shared through a mutex because several threads send the job's
/// output.
#[derive(Debug)]
pub struct Channel {
    port: Option<Mutex<File>>,
}

impl Channel {
    /// Opens the serial port in raw mode, so that the terminal layer does not change the bytes.
    #[must_use]
    pub fn open() -> Self {
        let port = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(no_controlling_terminal())
            .open(PORT)
            .ok();
        if let Some(port) = &port {
            if let Ok(mut settings) = termios::tcgetattr(port) {
                settings.make_raw();
                let _ = termios::tcsetattr(port, OptionalActions::Now, &settings);
            }
        }
        Self { port: port.map(Mutex::new) }
    }

    /// Sends one event as one frame.
    ///
    /// # Errors
    /// If there is no such port, if the port cannot be written, or if a message is longer than the
    /// runner accepts.
    pub fn send(&self, event: &Event) -> io::Result<()> {
        if matches!(event, Event::Message(bytes) if bytes.len() > LONGEST_MESSAGE) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Some(Ok(mut port)) = self.port.as_ref().map(Mutex::lock) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        port.write_all(&event.encode())
    }

    /// Sends one event. Errors are ignored, as PID 1 has no other way to report them.
    pub(super) fn send_or_ignore(&self, event: &Event) {
        let _ = self.send(event);
    }

    /// Waits until the port has sent everything.
    pub(super) fn drain(&self) {
        if let Some(Ok(port)) = self.port.as_ref().map(Mutex::lock) {
            let _ = termios::tcdrain(&*port);
        }
    }
}

/// The flag `O_NOCTTY` for opening the port: without it, the port, which is a terminal, could
/// become this process's controlling terminal.
fn no_controlling_terminal() -> i32 {
    i32::try_from(OFlags::NOCTTY.bits()).unwrap_or(0)
}
