// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts programs in the project's folder and says which one failed.

use std::path::{Path, PathBuf};
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

/// The same for a program that reads `input`.
pub(crate) fn output_of(command: &mut Command, input: &str) -> Result<String> {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.with_context(|| shown(command))?;
    let (stdin, text) = (child.stdin.take(), input.to_owned());
    // by a thread: the program may print before it has read all
    let writer = std::thread::spawn(move || {
        stdin.map_or(Ok(()), |mut stdin| std::io::Write::write_all(&mut stdin, text.as_bytes()))
    });
    let output = child.wait_with_output().with_context(|| shown(command))?;
    ensure!(output.status.success(), "{}: {}", shown(command), output.status);
    ensure!(matches!(writer.join(), Ok(Ok(()))), "{}: did not read its input", shown(command));
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

/// The program of this tree, as `cargo test` builds it: nothing is compiled twice for it.
pub(crate) fn built_program() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--locked", "--no-run", "--quiet", "--test", "program"]);
    let messages = output(build.args(["--message-format", "json-render-diagnostics"]))?;
    let program = messages.lines().rev().find_map(program_in);
    program.context("cargo named no program: expected a binary target `pagewise`")
}

/// The file that a message of cargo names, if it is of our program.
fn program_in(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let is_ours = target["name"] == "pagewise" && target["kind"][0] == "bin";
    let is_test = message["profile"]["test"].as_bool()?;
    (is_ours && !is_test).then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let message = |kind: &str, test: bool| {
            let target = serde_json::json!({"name": "pagewise", "kind": [kind]});
            let profile = serde_json::json!({"test": test});
            serde_json::json!({"target": target, "profile": profile, "executable": "/x"})
                .to_string()
        };
        assert_eq!(program_in(&message("bin", false)), Some("/x".into()));
        assert_eq!(program_in(&message("bin", true)), None);
        assert_eq!(program_in(&message("test", true)), None);
        assert_eq!(program_in("{\"reason\":\"build-finished\"}"), None);
    }
}
