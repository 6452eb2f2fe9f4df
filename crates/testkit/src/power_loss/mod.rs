// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the disks that power losses can leave, and their files, from a log of the writes to a
//! disk.
//!
//! [`Recording`] is the log, [`PowerLoss`] is a moment and the writes that reached the disk before
//! it, and [`FileSystem`] repairs such a disk as a boot would, and reads its files.

mod file_system;
mod losses;
mod recording;

pub use file_system::{FileSystem, Node, Tree, read_tree};
pub use losses::{PowerLoss, Sampling, replay};
pub use recording::{Entry, Recording};
