// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts programs in the project's folder; errors name the program that failed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Path of the project's folder.
pub(crate) fn project() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Makes a command that runs in the project's folder.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(project());
    command
}

/// Makes a command of the cargo that started this program.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The platform for which the compiler builds by default.
pub(crate) fn host_target() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = output(program(rustc).arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// Runs a command. If it does not succeed, the error names the command.
pub(crate) fn run_to_success(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| show(command))?;
    ensure!(status.success(), "{}: {status}", show(command));
    Ok(())
}

/// Returns the output of a command. If it does not succeed, the error names the command.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    command.stderr(Stdio::inherit());
    let output = command.output().with_context(|| show(command))?;
    ensure!(output.status.success(), "{}: {}", show(command), output.status);
    String::from_utf8(output.stdout).with_context(|| show(command))
}

/// Returns the output of a command that reads `input`. If it does not succeed, the error names the
/// command.
pub(crate) fn output_of(command: &mut Command, input: &str) -> Result<String> {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.with_context(|| show(command))?;
    let (stdin, text) = (child.stdin.take(), input.to_owned());
    // a separate thread writes, because the program may print before it has read everything
    let writer = std::thread::spawn(move || {
        stdin.map_or(Ok(()), |mut stdin| std::io::Write::write_all(&mut stdin, text.as_bytes()))
    });
    let output = child.wait_with_output().with_context(|| show(command))?;
    ensure!(output.status.success(), "{}: {}", show(command), output.status);
    ensure!(matches!(writer.join(), Ok(Ok(()))), "{}: did not read its input", show(command));
    String::from_utf8(output.stdout).with_context(|| show(command))
}

/// Files of the project that match one of git's patterns and are not ignored by git; without
/// patterns, all files.
pub(crate) fn files(patterns: &[&str]) -> Result<Vec<String>> {
    // In CI, the checkout may belong to another user.
    let trust = ["-c", "safe.directory=*"];
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "--"];
    let files = output(program("git").args(trust).args(list).args(patterns))?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Path and text of each file that matches one of git's patterns.
pub(crate) fn texts(patterns: &[&str]) -> Result<Vec<(String, String)>> {
    let read = |path: String| {
        let text = std::fs::read_to_string(project().join(&path)).with_context(|| path.clone())?;
        Ok((path, text))
    };
    let files = files(patterns)?.into_iter();
    // git still lists a file that was removed without a commit
    files.filter(|path| project().join(path).exists()).map(read).collect()
}

/// Builds the program of this tree with the profile of `cargo test`, so that nothing is compiled
/// twice; returns its path.
pub(crate) fn built_program() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--locked", "--no-run", "--quiet", "--test", "program"]);
    let messages = output(build.args(["--message-format", "json-render-diagnostics"]))?;
    let program = messages.lines().rev().find_map(program_in);
    program.context("cargo named no program: expected a binary target `pagewise`")
}

/// The path of the built program, from a message of cargo; `None` if the message is about something
/// else.
fn program_in(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let is_ours = target["name"] == "pagewise" && target["kind"][0] == "bin";
    let is_test = message["profile"]["test"].as_bool()?;
    (is_ours && !is_test).then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

fn show(command: &Command) -> String {
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
