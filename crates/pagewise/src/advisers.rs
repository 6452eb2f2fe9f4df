// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the errors of all crates with their advice, and chooses the exit status.

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use pagewise_apply::Rescue;
use pagewise_apply::aging::AgingError;
use pagewise_apply::merge::MergeError;
use pagewise_apply::plan::Failed;
use pagewise_hugepages::ActError;
use pagewise_lab::experiment::ExperimentError;
use pagewise_model::Refusal;
use pagewise_observe::{OpenError, UserFileError};
use pagewise_procmem::coverage::LookError;
use pagewise_terminal::exit;
use pagewise_terminal::interrupt::Interrupted;
use pagewise_terminal::trouble::{self, Adviser, adviser};

use crate::verbs::PassLeft;

/// The error types that carry more than a message and a cause: advice for the user.
const ADVISERS: [Adviser; 16] = [
    adviser::<Interrupted>,
    adviser::<PassLeft>,
    adviser::<Refusal>,
    adviser::<OpenError>,
    adviser::<UserFileError>,
    adviser::<pagewise_guest::Error>,
    adviser::<Failed>,
    adviser::<pagewise_apply::Error>,
    adviser::<pagewise_apply::KnownFindingsError>,
    adviser::<pagewise_apply::AgentFilesError>,
    adviser::<pagewise_agent::ConfigError>,
    adviser::<ActError>,
    adviser::<LookError>,
    adviser::<MergeError>,
    adviser::<AgingError>,
    adviser::<ExperimentError>,
];

/// Prints the error with its advice and returns the exit status.
pub(crate) fn print_error(error: &anyhow::Error) -> ExitCode {
    trouble::print_error(error, &ADVISERS);
    let is_plan_stopped = error.downcast_ref::<Failed>().is_some_and(Failed::is_stopped);
    let stopped = error.is::<Interrupted>() || error.is::<PassLeft>() || is_plan_stopped;
    ExitCode::from(if stopped { exit::STOPPED } else { exit::FAILED })
}

/// Reports a panic as a bug in pagewise. The release build then aborts, which starts the helper
/// that undoes temporary changes to the host.
pub(crate) fn report_panic(panic: &PanicHookInfo<'_>) {
    // leave the alternate screen of the live view first; the message would vanish with it
    pagewise_terminal::live::restore();
    let undo =
        "what was lent is being put back; afterwards `pagewise undo` says if anything is left";
    trouble::print_panic(panic, Rescue::is_installed().then_some(undo));
}
