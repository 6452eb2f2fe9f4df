// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs another verb of this program as a process, and reads the JSON document that it prints.
//!
//! `scan` gives up the right to change anything before it reads memory, so it cannot run in the
//! process that changes settings later. Documents are passed between the processes in memory
//! (memfd), never on a disk.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use pagewise_model::Name;
use pagewise_observe::PROGRAM_FOLDERS;
use pagewise_terminal::interrupt::{Interrupted, Stop};
use pagewise_terminal::{Global, exit};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;

use crate::again;

/// Maximum bytes of a verb's document; no document of pagewise is larger.
const LONGEST: u64 = 64 << 20;

/// A document in memory, which is passed to a verb that reads a file.
pub(super) struct Passed(File);

impl Passed {
    pub(super) fn new(document: &Value) -> anyhow::Result<Self> {
        // without CLOEXEC, because the verb that is started next opens the file by its descriptor
        // number
        let mut file = File::from(memfd_create("pagewise-tune", MemfdFlags::empty())?);
        file.write_all(document.to_string().as_bytes())?;
        Ok(Self(file))
    }

    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// Runs another verb of pagewise and reads its document. The verb shows its own progress and
/// errors.
///
/// # Errors
/// If the verb exits with a status other than 0, or if somebody stops this program.
pub(super) fn run_for_document(
    global: &Global,
    words: &[&str],
    stop: &Stop,
) -> anyhow::Result<Value> {
    let verb = words.first().copied().unwrap_or_default();
    let mut command = again::pagewise_command();
    command.args(words).arg("--json").stdin(Stdio::null()).stdout(Stdio::piped());
    if global.quiet {
        command.arg("--quiet");
    }
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting pagewise {verb}"))?;
    let mut text = String::new();
    let out = child.stdout.take().context("no pipe")?;
    let read = out.take(LONGEST).read_to_string(&mut text);
    let status = child.wait()?;
    read.with_context(|| format!("reading what pagewise {verb} printed"))?;
    // a verb that handles Ctrl-C itself reports that by its exit status
    if stop.is_asked() || status.code() == Some(exit::STOPPED.into()) {
        bail!(Interrupted { after: begun.elapsed() });
    }
    if !status.success() {
        bail!("pagewise {verb} ended with {status}");
    }
    serde_json::from_str(&text)
        .with_context(|| format!("pagewise {verb}: {}", Name::from(text.trim())))
}

/// Undoes a plan if tune is killed on a machine where no systemd timer does that: a shell that
/// waits for a line from this process. If this process ends without writing the line, the shell
/// reads the end of the pipe and undoes the plan. The shell does not survive a reboot.
pub(super) struct Guard(ChildStdin);

/// The shell's script. If `apply` still runs, it holds the lock, so the script tries again for ten
/// minutes.
const GUARD: &str = r#"read -r finished && exit 0
tries=0
while [ $tries -lt 120 ]; do
    "$0" undo "$1" && exit 0
    tries=$((tries + 1))
    sleep 5
done"#;

impl Guard {
    /// Starts to guard the plan with this id.
    ///
    /// # Errors
    /// If there is no shell.
    #[expect(clippy::disallowed_methods, reason = "no other program than this one")]
    pub(super) fn start(plan: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", GUARD]).arg(program).arg(plan);
        // the command sleep must be the distribution's, whatever PATH the user has; undo needs the
        // two folders
        let kept = ["PAGEWISE_STATE", "PAGEWISE_LOCK"];
        shell.env_clear().env("PATH", PROGRAM_FOLDERS);
        shell.envs(kept.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C at the terminal must reach tune alone
        let mut child = shell.process_group(0).spawn().context("starting /bin/sh")?;
        Ok(Self(child.stdin.take().context("no pipe")?))
    }

    /// Ends the guard: the plan is kept, or already undone.
    pub(super) fn finish(mut self) {
        // an error means that the shell was killed, so there is nothing left to end
        let _ = self.0.write_all(b"finished\n");
    }
}
