// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why there is nothing to look at.

use pagewise_model::{Bytes, Name, Pages};

use crate::WhyUnread;

/// Why a target could not be opened at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A recording holds no page contents.
    #[error("page contents exist on a live machine only; {0} is a recording")]
    NotLive(Name),
    /// The one process that was asked for.
    #[error("process {pid}: {why}")]
    Process {
        /// Its id.
        pid: u32,
        /// Why not.
        why: WhyUnread,
    },
    /// There is no such memory cgroup.
    #[error("no memory cgroup {0} on this host")]
    NoCgroup(Name),
    /// The kernel says no.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: Name,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// It is of another kind.
    #[error("{path}: expected {expected}, found {found}")]
    Kind {
        /// The file.
        path: Name,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// No ELF core, or one whose head makes no sense.
    #[error("{path}: {why}")]
    Core {
        /// The file.
        path: Name,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Every page was asked for, and the host has no memory for it; see [`crate::exact_needs`].
    #[error(
        "reading all {} pages takes up to {needs} of memory, more than a quarter of the {available} that are available; take a sample instead", pages.get()
    )]
    TooLarge {
        /// Pages in all.
        pages: Pages,
        /// What it takes.
        needs: Bytes,
        /// What the host has.
        available: Bytes,
    },
}
