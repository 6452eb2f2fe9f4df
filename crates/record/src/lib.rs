// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps readings of this machine in a ring of files on its disk, bounded in bytes and in time
//! ([`Ring`]), and reads them back ([`Shelf`]).
//!
//! Each file is a recording over time, as `pagewise capture --every` makes it, but with the names of
//! programs, cgroups and files of this machine: it stays here, readable by its owner alone. It has
//! no contents of memory, command lines or environments. The bytes are wrapped in frames with
//! checksums (`frame.rs`): a file that ends in the middle of a frame, because the machine lost power
//! or the process was killed, is read up to the frame before; so is one with a damaged frame.
//!
//! Beside each file is an index with the time and two counters of each reading (`index.rs`).
//!
//! This crate writes into its own folder and nowhere else.

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
pub use shelf::{Shelf, ShelfError, StoredFile};
