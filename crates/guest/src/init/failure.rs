// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of PID 1. The runner receives each over the serial port as one line, so its text includes
//! the error of the system call.

use std::io;
use std::path::Path;

/// Why the job was not run, or why not all files in `/out` were sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A system call failed.
    #[error("{what}: {error}")]
    Refused {
        /// The file, or the operation that failed.
        what: String,
        /// The error of the system call.
        error: io::Error,
    },
    /// A program in the guest failed.
    #[error("{program}: {error}")]
    Program {
        /// Path of the program.
        program: &'static str,
        /// Error output of the program.
        error: String,
    },
    /// The job lists no program to run.
    #[error("the job is empty")]
    EmptyJob,
    /// The job needs a cgroup to delegate controllers from, and this system has no cgroup v2.
    #[error("there is no cgroup v2 here")]
    NoCgroups,
    /// The cgroups for the job could not be made, for this reason.
    #[error("{0}")]
    Group(String),
}

/// Adds the operation or the path to a system error.
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
