// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A zram device for a benchmark. It is removed when the value is dropped, and also if the process
//! is killed.

use anyhow::{Context, Result};

use super::way_back::WayBack;

const CONTROL: &str = "/sys/class/zram-control/hot_add";

/// A zram device of this program that compresses with lz4.
pub(super) struct Device {
    pub(super) id: u32,
    way_back: WayBack,
}

impl Device {
    /// Creates the zram device; `disksize` is in the kernel's format.
    pub(super) fn create(disksize: &str) -> Result<Self> {
        let way_back = WayBack::new()?;
        let id = std::fs::read_to_string(CONTROL).context("a zram device of our own (root?)")?;
        let id: u32 = id.trim().parse()?;
        let device = Self { id, way_back };
        device.run_at_end(&format!("echo {id} > /sys/class/zram-control/hot_remove"))?;
        // the device is busy until every program that we started has closed it
        let reset = format!("echo 1 2>/dev/null > /sys/block/zram{id}/reset && break; sleep 0.2");
        device.run_at_end(&format!("for i in $(seq 50); do {reset}; done"))?;
        for (file, value) in [("comp_algorithm", "lz4"), ("disksize", disksize)] {
            std::fs::write(format!("/sys/block/zram{id}/{file}"), value).context(file)?;
        }
        Ok(device)
    }

    /// Registers a command to be run when the benchmark ends. The command registered last is run
    /// first.
    pub(super) fn run_at_end(&self, command: &str) -> Result<()> {
        self.way_back.run_at_end(command)
    }

    pub(super) fn path(&self) -> String {
        format!("/dev/zram{}", self.id)
    }
}
