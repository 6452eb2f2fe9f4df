// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests: a stock kernel, this program as PID 1, a job → what became of the job.
//!
//! [`kernel`] finds a kernel (a Debian suite, this host's /boot, a path), [`cache`] keeps what was
//! fetched, [`qemu`] runs QEMU and says how the job ended, [`init`] is PID 1 inside. What the two
//! sides say to each other is in [`wire`]. Nothing about a kernel version is compiled in: what a
//! kernel offers is looked for.
//!
//! A guest has no network: it begins with what the runner packs into its initramfs and the disks that
//! it is given, and leaves by one serial line. Only x86_64 yet.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files and start programs")
)]

mod apt;
pub mod cache;
mod calls;
pub mod carried;
mod cpio;
mod debian;
mod elf;
mod entry;
mod error;
pub mod files;
mod folder;
pub mod init;
pub mod item;
pub mod kernel;
mod lock;
pub mod program;
pub mod qemu;
mod user;
pub mod userland;
mod vmlinuz;
pub mod wire;

pub use calls::leash;
pub use error::{Error, ErrorContext};
