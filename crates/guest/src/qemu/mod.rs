// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a job in a guest: starts QEMU with a kernel, watches it, and makes sure that it is gone at
//! the end.

mod accelerator;
mod disk;
mod files;
mod guest;
mod initramfs;
mod installed;
mod kvm_test;
mod log;
mod machine;
mod outcome;
mod power;
mod process;
mod root_disk;
mod run;
mod run_slot;

pub use accelerator::{Accelerator, check_kvm};
pub use disk::{Access, Disk, MOST as MOST_DISKS};
pub use guest::{DiskBoot, Guest};
pub use installed::InstalledGuest;
pub use outcome::{DiskAfter, DiskState, InstructionClock, Outcome, Phase, Run};
pub use run::{GuestEvent, run};
pub use run_slot::{Budget, remove_leftovers};
