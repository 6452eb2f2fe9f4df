// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A zram device of our own, and how it is given back.
//!
//! The way back is told to a shell of its own session before the device is taken; it goes when the
//! shell's input ends, however we end.

use std::io::Write;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::run;

const CONTROL: &str = "/sys/class/zram-control/hot_add";

/// A zram device with lz4, until this is dropped.
pub(super) struct Device {
    pub(super) id: u32,
    watcher: Child,
}

impl Device {
    /// `disksize` as the kernel takes it.
    pub(super) fn take(disksize: &str) -> Result<Self> {
        let watcher = run::program("setsid")
            .args(["sh", "-c", "tac | sh"])
            .stdin(Stdio::piped())
            .spawn()
            .context("setsid")?;
        let id = std::fs::read_to_string(CONTROL).context("a zram device of our own (root?)")?;
        let id: u32 = id.trim().parse()?;
        let device = Self { id, watcher };
        device.promise(&format!("echo {id} > /sys/class/zram-control/hot_remove"))?;
        // a program that we started may have it open for a moment longer
        let reset = format!("echo 1 2>/dev/null > /sys/block/zram{id}/reset && break; sleep 0.2");
        device.promise(&format!("for i in $(seq 50); do {reset}; done"))?;
        for (file, value) in [("comp_algorithm", "lz4"), ("disksize", disksize)] {
            std::fs::write(format!("/sys/block/zram{id}/{file}"), value).context(file)?;
        }
        Ok(device)
    }

    /// Will be run at the end, before what was promised earlier.
    pub(super) fn promise(&self, command: &str) -> Result<()> {
        let mut told = self.watcher.stdin.as_ref().context("no way to tell the way back")?;
        writeln!(told, "{command}")?;
        Ok(())
    }

    pub(super) fn path(&self) -> String {
        format!("/dev/zram{}", self.id)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.watcher.stdin = None;
        if let Err(error) = self.watcher.wait() {
            eprintln!("bench: giving zram{} back: {error}", self.id);
        }
    }
}
