// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of a guest: the machine, what it finds inside, and what it runs.

use std::path::PathBuf;
use std::time::Duration;

use pagewise_model::Bytes;

use super::accelerator::Accelerator;
use super::disk::Disk;
use super::run_slot::Budget;
use crate::userland::Userland;

/// What to run, and in what.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The program and its arguments, as seen inside.
    pub argv: Vec<String>,
    /// What the command finds around it.
    pub userland: Userland,
    /// Memory of the machine.
    pub memory: Bytes,
    /// Virtual processors.
    pub cpus: u32,
    /// The most time from QEMU's start to the command's.
    pub start_deadline: Duration,
    /// The most time from the command's start to QEMU's end.
    pub deadline: Duration,
    /// More modules than those that every guest gets.
    pub modules: Vec<String>,
    /// Host files and where they go.
    pub files: Vec<(PathBuf, String)>,
    /// Further files: what is in them, and where they go.
    pub texts: Vec<(Vec<u8>, String)>,
    /// What the job finds in its environment, beside the usual.
    pub environment: Vec<(String, String)>,
    /// Disks, in the order of their names.
    pub disks: Vec<Disk>,
    /// Keep the kernel's whole log: it says more then, and starts slower.
    pub whole_log: bool,
    /// Words for the kernel's command line.
    pub append: Vec<String>,
    /// Count instructions: one processor, emulated.
    pub count: bool,
    /// Which accelerator to use; the processor where it works and nothing is said.
    pub accelerator: Option<Accelerator>,
    /// The static program that is PID 1.
    pub program: PathBuf,
    /// What may run at the same time.
    pub budget: Budget,
    /// Start at once, whoever waits and whatever runs.
    pub now: bool,
    /// What the run is for, as others that wait read it; without it, the command.
    pub purpose: Option<String>,
    /// Optional packages that a guest that reboots is to have; others have them all.
    pub packages: Vec<String>,
    /// Kill QEMU so long after the command has printed the line [`crate::wire::LOSE_POWER`].
    pub lose_power: Option<Duration>,
    /// Which boot of its root disk this is; only [`super::InstalledGuest`] makes one.
    pub boot: Option<DiskBoot>,
}

/// A boot of a root disk that outlives the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskBoot {
    /// The first is 0.
    pub(crate) number: u32,
    /// Files to remove from the disk at the first boot.
    pub(crate) removed: Vec<String>,
}

impl Guest {
    /// A guest with what nobody said anything about.
    #[must_use]
    pub fn new(program: PathBuf, argv: Vec<String>) -> Self {
        Self {
            argv,
            userland: Userland::Minimal,
            memory: Bytes::new(512 << 20),
            cpus: 1,
            start_deadline: Userland::Minimal.deadline(),
            deadline: Userland::Minimal.deadline(),
            modules: Vec::new(),
            files: Vec::new(),
            texts: Vec::new(),
            environment: Vec::new(),
            disks: Vec::new(),
            whole_log: false,
            append: Vec::new(),
            count: false,
            accelerator: None,
            program,
            budget: Budget::of_this_machine(),
            now: false,
            purpose: None,
            packages: Vec::new(),
            lose_power: None,
            boot: None,
        }
    }

    /// What others that wait for it are told that it runs.
    pub(super) fn label(&self) -> String {
        self.purpose.clone().unwrap_or_else(|| self.argv.join(" "))
    }

    /// Whether this is the boot that prepares the root disk for those after it.
    pub(super) fn is_first_boot(&self) -> bool {
        self.boot.as_ref().is_some_and(|boot| boot.number == 0)
    }

    /// How long the machine may take to end once the command has. If it reboots, what the command changed is
    /// to reach the disk, so only the deadline ends it.
    pub(super) fn patience(&self) -> Duration {
        match &self.boot {
            Some(_) => self.deadline,
            None => self.userland.patience(),
        }
    }
}
