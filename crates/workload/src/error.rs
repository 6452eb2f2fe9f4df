// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a workload did not reach its end.

use std::io;

/// What kept a workload from its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Unsound(String),
    /// The machine did not give what it needs.
    #[error("{what}")]
    Kept {
        /// What it was about.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another program is missing, or could not do it.
    #[error("workload redis")]
    Program(#[source] pagewise_guest::Error),
    /// It ended before it was to.
    #[error("{0}")]
    Ended(String),
}

/// Names what it was about.
pub(super) trait ErrorContext<T> {
    fn about(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn about(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Kept { what: what(), source: source.into() })
    }
}
