// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is printed if no verb starts: the command line is wrong, or there is no memory. A monitoring
//! system that asked for `--nagios` gets the state UNKNOWN, because it takes other exit statuses for
//! states of the machine.

use std::ffi::OsStr;
use std::process::ExitCode;

use pagewise_model::ServiceState;
use pagewise_report::text;
use pagewise_terminal::{exit, output, trouble};

use crate::cli::Cli;

/// The exit status if there is no memory for this program; the reason has been printed.
pub(crate) fn report_lack_of_memory() -> ExitCode {
    if wants_nagios() {
        return print_unknown_state("there is no memory for the stack of this program");
    }
    ExitCode::from(exit::FAILED)
}

/// Reports a wrong command line, or prints the help that it asks for.
pub(crate) fn report_wrong_usage(error: &clap::Error) -> ExitCode {
    let status = trouble::print_usage_error::<Cli>(error);
    if error.use_stderr() && wants_nagios() {
        return print_unknown_state("wrong usage; standard error says what is wrong");
    }
    status
}

fn wants_nagios() -> bool {
    std::env::args_os().any(|word| word == OsStr::new("--nagios"))
}

fn print_unknown_state(why: &str) -> ExitCode {
    // if it cannot be printed, the exit status says the same
    let _ = output::print_text(&text::nagios_unknown(why), false);
    ExitCode::from(ServiceState::Unknown.exit_status())
}
