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
    /// The one requested process cannot be read.
    #[error("process {pid}: {why}")]
    Process {
        /// Process id.
        pid: u32,
        /// The reason.
        why: WhyUnread,
    },
    /// The memory cgroup does not exist.
    #[error("no memory cgroup {0} on this host")]
    NoCgroup(Name),
    /// The kernel refused to open the file.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: Name,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The file is not of the expected kind.
    #[error("{path}: expected {expected}, found {found}")]
    Kind {
        /// The path.
        path: Name,
        /// The expected kind.
        expected: &'static str,
        /// The actual kind.
        found: &'static str,
    },
    /// The file is not an ELF core, or has an invalid header.
    #[error("{path}: {why}")]
    Core {
        /// The path.
        path: Name,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Every page was requested, but the host has too little memory for that; see
    /// [`crate::exact_needs`].
    #[error(
        "reading all {} pages takes up to {needs} of memory, more than a quarter of the {available} that are available; take a sample instead", pages.get()
    )]
    TooLarge {
        /// Number of pages in total.
        pages: Pages,
        /// Memory that would be needed.
        needs: Bytes,
        /// Memory that is available.
        available: Bytes,
    },
}
