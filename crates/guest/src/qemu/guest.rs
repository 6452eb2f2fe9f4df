// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of a guest: its machine, its files and disks, and the command that it runs.

use std::path::PathBuf;
use std::time::Duration;

use pagewise_model::Bytes;

use super::accelerator::Accelerator;
use super::disk::Disk;
use super::run_slot::Budget;
use crate::userland::Userland;

/// A command and the guest that it runs in.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The program and its arguments, with paths as in the guest.
    pub argv: Vec<String>,
    /// The system in which the command runs.
    pub userland: Userland,
    /// Size of the guest's memory.
    pub memory: Bytes,
    /// Number of virtual processors.
    pub cpus: u32,
    /// Time limit from QEMU's start to the command's start.
    pub start_deadline: Duration,
    /// Time limit from the command's start to QEMU's end.
    pub deadline: Duration,
    /// Names of kernel modules to load, in addition to those that every guest gets.
    pub modules: Vec<String>,
    /// Files of the host, and their paths in the guest.
    pub files: Vec<(PathBuf, String)>,
    /// Further files to put into the guest: contents, and path in the guest.
    pub texts: Vec<(Vec<u8>, String)>,
    /// Additional environment variables of the job.
    pub environment: Vec<(String, String)>,
    /// Disks of the guest; the first is /dev/vda.
    pub disks: Vec<Disk>,
    /// Whether to keep the whole kernel log. The kernel then boots without `quiet`, which is
    /// slower.
    pub whole_log: bool,
    /// Additional words for the kernel's command line.
    pub append: Vec<String>,
    /// Whether to count instructions; needs emulation with one processor.
    pub count: bool,
    /// The accelerator to use; `None`: KVM if that works, otherwise TCG.
    pub accelerator: Option<Accelerator>,
    /// Path of the static executable that becomes PID 1.
    pub program: PathBuf,
    /// Limits for all guests that run at the same time.
    pub budget: Budget,
    /// Whether to start at once, without waiting for other guests or free resources.
    pub now: bool,
    /// How the run is described to other runs that wait for it; `None`: by its command.
    pub purpose: Option<String>,
    /// Optional packages for a guest that reboots; guests that do not reboot have all of them.
    pub packages: Vec<String>,
    /// Time after which QEMU is killed, counted from the line [`crate::wire::LOSE_POWER`] in the
    /// command's output; `None`: that line has no effect.
    pub lose_power: Option<Duration>,
    /// Which boot of the root disk this is, if the disk is kept; only [`super::InstalledGuest`]
    /// sets this.
    pub boot: Option<DiskBoot>,
}

/// One boot of a root disk that is kept across boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskBoot {
    /// Number of the boot, counted from 0.
    pub(crate) number: u32,
    /// Files to remove from the disk at the first boot.
    pub(crate) removed: Vec<String>,
}

impl Guest {
    /// A guest with default settings that runs `argv`.
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

    /// How this run is described to others that wait for it.
    pub(super) fn label(&self) -> String {
        self.purpose.clone().unwrap_or_else(|| self.argv.join(" "))
    }

    /// Whether this boot prepares the root disk for later ones.
    pub(super) fn is_first_boot(&self) -> bool {
        self.boot.as_ref().is_some_and(|boot| boot.number == 0)
    }

    /// Time limit for the machine to end after the command has ended. A guest that reboots must
    /// first write its changes to the disk, so only its deadline applies.
    pub(super) fn patience(&self) -> Duration {
        match &self.boot {
            Some(_) => self.deadline,
            None => self.userland.patience(),
        }
    }
}
