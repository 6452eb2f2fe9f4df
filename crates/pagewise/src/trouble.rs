// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors as the user sees them: what, why, and what to do next, once.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;
use pagewise_apply::Rescue;
use pagewise_apply::merge::MergeError;
use pagewise_apply::plan::Failed;
use pagewise_collapse::ActError;
use pagewise_lab::experiment::ExperimentError;
use pagewise_model::{Advice, Name, Refusal};
use pagewise_observe::{OpenError, UserFileError};

use crate::cli::Cli;
use crate::{exit, output, screen};

/// The user stopped us.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// How long we had waited.
    pub(crate) after: std::time::Duration,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        write!(f, "stopped by Ctrl-C after {seconds:.1} s")
    }
}

impl std::error::Error for Interrupted {}

impl Advice for Interrupted {
    fn state(&self) -> Option<String> {
        Some("nothing was measured or written".to_owned())
    }

    fn next(&self) -> Option<String> {
        None
    }
}

/// The user stopped us, and what we had started goes on.
#[derive(Debug)]
pub(crate) struct LeftRunning {
    /// As `zmerge0`.
    pub(crate) device: String,
}

impl fmt::Display for LeftRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by Ctrl-C")
    }
}

impl std::error::Error for LeftRunning {}

impl Advice for LeftRunning {
    fn state(&self) -> Option<String> {
        let device = &self.device;
        Some(format!("the pass over {device} goes on in the kernel, which cannot call it off"))
    }

    fn next(&self) -> Option<String> {
        Some("`pagewise status` says how far it is".to_owned())
    }
}

/// The errors that know more than what happened and why.
const ADVISERS: [Adviser; 11] = [
    adviser::<Interrupted>,
    adviser::<LeftRunning>,
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

type Cause = dyn std::error::Error + 'static;
type Adviser = fn(&Cause) -> Option<&dyn Advice>;

fn adviser<T: Advice + 'static>(cause: &Cause) -> Option<&dyn Advice> {
    cause.downcast_ref::<T>().map(|error| error as &dyn Advice)
}

/// What the causes of an error say of one question, the outermost first.
fn advice(error: &anyhow::Error, ask: fn(&dyn Advice) -> Option<String>) -> Option<String> {
    error.chain().find_map(|cause| ADVISERS.iter().find_map(|adviser| ask(adviser(cause)?)))
}

/// Prints the error and says how to exit.
pub(crate) fn tell(error: &anyhow::Error) -> ExitCode {
    let state = advice(error, |error| error.state()).map(|state| format!("; {state}"));
    output::message(format_args!("{error:#}{}", state.unwrap_or_default()));
    advice(error, |error| error.next()).iter().for_each(output::hint);
    let is_plan_stopped = error.downcast_ref::<Failed>().is_some_and(Failed::is_stopped);
    let stopped = error.is::<Interrupted>() || error.is::<LeftRunning>() || is_plan_stopped;
    ExitCode::from(if stopped { exit::STOPPED } else { exit::FAILED })
}

/// Help and the version, on standard output; or what is wrong with the command line, on standard error.
/// What was typed is printed again, so it is made safe to print before the parser quotes it.
pub(crate) fn tell_of_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let colour = screen::has_colour(&std::io::stdout());
        return match output::text(&rendered(error, colour), colour) {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => tell(&error),
        };
    }
    let colour = screen::has_colour(&std::io::stderr());
    let typed = std::env::args_os().map(|word| Name::from_bytes(word.as_bytes()).to_string());
    // a word that is refused for its bytes alone is accepted now: then the parser's own text is all there is
    match Cli::try_parse_from(typed) {
        Err(safe) if safe.use_stderr() => output::error_text(&rendered(&safe, colour), colour),
        _ => output::error_text(&rendered(error, false), false),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE))
}

fn rendered(error: &clap::Error, colour: bool) -> String {
    let text = error.render();
    if colour { text.ansi().to_string() } else { text.to_string() }
}

/// A defect of ours, in our words. The release build aborts then, which starts an undo of what is lent.
pub(crate) fn tell_of_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
    let what = Name::from(message.unwrap_or("no reason was given"));
    output::message(format_args!("internal error: {what}{place}; this is a defect of pagewise"));
    let back = if Rescue::is_ready() {
        "what was lent is being put back; afterwards `pagewise undo` says if anything is left; "
    } else {
        ""
    };
    output::hint(format_args!("{back}report it with the line above and the command"));
}
