// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts programs in the project's folder and says which one failed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The project's folder.
pub(crate) fn project() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A program that will run in the project's folder.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(project());
    command
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs it to its end; anything but success is an error that names it.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| shown(command))?;
    ensure!(status.success(), "{}: {status}", shown(command));
    Ok(())
}

/// What it prints; anything but success is an error that names it.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    command.stderr(Stdio::inherit());
    let output = command.output().with_context(|| shown(command))?;
    ensure!(output.status.success(), "{}: {}", shown(command), output.status);
    String::from_utf8(output.stdout).with_context(|| shown(command))
}

/// Files of the project that match one of git's patterns and are not ignored; all files without patterns.
pub(crate) fn files(patterns: &[&str]) -> Result<Vec<String>> {
    // CI may check out as another user than it runs as.
    let trust = ["-c", "safe.directory=*"];
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "--"];
    let files = output(program("git").args(trust).args(list).args(patterns))?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Path and text of the files that match one of git's patterns.
pub(crate) fn texts(patterns: &[&str]) -> Result<Vec<(String, String)>> {
    let read = |path: String| {
        let text = std::fs::read_to_string(project().join(&path)).with_context(|| path.clone())?;
        Ok((path, text))
    };
    let files = files(patterns)?.into_iter();
    // A file that was removed and not yet committed is still in git's list.
    files.filter(|path| project().join(path).exists()).map(read).collect()
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
