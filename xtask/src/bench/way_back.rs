// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that restore the machine when this process ends, in whatever way.
//!
//! They are sent to a shell in a session of its own before anything is changed; it runs them when
//! its input ends.

use std::io::Write;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::run;

/// The registered commands, which restore the machine when this is dropped.
pub(super) struct WayBack {
    watcher: Child,
}

impl WayBack {
    pub(super) fn new() -> Result<Self> {
        let mut watcher = run::program("setsid");
        let watcher = watcher.args(["sh", "-c", "tac | sh"]).stdin(Stdio::piped()).spawn();
        Ok(Self { watcher: watcher.context("setsid")? })
    }

    /// Registers a command to be run when this process ends, before those registered earlier.
    pub(super) fn promise(&self, command: &str) -> Result<()> {
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
