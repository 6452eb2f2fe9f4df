// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit statuses: the one table of what the program ends with. `--help` names each of them.
//!
//! Those above 100 are the conventions of shells and of timeout(1).

use std::process::ExitCode;

/// An error that was printed.
pub const FAILED: u8 = 1;
/// A command line that is not understood.
pub const USAGE: u8 = 2;
/// Findings, or something that differs.
pub const FINDINGS: u8 = 3;
/// A command in a guest reached a time limit.
pub const TIMED_OUT: u8 = 124;
/// A guest ended without its command: it panicked or was switched off.
pub const GUEST_LOST: u8 = 125;
/// A command that does not exist.
pub const NOT_FOUND: u8 = 127;
/// SIGINT: Ctrl-C.
pub const STOPPED: u8 = of_signal(2);
/// SIGKILL, as the kernel does when memory ran out.
pub const OUT_OF_MEMORY: u8 = of_signal(9);

/// The status for a process that this signal ended.
pub const fn of_signal(signal: u8) -> u8 {
    128 + (signal & 0x7f)
}

/// How a verb ended that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The status is 0.
    Done,
    /// There is something to look at: [`FINDINGS`].
    Findings,
    /// What somebody else's command ended with.
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
