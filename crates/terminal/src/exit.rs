// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit statuses: a table of all statuses of the program. `--help` lists each of them.
//!
//! Statuses above 100 follow the conventions of shells and of timeout(1).

use std::process::ExitCode;

/// An error occurred and was printed.
pub const FAILED: u8 = 1;
/// The command line is invalid.
pub const USAGE: u8 = 2;
/// There are findings or differences.
pub const FINDINGS: u8 = 3;
/// A command in a guest exceeded a time limit.
pub const TIMED_OUT: u8 = 124;
/// A guest ended before its command did: it panicked or was powered off.
pub const GUEST_LOST: u8 = 125;
/// The command does not exist.
pub const NOT_FOUND: u8 = 127;
/// The user stopped the program with Ctrl-C (SIGINT).
pub const STOPPED: u8 = of_signal(2);
/// The program was killed with SIGKILL, as the OOM killer does.
pub const OUT_OF_MEMORY: u8 = of_signal(9);

/// The status of a process that was ended by this signal.
pub const fn of_signal(signal: u8) -> u8 {
    128 + (signal & 0x7f)
}

/// The outcome of a verb that was not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The status is 0.
    Done,
    /// There are findings or differences: [`FINDINGS`].
    Findings,
    /// The exit status of a command of the user.
    Status(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Findings => Self::from(FINDINGS),
            Outcome::Status(status) => Self::from(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!((STOPPED, OUT_OF_MEMORY, of_signal(64)), (130, 137, 192));
    }
}
