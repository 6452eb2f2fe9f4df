// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts the command, forwards signals to it, and exits with its status.
//!
//! Ctrl-C at a terminal reaches the command without pagewise, so it is not forwarded: the command
//! would get the signal twice.

use pagewise_model::Refusal;
use pagewise_observe::{ProgramError, acts_as_root, find_program};
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use pagewise_terminal::{Outcome, exit, output};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::check::Check;

type Set = [(&'static str, String)];

#[expect(clippy::disallowed_methods, reason = "the user's own command")]
fn command(words: &[String], set: &Set) -> anyhow::Result<Command> {
    let Some((program, arguments)) = words.split_first() else {
        let what = "expected a command after --".to_owned();
        anyhow::bail!(Refusal::with_advice(what, "pagewise thp run -- CMD"))
    };
    let mut command = Command::new(path_for(program)?);
    command.arg0(program);
    command.args(arguments).envs(set.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

/// The path of the program to start: for root, one that no other user can replace. If there is no
/// such program, starting it fails later with a better message.
fn path_for(name: &str) -> anyhow::Result<PathBuf> {
    if name.contains('/') || !acts_as_root() {
        return Ok(name.into());
    }
    match find_program(name.as_ref()) {
        Ok(path) => Ok(path),
        Err(ProgramError::Missing { .. }) => Ok(name.into()),
        Err(untrusted) => {
            let next = "give its path, or a PATH with folders that only root can change";
            Err(Refusal::with_advice(untrusted.to_string(), next).into())
        }
    }
}

/// Replaces this process by the command (exec); no check of its huge pages can follow.
pub(super) fn replace_process(words: &[String], set: &Set) -> anyhow::Result<Outcome> {
    let error = command(words, set)?.exec();
    outcome_of_failed_start(words, error)
}

/// Starts the command, checks its huge pages once, and exits with the command's status.
pub(super) fn run(words: &[String], set: &Set, check: Check) -> anyhow::Result<Outcome> {
    // listen before the command is started, so that its end (SIGCHLD) is not missed
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let mut child = match command(words, set)?.spawn() {
        Ok(child) => child,
        Err(error) => return outcome_of_failed_start(words, error),
    };
    check.begin(child.id());
    for signal in signals.forever() {
        if signal != SIGCHLD {
            forward_signal(&child, signal);
        } else if let Some(status) = child.try_wait()? {
            return Ok(Outcome::Status(shell_status(status)));
        }
    }
    Ok(Outcome::Status(shell_status(child.wait()?)))
}

fn outcome_of_failed_start(words: &[String], error: std::io::Error) -> anyhow::Result<Outcome> {
    let name = words.first().map_or("", String::as_str);
    if error.kind() == ErrorKind::NotFound {
        output::print_message(format_args!("{name}: no such command"));
        return Ok(Outcome::Status(exit::NOT_FOUND));
    }
    Err(anyhow::Error::new(error).context(name.to_owned()))
}

fn forward_signal(child: &Child, signal: i32) {
    let from_terminal = [SIGINT, SIGQUIT].contains(&signal) && std::io::stderr().is_terminal();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some((pid, signal)) = pid.zip(Signal::from_named_raw(signal)).filter(|_| !from_terminal)
    {
        // the command may have ended just now, so the error is ignored
        let _ = kill_process(pid, signal);
    }
}

/// The exit status that a shell would report for the command.
fn shell_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(exit::FAILED),
        (None, Some(signal)) => u8::try_from(signal).map_or(exit::FAILED, exit::of_signal),
        (None, None) => exit::FAILED,
    }
}
