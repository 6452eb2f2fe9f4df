// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types of file in words.

use rustix::fs::FileType;

/// The type of a directory entry, in words.
pub(crate) fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "something unknown",
    }
}
