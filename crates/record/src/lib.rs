// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores readings of this machine in a ring of files on its disk, limited in bytes and in time
//! ([`Ring`]), and reads them back ([`Shelf`]). The oldest files are removed to make room for new
//! ones.
//!
//! Each file is a recording over time in the format of `pagewise capture --every`, but it contains
//! the real names of programs, cgroups and files of this machine. It is therefore readable by its
//! owner only, and must not be sent to others. It contains no memory contents, command lines or
//! environments. The data are stored in frames with checksums (`frame.rs`). If a file ends within a
//! frame, because the machine lost power or the process was killed, or if a frame is damaged, the
//! file is read up to the frame before it.
//!
//! Next to each file is an index with the time and two counters of each reading (`index.rs`).
//!
//! This crate writes only into the folder of the ring.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod frame;
mod index;
mod name;
mod ring;
mod shelf;

pub use frame::{FrameReader, Unwhole};
pub use index::ReadingSummary;
pub use name::FileName;
pub use ring::{Added, Ring, RingError, RingLimits};
pub use shelf::{Shelf, ShelfError, StoredFile, Summaries};
