// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests: boots a stock kernel with this program as PID 1, runs a job in it, and reports the
//! outcome.
//!
//! [`kernel`] finds a kernel (of a Debian suite, in this host's /boot, or at a path), [`cache`]
//! keeps fetched kernels and userlands, [`qemu`] runs QEMU and reports how the job ended, and
//! [`init`] is PID 1 inside the guest. [`wire`] defines the messages between the two sides. Nothing
//! depends on a kernel version: features are probed.
//!
//! A guest has no network. It gets its input from the initramfs, into which the runner packs the
//! files, and from its disks; it sends its output over one serial port. Only x86_64 is supported.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests make files and start programs")
)]

mod apt;
pub mod cache;
mod calls;
mod cpio;
mod debian;
mod elf;
mod entry;
mod error;
pub mod files;
mod folder;
pub mod host_programs;
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

pub use calls::kill_with_parent;
pub use error::{Error, ErrorContext};
