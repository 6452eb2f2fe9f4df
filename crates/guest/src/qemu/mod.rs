// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel and a job → a run: QEMU started, watched, and gone at the end.

mod accelerator;
mod disk;
mod files;
mod guest;
mod initramfs;
mod log;
mod machine;
mod outcome;
mod proof;
mod run;
mod seat;

pub use accelerator::{Accelerator, kvm};
pub use disk::{Access, Disk, MOST as MOST_DISKS};
pub use guest::Guest;
pub use outcome::{Counted, Outcome, Phase, Run};
pub use run::{GuestEvent, run};
pub use seat::{Budget, clean};
