// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel's messages around each report of the OOM killer in the bytes of a journald
//! file; and writes entries to the journal.
//!
//! - [`JournalFile`] parses the file's format through the file's own index; it gets parts of the
//!   file from [`ReadPieces`], and a [`Budget`] limits the cost of all files;
//! - [`search`] finds the messages and passes them to a [`Reader`]; [`read_all`] passes on all
//!   messages of the kernel, [`read_programs`] the newest messages of some programs;
//! - [`written`] creates such files, for tests and fuzzing;
//! - [`Entry`] is an entry to write, and [`JournalSocket`] hands it to journald.
//!
//! No file is opened here: the caller knows where files are and whether they may be read. Not
//! supported: fields compressed with xz (used by systemd until 2014, and only for text longer than
//! 512 bytes), and files whose format is newer than this reader.

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
