// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The four states that Nagios and compatible monitoring programs assign to a service.

/// The state of a service, with the exit statuses that the Nagios plugin guidelines define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceState {
    /// Exit status 0.
    Ok,
    /// Exit status 1.
    Warning,
    /// Exit status 2.
    Critical,
    /// The state could not be determined: exit status 3.
    Unknown,
}

impl ServiceState {
    /// The exit status that a plugin returns for the state.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// The word that a plugin prints for the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}
