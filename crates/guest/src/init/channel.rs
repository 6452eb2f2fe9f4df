// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events, as lines of JSON on the second serial port → the runner.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use rustix::fs::OFlags;
use rustix::termios::{self, OptionalActions};

use crate::wire::Event;

const PORT: &str = "/dev/ttyS1";

/// The connection to the runner. It has a mutex because threads send the job's output.
#[derive(Debug)]
pub(super) struct Channel {
    port: Option<Mutex<File>>,
}

impl Channel {
    /// Opens the port in raw mode, so that the terminal layer does not change the bytes.
    pub(super) fn open() -> Self {
        let port =
            OpenOptions::new().read(true).write(true).custom_flags(not_ours()).open(PORT).ok();
        if let Some(port) = &port {
            if let Ok(mut settings) = termios::tcgetattr(port) {
                settings.make_raw();
                let _ = termios::tcsetattr(port, OptionalActions::Now, &settings);
            }
        }
        Self { port: port.map(Mutex::new) }
    }

    /// Sends one event as one line. Errors are ignored, as there is no other way to report them.
    pub(super) fn tell(&self, event: &Event) {
        let Some(port) = &self.port else { return };
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        if let Ok(mut port) = port.lock() {
            let _ = port.write_all(&line);
        }
    }

    /// Waits until the port has sent everything.
    pub(super) fn drain(&self) {
        if let Some(Ok(port)) = self.port.as_ref().map(Mutex::lock) {
            let _ = termios::tcdrain(&*port);
        }
    }
}

/// The port is a terminal: `O_NOCTTY` keeps it from becoming this process' controlling terminal.
fn not_ours() -> i32 {
    i32::try_from(OFlags::NOCTTY.bits()).unwrap_or(0)
}
