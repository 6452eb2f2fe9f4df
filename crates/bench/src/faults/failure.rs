// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a worker could not measure. The text is sent over a pipe, so it includes the error of the
//! system call.

use std::io;

/// Why a worker has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A system call failed.
    #[error("{what}: {error}")]
    Refused {
        /// The file, or the system call.
        what: String,
        /// The error of the system call.
        error: io::Error,
    },
    /// The task in the environment is invalid.
    #[error("{0}")]
    NoTask(String),
    /// The process that started the worker is gone.
    #[error("was started by process {wanted}, and its parent is {found}")]
    Orphaned {
        /// Pid of the process that started the worker.
        wanted: u32,
        /// Pid of the worker's present parent.
        found: i32,
    },
    /// Pages were swapped out before the worker requested that.
    #[error(
        "{0} pages were swapped out while memory was filled: the group's limit is too low, or \
         something else swaps"
    )]
    SwappedEarly(u64),
    /// `/proc/vmstat` lacks a counter that every kernel with swap has.
    #[error("/proc/vmstat does not count {0}")]
    NoCounter(&'static str),
    /// Only same-filled pages are available, which zram does not compress.
    #[error("the pages to fill memory with are all filled with one word")]
    SameFilled,
}

/// Adds the file or call to a system error.
pub(super) trait ErrorContext<T> {
    fn context(self, what: impl ToString) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn context(self, what: impl ToString) -> Result<T, Failure> {
        self.map_err(|error| Failure::Refused { what: what.to_string(), error: error.into() })
    }
}
