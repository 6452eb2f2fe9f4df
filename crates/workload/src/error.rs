// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a workload did not finish.

use std::io;

/// What prevented a workload from finishing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The parameters of the workload are inconsistent.
    #[error("{0}")]
    Unsound(String),
    /// A system call failed.
    #[error("{what}")]
    Kept {
        /// The operation or file that failed.
        what: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another program is missing or failed.
    #[error("workload redis")]
    Program(#[source] pagewise_guest::Error),
    /// A server or the workload ended early.
    #[error("{0}")]
    Ended(String),
}

/// Adds the operation to a system error.
pub(super) trait ErrorContext<T> {
    fn about(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn about(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Kept { what: what(), source: source.into() })
    }
}
