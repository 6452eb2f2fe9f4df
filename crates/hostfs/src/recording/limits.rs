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

/// Maximum number of bytes to which an archive of files that somebody else collected is
/// decompressed.
pub(super) const MAX_COLLECTED: u64 = 16 << 30;

/// Maximum ratio of unpacked to packed bytes of such an archive, if it unpacks to more than
/// [`MAX_SUM`]. Logs pack to a twentieth of their size; a bomb unpacks to a thousand times its
/// size.
pub(super) const MAX_UNPACKED_PER_PACKED: u64 = 200;

/// Maximum size in bytes of all logs of a collection together. The other files need the rest of
/// [`MAX_SUM`].
pub(super) const MAX_LOGS: usize = 32 << 20;

/// Why a recording cannot contain a file with this path; `None` if it can.
pub(super) fn refused_path(path: &str) -> Option<&'static str> {
    if path.len() > MAX_PATH {
        Some("a path longer than 1024 bytes")
    } else if path.starts_with('/') {
        Some("an absolute path")
    } else if path.split('/').any(|part| part == "..") {
        Some("a path with .. in it")
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some("a path with an empty part")
    } else if path.chars().any(char::is_control) {
        Some("a path with control characters")
    } else {
        None
    }
}
