// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a file of systemd's journald → the kernel's messages around each report of the OOM killer.
//!
//! - [`JournalFile`] reads the file's format through the index that it has; it is handed pieces of the file
//!   ([`ReadPieces`]), and what all files may cost is a [`Budget`];
//! - [`search`] finds the messages, and hands them to a [`Reader`];
//! - [`written`] makes such files, for tests and fuzzing.
//!
//! No file is opened here: a reader of a host knows where files are, and whether they may be read. What is not
//! read: fields that are compressed with xz (systemd did so until 2014; only text longer than 512 bytes is
//! compressed at all), and files of a format that is newer than this reader.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod file;
mod hash;
mod search;
pub mod written;

pub use file::{BLOCK, Budget, JournalFile, ReadPieces, Unreadable};
pub use search::{KernelMessage, Reader, search};
