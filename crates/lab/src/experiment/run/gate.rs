// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts a process that waits before it executes the program of a run.
//!
//! The process is a shell that joins the cgroup, reports that it is ready, and waits for a line of
//! input. So the resources that starting it takes are measured separately from those of the
//! program.

#![expect(clippy::disallowed_methods, reason = "it starts the command, which ends with its parent")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pagewise_guest::program as guest_program;

use super::setup::{NotRun, StartedProgram, run_failure};
use crate::experiment::mark::LineFinder;
use crate::experiment::output::Output;

/// A shell script that starts the command of a run. It exits with 125 if its parent is no longer
/// the process `$0`. Otherwise it joins the cgroup `$1` (unless that is empty), waits for a line of
/// standard input, and executes its other arguments.
const GATE: &str = r#"[ "$PPID" = "$0" ] || exit 125
[ -z "$1" ] || echo $$ > "$1/cgroup.procs" || exit 125
shift
echo
read -r word || exit 125
exec "$@" </dev/null"#;

/// A shell that waits before it executes the command.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) child: Child,
    output: Option<File>,
}

impl Gate {
    /// Starts the shell, and returns when it is ready.
    pub(super) fn open(program: &StartedProgram<'_>) -> Result<Self, NotRun> {
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| run_failure("a pipe", &error))?;
        let child =
            spawn(program, to).map_err(|error| run_failure("starting the command", &error))?;
        let mut gate = Self { child, output: None };
        let mut message = File::from(from);
        let mut first = [0];
        if message.read(&mut first).is_ok_and(|read| read == 1) && first == *b"\n" {
            gate.output = Some(message);
            return Ok(gate);
        }
        let mut why = String::from_utf8_lossy(&first).into_owned();
        let _ = message.take(4096).read_to_string(&mut why);
        Err(run_failure("starting the command", &why.trim_matches(['\0', '\n'])))
    }

    /// Lets the shell execute the command.
    pub(super) fn let_pass(&mut self, finder: Option<LineFinder>) -> Result<Output, NotRun> {
        let mut word = self.child.stdin.take().ok_or_else(|| run_failure("the gate", &"closed"))?;
        word.write_all(b"go\n").map_err(|error| run_failure("the gate", &error))?;
        let output = self.output.take().ok_or_else(|| run_failure("the gate", &"passed"))?;
        Ok(Output::read_in_thread(output, finder))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the shell in a new process group, so that Ctrl-C at the terminal is sent to this program
/// only.
fn spawn(
    program: &StartedProgram<'_>,
    output: OwnedFd,
) -> Result<Child, Box<dyn std::error::Error>> {
    let group = program.group.map_or(OsStr::new(""), |group| group.folder.as_os_str());
    let error = output.try_clone()?;
    let child = Command::new(guest_program::find("setpriv", "util-linux")?)
        .args(["--pdeathsig", "KILL", "--"])
        .arg(guest_program::find("sh", "dash")?)
        .args(["-c", GATE])
        .arg(std::process::id().to_string())
        .arg(group)
        .arg(program.file)
        .args(program.arguments)
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(error)
        .process_group(0)
        .spawn()?;
    Ok(child)
}
