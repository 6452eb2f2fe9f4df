// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of a recording is taken into memory. A recording of 500 processes holds about 5,000
//! files and 6 MiB.

/// The most of one file, in bytes.
pub const MAX_FILE: usize = crate::root::MAX_FILE;

/// The most of all files together, in bytes, an archive's own heads included.
pub const MAX_SUM: usize = 64 << 20;

/// The most files and folders.
pub const MAX_ENTRIES: usize = 100_000;

/// The longest path, in bytes.
pub(super) const MAX_PATH: usize = 1024;

/// Folders inside folders.
pub(super) const MAX_DEPTH: usize = 64;
