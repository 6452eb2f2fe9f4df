// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of a recording is read into memory. A recording of 500 processes has about 5,000 files
//! and 6 MiB.

/// Maximum size of one file in a recording, in bytes.
pub const MAX_FILE: usize = crate::root::MAX_FILE;

/// Maximum size of all files of a recording together in bytes, including an archive's headers.
pub const MAX_SUM: usize = 64 << 20;

/// Maximum number of files and folders in a recording.
pub const MAX_ENTRIES: usize = 100_000;

/// Maximum length of a path in a recording, in bytes.
pub(super) const MAX_PATH: usize = 1024;

/// Maximum depth of nested folders in a recording.
pub(super) const MAX_DEPTH: usize = 64;
