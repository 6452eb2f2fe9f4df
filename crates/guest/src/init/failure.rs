// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What PID 1 could not do. It is told over the serial port as one line, so each says what the system
//! said, too.

use std::io;
use std::path::Path;

/// Why the job was not run, or not all of it was brought out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The system refused something.
    #[error("{what}: {error}")]
    Refused {
        /// A file, or what was to be done.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// A program of the guest's could not do it.
    #[error("{program}: {error}")]
    Program {
        /// Its path.
        program: &'static str,
        /// What it printed.
        error: String,
    },
    /// The job lists no program.
    #[error("the job is empty")]
    EmptyJob,
    /// Only version 2 can hand groups on.
    #[error("there is no cgroup v2 here")]
    NoCgroups,
    /// A group that was made is not as it should be.
    #[error("{0}")]
    Group(String),
}

/// Names what the system refused.
pub(super) trait ErrorContext<T> {
    fn context(self, what: impl ToString) -> Result<T, Failure>;
    fn at_path(self, path: &Path) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn context(self, what: impl ToString) -> Result<T, Failure> {
        self.map_err(|error| Failure::Refused { what: what.to_string(), error: error.into() })
    }

    fn at_path(self, path: &Path) -> Result<T, Failure> {
        self.context(path.display())
    }
}
