// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors as the user sees them: what, why, and what to do next, once.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;
use pagewise_apply::Rescue;
use pagewise_apply::act::{ActError, MergeError};
use pagewise_lab::experiment::Trouble;
use pagewise_model::{Name, Refusal};
use pagewise_observe::{OpenError, UserFileError};

use crate::cli::Cli;
use crate::{exit, output, screen};

/// An error that knows the way on.
#[derive(Debug)]
pub(crate) struct Advised {
    /// What, expected and found.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) next: &'static str,
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Advised {}

/// The user stopped us.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// How long we had waited.
    pub(crate) after: std::time::Duration,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        write!(f, "stopped by Ctrl-C after {seconds:.1} s; nothing was measured or written")
    }
}

impl std::error::Error for Interrupted {}

/// The user stopped us, and what we had started goes on.
#[derive(Debug)]
pub(crate) struct LeftRunning {
    /// As `zmerge0`.
    pub(crate) device: String,
}

impl fmt::Display for LeftRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "stopped by Ctrl-C; the pass over {} goes on in the kernel, which cannot call it off",
            self.device
        )
    }
}

impl std::error::Error for LeftRunning {}

/// Prints the error and says how to exit.
pub(crate) fn tell(error: &anyhow::Error) -> ExitCode {
    output::message(format_args!("{error:#}"));
    let lab = error.chain().find_map(|cause| cause.downcast_ref::<pagewise_guest::Error>());
    let apply = error.chain().find_map(|cause| cause.downcast_ref::<pagewise_apply::Error>());
    let refusal = error.chain().find_map(|cause| cause.downcast_ref::<Refusal>());
    let next = next(error).map(str::to_owned);
    let next = next.or_else(|| lab.and_then(pagewise_guest::Error::next));
    let next = next.or_else(|| apply.and_then(pagewise_apply::Error::next));
    let act = error.chain().find_map(|cause| cause.downcast_ref::<ActError>());
    let next = next.or_else(|| act.and_then(ActError::next).map(str::to_owned));
    let merge = error.chain().find_map(|cause| cause.downcast_ref::<MergeError>());
    let next = next.or_else(|| merge.and_then(MergeError::next).map(str::to_owned));
    let trial = error.chain().find_map(|cause| cause.downcast_ref::<Trouble>());
    let next = next.or_else(|| trial.and_then(Trouble::next));
    if let Some(next) = next.or_else(|| refusal.and_then(|refusal| refusal.next.clone())) {
        output::hint(next);
    }
    let stopped = error.is::<Interrupted>() || error.is::<LeftRunning>();
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
    let said = payload.downcast_ref::<&str>().copied();
    let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
    let what = Name::from(said.unwrap_or("no reason was given"));
    output::message(format_args!("internal error: {what}{place}; this is a defect of pagewise"));
    let back = if Rescue::is_ready() {
        "what was lent is being put back; afterwards `pagewise undo` says if anything is left; "
    } else {
        ""
    };
    output::hint(format_args!("{back}report it with the line above and the command"));
}

fn next(error: &anyhow::Error) -> Option<&'static str> {
    if error.is::<LeftRunning>() {
        return Some("`pagewise status` says how far it is");
    }
    let advised = error.chain().find_map(|cause| cause.downcast_ref::<Advised>());
    let opening = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    let named = error.chain().find_map(|cause| cause.downcast_ref::<UserFileError>());
    let next = advised.map(|advised| advised.next).or(opening.map(OpenError::next));
    next.or(named.map(UserFileError::next))
}
