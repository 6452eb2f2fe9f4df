// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a worker measured nothing. Its words go over a pipe, so each says what the system said, too.

use std::io;

/// Why there is no round.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The system refused something.
    #[error("{what}: {error}")]
    Refused {
        /// A file, or a call.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// The task in the environment is none.
    #[error("{0}")]
    NoTask(String),
    /// The process that wanted the answer is gone.
    #[error("was started by process {wanted}, and its parent is {found}")]
    Orphaned {
        /// Who started it.
        wanted: u32,
        /// Whose child it is.
        found: i32,
    },
    /// Memory did not stay until it was to go.
    #[error(
        "{0} pages were swapped out while memory was filled: the group's limit is too low, or \
         something else swaps"
    )]
    SwappedEarly(u64),
    /// A counter that every kernel with swap has.
    #[error("/proc/vmstat does not count {0}")]
    NoCounter(&'static str),
    /// zram would keep such pages without compressing them.
    #[error("the pages to fill memory with are all filled with one word")]
    SameFilled,
}

/// Names what the system refused.
pub(super) trait ErrorContext<T> {
    fn context(self, what: impl ToString) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn context(self, what: impl ToString) -> Result<T, Failure> {
        self.map_err(|error| Failure::Refused { what: what.to_string(), error: error.into() })
    }
}
