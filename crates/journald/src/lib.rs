// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel's messages about kills by the OOM killer in the bytes of a journald file, and
//! writes entries to the journal.
//!
//! - [`JournalFile`] parses a file with the help of the index in it. It reads parts of the file
//!   through [`ReadPieces`], and a [`Budget`] limits the cost of all files.
//! - [`search`] finds the messages around each report of the OOM killer and passes them to a
//!   [`Reader`]; [`read_all`] passes on all messages of the kernel, [`read_programs`] the newest
//!   messages of some programs.
//! - [`written`] creates journal files, for tests and fuzzing.
//! - [`Entry`] is an entry to write, and [`JournalSocket`] sends it to journald.
//!
//! No file is opened here, because only the caller knows where files are and whether they may be
//! read. Two kinds of files are not supported: fields compressed with xz (used by systemd until
//! 2014, and only for text longer than 512 bytes), and files whose format is newer than this
//! reader.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod entry;
mod file;
mod hash;
mod programs;
mod search;
pub mod written;

pub use entry::{Entry, JournalSocket, SOCKET};
pub use file::{BLOCK, Budget, JournalFile, ReadPieces, Unreadable};
pub use programs::{Origin, ProgramMessage, read_programs};
pub use search::{KernelMessage, Reader, read_all, search};
