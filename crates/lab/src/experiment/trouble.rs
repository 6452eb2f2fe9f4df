// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors that end an experiment early, each with advice for the user.

use pagewise_guest::program::last_lines;
use pagewise_model::{Advice, Refusal, RunEnd};
use pagewise_stats::describe_end;

/// An error that ends an experiment early.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The user stopped the experiment.
    #[error("stopped")]
    Stopped,
    /// The command's program does not exist.
    #[error("{0}: expected a program, found none of that name")]
    NoProgram(String),
    /// The program that PATH leads to could be replaced by another user.
    #[error(transparent)]
    Untrusted(pagewise_observe::ProgramError),
    /// The lender refused a setting.
    #[error("arm {arm} cannot be tried here")]
    Refused {
        /// Name of the arm.
        arm: String,
        /// What was refused, and why.
        source: Refusal,
    },
    /// Something could not be returned to the lender, which tries again when it is dropped.
    #[error("giving back what a run of arm {arm} had borrowed")]
    Kept {
        /// Name of the arm.
        arm: String,
        /// What was not returned, and why.
        source: Refusal,
    },
    /// The command could not be started.
    #[error("{0}")]
    NotRun(String),
    /// The command failed during the warm-up, or too often.
    #[error("the command failed in arm {arm} ({how}){message}")]
    Failed {
        /// Name of the arm.
        arm: String,
        /// Exit status of the command, or the signal that ended it.
        how: String,
        /// The end of the command's output, as `; it said: …`.
        message: String,
    },
    /// The primary metric is one that a workload must print, and the command did not print it.
    #[error("the command does not say {metric}, which was to decide{message}")]
    NotTold {
        /// Name of the metric.
        metric: String,
        /// The end of the command's output.
        message: String,
    },
    /// The first run did not print the line from which on it is measured.
    #[error(
        "the command did not print the line {line:?}, from which on is counted, or ended at once after it{message}"
    )]
    NotMarked {
        /// The line that was expected.
        line: String,
        /// The end of the command's output.
        message: String,
    },
    /// A regular expression matched nothing in the output of the first run.
    #[error("{pattern:?} matches nothing that the command says{message}")]
    NoMatch {
        /// The regular expression that matched nothing.
        pattern: String,
        /// The end of the command's output.
        message: String,
    },
}

impl Advice for ExperimentError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Refused { source, .. } | Self::Kept { source, .. } => source.next.clone(),
            Self::Untrusted(_) => {
                Some("give its path, or a PATH with folders that only root can change".to_owned())
            }
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

pub(super) fn failure(arm: &str, end: RunEnd, message: &str) -> ExperimentError {
    ExperimentError::Failed {
        arm: arm.to_owned(),
        how: describe_end(end),
        message: quote_output(message),
    }
}

pub(super) fn quote_output(message: &str) -> String {
    let last = last_lines(message, 3).join("; ");
    if last.is_empty() { "; it said nothing".to_owned() } else { format!("; it said: {last}") }
}
