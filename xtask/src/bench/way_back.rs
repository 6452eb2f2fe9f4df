// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that restore the machine when this process ends for whatever reason.
//!
//! Before anything is changed, each command is sent to a shell, which is in a session of its own.
//! The shell runs the commands when its standard input closes.

use std::io::Write;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::run;

/// The registered commands, which are run when the value is dropped.
pub(super) struct WayBack {
    watcher: Child,
}

impl WayBack {
    pub(super) fn new() -> Result<Self> {
        let mut watcher = run::program("setsid");
        let watcher = watcher.args(["sh", "-c", "tac | sh"]).stdin(Stdio::piped()).spawn();
        Ok(Self { watcher: watcher.context("setsid")? })
    }

    /// Registers a command to be run when this process ends. The command registered last is run
    /// first.
    pub(super) fn run_at_end(&self, command: &str) -> Result<()> {
        let mut told = self.watcher.stdin.as_ref().context("no way to tell the way back")?;
        writeln!(told, "{command}")?;
        Ok(())
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        self.watcher.stdin = None;
        if let Err(error) = self.watcher.wait() {
            eprintln!("bench: putting the machine back: {error}");
        }
    }
}
