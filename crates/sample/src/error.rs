// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a target cannot be sampled.

use pagewise_model::{Bytes, Name, Pages};

use crate::WhyUnread;

/// Why a target cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The host is a recording, which contains no page contents.
    #[error("page contents exist on a live machine only; {0} is a recording")]
    NotLive(Name),
    /// A single process was requested, and it cannot be read.
    #[error("process {pid}: {why}")]
    Process {
        /// Process id.
        pid: u32,
        /// Why the process cannot be read.
        why: WhyUnread,
    },
    /// The memory cgroup does not exist.
    #[error("no memory cgroup {0} on this host")]
    NoCgroup(Name),
    /// The kernel refused to open the file.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: Name,
        /// Error of the system call that failed.
        source: std::io::Error,
    },
    /// The file is not of the expected kind.
    #[error("{path}: expected {expected}, found {found}")]
    Kind {
        /// Path of the file.
        path: Name,
        /// The kind of file that was expected.
        expected: &'static str,
        /// The kind of file that was found.
        found: &'static str,
    },
    /// The file is not an ELF core, or has an invalid header.
    #[error("{path}: {why}")]
    Core {
        /// Path of the file.
        path: Name,
        /// What is wrong with the file.
        why: &'static str,
    },
    /// Every page was requested, but the host has too little memory for that; see
    /// [`crate::exact_needs`].
    #[error(
        "reading all {} pages takes up to {needs} of memory, more than a quarter of the {available} that are available; take a sample instead", pages.get()
    )]
    TooLarge {
        /// Total number of pages of the target.
        pages: Pages,
        /// Memory that reading every page would take.
        needs: Bytes,
        /// Memory that is available on the host.
        available: Bytes,
    },
}
