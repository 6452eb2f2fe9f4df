// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of all crates → what the program says of them, and its exit status.

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use pagewise_apply::Rescue;
use pagewise_apply::merge::MergeError;
use pagewise_apply::plan::Failed;
use pagewise_hugepages::ActError;
use pagewise_lab::experiment::ExperimentError;
use pagewise_model::Refusal;
use pagewise_observe::{OpenError, UserFileError};
use pagewise_terminal::exit;
use pagewise_terminal::interrupt::Interrupted;
use pagewise_terminal::trouble::{self, Adviser, adviser};

use crate::verbs::PassLeft;

/// The errors that know more than what happened and why.
const ADVISERS: [Adviser; 11] = [
    adviser::<Interrupted>,
    adviser::<PassLeft>,
    adviser::<Refusal>,
    adviser::<OpenError>,
    adviser::<UserFileError>,
    adviser::<pagewise_guest::Error>,
    adviser::<Failed>,
    adviser::<pagewise_apply::Error>,
    adviser::<ActError>,
    adviser::<MergeError>,
    adviser::<ExperimentError>,
];

/// Prints the error and says how to exit.
pub(crate) fn tell(error: &anyhow::Error) -> ExitCode {
    trouble::tell(error, &ADVISERS);
    let is_plan_stopped = error.downcast_ref::<Failed>().is_some_and(Failed::is_stopped);
    let stopped = error.is::<Interrupted>() || error.is::<PassLeft>() || is_plan_stopped;
    ExitCode::from(if stopped { exit::STOPPED } else { exit::FAILED })
}

/// A defect of ours, in our words. The release build aborts then, which starts an undo of what is lent.
pub(crate) fn tell_of_panic(panic: &PanicHookInfo<'_>) {
    // else what is said would be on a screen that vanishes
    pagewise_terminal::live::restore();
    let undo =
        "what was lent is being put back; afterwards `pagewise undo` says if anything is left";
    trouble::tell_of_panic(panic, Rescue::is_ready().then_some(undo));
}
