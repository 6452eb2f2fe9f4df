// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes which contents of a disk a power loss can leave, and the files on them, from a log of
//! the writes to the disk.
//!
//! [`Recording`] is the log. [`PowerLoss`] is a moment, with the writes that had reached the disk.
//! [`FileSystem`] repairs such a disk as a boot would, and reads its files.

mod file_system;
mod losses;
mod recording;

pub use file_system::{FileSystem, Node, Tree, read_tree};
pub use losses::{PowerLoss, Sampling, replay};
pub use recording::{Entry, Recording};
