// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ends an experiment early, in words, and what to do about it.

use pagewise_guest::program::last_lines;
use pagewise_model::{Advice, Refusal, RunEnd};
use pagewise_stats::end_in_words;

/// What ends an experiment early.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The user.
    #[error("stopped")]
    Stopped,
    /// There is no such program.
    #[error("{0}: expected a program, found none of that name")]
    NoProgram(String),
    /// Something was not lent.
    #[error("arm {arm} cannot be tried here")]
    Refused {
        /// Which.
        arm: String,
        /// What, and why.
        source: Refusal,
    },
    /// Something could not be given back; the lender tries again when it ends.
    #[error("giving back what a run of arm {arm} had borrowed")]
    Kept {
        /// Which.
        arm: String,
        /// What, and why.
        source: Refusal,
    },
    /// The command could not be started.
    #[error("{0}")]
    NotRun(String),
    /// The command failed before anything was compared, or too often.
    #[error("the command failed in arm {arm} ({how}){message}")]
    Failed {
        /// Which arm.
        arm: String,
        /// How.
        how: String,
        /// The end of what it said, as `; it said: …`.
        message: String,
    },
    /// The command is no workload of ours that says this.
    #[error("the command does not say {metric}, which was to decide{message}")]
    NotTold {
        /// Which metric.
        metric: String,
        /// The end of what it said.
        message: String,
    },
    /// The first run did not print the line from which on is counted.
    #[error(
        "the command did not print the line {line:?}, from which on is counted, or ended at once after it{message}"
    )]
    NotMarked {
        /// Which line.
        line: String,
        /// The end of what it said.
        message: String,
    },
    /// The first run said nothing that a regular expression finds.
    #[error("{pattern:?} matches nothing that the command says{message}")]
    NoMatch {
        /// Which.
        pattern: String,
        /// The end of what it said.
        message: String,
    },
}

impl Advice for ExperimentError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Refused { source, .. } | Self::Kept { source, .. } => source.next.clone(),
            Self::NoProgram(_) => Some("give its path, or check that it is installed".to_owned()),
            Self::Failed { .. } => Some(
                "make it succeed by itself first; for one whose exit status means something else: \
                 -- sh -c 'CMD || true'"
                    .to_owned(),
            ),
            Self::NoMatch { .. } => Some(
                "try it with grep -E on the command's output; (?m) lets ^ and $ match at lines"
                    .to_owned(),
            ),
            Self::NotTold { .. } => Some(
                "it is a value of `pagewise lab workload`; for what another command says give a \
                 regular expression"
                    .to_owned(),
            ),
            Self::NotMarked { .. } => Some(
                "it must be a line of its own, printed at once and not kept in a buffer".to_owned(),
            ),
            Self::Stopped | Self::NotRun(_) => None,
        }
    }
}

pub(super) fn failed(arm: &str, end: RunEnd, message: &str) -> ExperimentError {
    ExperimentError::Failed {
        arm: arm.to_owned(),
        how: end_in_words(end),
        message: quoted(message),
    }
}

pub(super) fn quoted(message: &str) -> String {
    let last = last_lines(message, 3).join("; ");
    if last.is_empty() { "; it said nothing".to_owned() } else { format!("; it said: {last}") }
}
