// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names or removes a file that a confined process has filled; a helper process does that.
//!
//! A process that reads other programs' pages may not rename or remove anything (see
//! `pagewise-sandbox`). So before it gives these rights up it starts this program again, as a
//! helper that receives the two paths and waits on a pipe. If the confined process writes one word
//! to the pipe, the helper renames the file. If the pipe closes without that word (an error, a full
//! disk, a crash, SIGKILL) the helper removes the file. The confined process chooses neither path:
//! an attacker who takes it over can only put pages of his choice into the file that the user
//! named.
//!
//! The helper has a process group of its own, so that Ctrl-C does not end it before the file is
//! renamed or removed.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::Context;
use pagewise_terminal::output;

use crate::again;

/// What the confined process writes to the helper once the file is complete.
const WHOLE: &[u8] = b"whole";
/// What the helper answers if a file with the final name already exists. After any other error it
/// answers with the errno.
const TAKEN: &str = "taken";

/// The confined process's handle of the helper.
#[derive(Debug)]
pub(crate) struct Keeper {
    helper: Child,
    path: PathBuf,
}

impl Keeper {
    /// Creates the file, readable by its owner alone, and starts the helper. Call it before
    /// confinement.
    pub(crate) fn start(path: &Path) -> anyhow::Result<(Self, File)> {
        let (unfinished, file) = output::begin_file(path)?;
        match spawn(&unfinished, path) {
            Ok(helper) => Ok((Self { helper, path: path.to_owned() }, file)),
            Err(error) => {
                output::remove(&unfinished);
                Err(error).context("starting the helper that names the file")
            }
        }
    }

    /// Lets the helper give the file its final name; call it when all data is on the disk.
    pub(crate) fn name_file(mut self) -> anyhow::Result<()> {
        let answer = self.finish_helper(WHOLE).with_context(|| self.path.display().to_string())?;
        match answer.as_str() {
            "" => Ok(()),
            TAKEN => Err(output::explain_create_error(&self.path, ErrorKind::AlreadyExists.into())),
            errno => {
                let errno = errno.parse().map(io::Error::from_raw_os_error);
                let error = errno.unwrap_or_else(|_| io::Error::other("its helper was ended"));
                Err(output::explain_create_error(&self.path, error))
            }
        }
    }

    /// Lets the helper remove the file, because it could not be filled.
    pub(crate) fn remove_file(mut self, error: &io::Error) -> anyhow::Error {
        // the helper also removes the file if this write fails, because the pipe then closes
        let _ = self.finish_helper(b"");
        output::explain_fill_error(error).context(self.path.display().to_string())
    }

    /// Sends the word, and returns the helper's answer once the helper has named or removed the
    /// file.
    fn finish_helper(&mut self, word: &[u8]) -> io::Result<String> {
        if let Some(mut pipe) = self.helper.stdin.take() {
            pipe.write_all(word)?;
        }
        let mut answer = String::new();
        if let Some(pipe) = self.helper.stdout.take() {
            pipe.take(64).read_to_string(&mut answer)?;
        }
        Ok(answer)
    }
}

impl Drop for Keeper {
    /// Closes the pipe and waits for the helper, which then removes the file unless it has its final
    /// name.
    fn drop(&mut self) {
        let _ = self.finish_helper(b"");
    }
}

fn spawn(unfinished: &Path, path: &Path) -> io::Result<Child> {
    let mut command = again::pagewise_command();
    command.arg("settle-file").arg("--").arg(unfinished).arg(path);
    command.env_clear().process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// The main function of the helper process: gives the file its final name, or removes it.
pub(crate) fn name_or_remove_file(unfinished: &Path, path: &Path) -> anyhow::Result<()> {
    let mut output = Vec::new();
    let heard = io::stdin().lock().take(WHOLE.len() as u64 + 1).read_to_end(&mut output);
    if heard.is_err() || output != WHOLE {
        output::remove(unfinished);
        return Ok(());
    }
    let answer = match output::name_or_remove(unfinished, path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => TAKEN.to_owned(),
        Err(error) => error.raw_os_error().unwrap_or(0).to_string(),
    };
    output::write_out(answer.as_bytes())?;
    Ok(())
}
