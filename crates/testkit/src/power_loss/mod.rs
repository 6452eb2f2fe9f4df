// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A log of what a disk was told to write → the disks that power losses can leave behind, and their files.
//!
//! [`Recording`] is the log, [`PowerLoss`] is one moment and the writes that reached the disk until then, and
//! [`FileSystem`] repairs such a disk as a boot does and reads its files.

mod file_system;
mod losses;
mod recording;

pub use file_system::{FileSystem, Node, Tree, read_tree};
pub use losses::{PowerLoss, Sampling, replay};
pub use recording::{Entry, Recording};
