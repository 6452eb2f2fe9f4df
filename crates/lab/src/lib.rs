// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests: a stock kernel, this program as PID 1, a job → what became of the job.
//!
//! [`kernel`] finds a kernel (a Debian suite, this host's /boot, a path), [`cache`] keeps what was
//! fetched, [`guest`] runs QEMU and says how the job ended, [`init`] is PID 1 inside. What the two
//! sides say to each other is in [`wire`]. Nothing about a kernel version is compiled in: what a
//! kernel offers is looked for.
//!
//! [`faults`] measures swap on the host that it runs on, with what it may borrow by [`pagewise_model::lend`].
//! [`mod@bench`] measures zram on this host, with devices that it is lent ([`pagewise_model::lend`]).
//!
//! A guest has no network: it begins with what the runner packs into its initramfs and the disks that
//! it is given, and leaves by one serial line. Only x86_64 yet.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod apt;
pub mod bench;
pub mod cache;
mod calls;
pub mod contents;
mod cpio;
mod debian;
mod elf;
mod error;
pub mod experiment;
pub mod faults;
mod files;
mod folder;
pub mod fuzzing;
pub mod guest;
pub mod init;
pub mod kernel;
pub mod library;
mod lock;
pub mod picks;
pub mod pool;
mod program;
pub mod stand_in;
pub mod stats;
mod ticks;
mod user;
pub mod userland;
pub mod wire;
pub mod workload;

pub use error::Error;
