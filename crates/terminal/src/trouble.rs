// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints errors: what happened, why, and what to do next.

use std::os::unix::ffi::OsStrExt;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;
use pagewise_model::{Advice, Name};

use crate::{exit, output, screen};

/// An error, or one of its causes.
pub type Cause = dyn std::error::Error + 'static;
/// Recognises errors of one type that provide additional advice; `None` for all others.
pub type Adviser = fn(&Cause) -> Option<&dyn Advice>;

/// The [`Adviser`] that recognises `T`.
pub fn adviser<T: Advice + 'static>(cause: &Cause) -> Option<&dyn Advice> {
    cause.downcast_ref::<T>().map(|error| error as &dyn Advice)
}

/// The first answer to one question (state or next step) among the causes of an error, the
/// outermost first.
fn find_advice(
    error: &anyhow::Error,
    advisers: &[Adviser],
    ask: fn(&dyn Advice) -> Option<String>,
) -> Option<String> {
    error.chain().find_map(|cause| advisers.iter().find_map(|adviser| ask(adviser(cause)?)))
}

/// Prints the error with its causes, the resulting state, and what to do next, if an adviser knows
/// it.
pub fn print_error(error: &anyhow::Error, advisers: &[Adviser]) {
    let state =
        find_advice(error, advisers, |error| error.state()).map(|state| format!("; {state}"));
    output::print_message(format_args!("{error:#}{}", state.unwrap_or_default()));
    find_advice(error, advisers, |error| error.next()).iter().for_each(output::print_hint);
}

/// Prints help and the version to standard output, or an error in the command line to standard
/// error. The message of the parser `P` quotes the typed arguments, so these are made safe to print
/// first.
pub fn print_usage_error<P: Parser>(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let colour = screen::has_colour(&std::io::stdout());
        return match output::print_text(&render(error, colour), colour) {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => {
                print_error(&error, &[]);
                ExitCode::from(exit::FAILED)
            }
        };
    }
    let colour = screen::has_colour(&std::io::stderr());
    let typed = std::env::args_os().map(|word| Name::from_bytes(word.as_bytes()).to_string());
    // the parser may accept an argument whose unsafe bytes were made visible; then the message
    // about the original argument is printed
    match P::try_parse_from(typed) {
        Err(safe) if safe.use_stderr() => output::print_error_text(&render(&safe, colour), colour),
        _ => output::print_error_text(&render(error, false), false),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE))
}

fn render(error: &clap::Error, colour: bool) -> String {
    let text = error.render();
    if colour { text.ansi().to_string() } else { text.to_string() }
}

/// Reports a panic as a bug of pagewise, with what to do next; `first` is printed before that.
pub fn print_panic(panic: &PanicHookInfo<'_>, first: Option<&str>) {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
    let what = Name::from(message.unwrap_or("no reason was given"));
    output::print_message(format_args!(
        "internal error: {what}{place}; this is a defect of pagewise"
    ));
    let first = first.map(|first| format!("{first}; ")).unwrap_or_default();
    output::print_hint(format_args!("{first}report it with the line above and the command"));
}
