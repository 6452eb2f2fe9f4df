// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs other programs to their end: what they print, or why they could not.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::Error;

/// Finds a program in PATH, or says which package has it.
pub(crate) fn find(name: &str, package: &'static str) -> Result<PathBuf, Error> {
    find_in(&env::var_os("PATH").unwrap_or_default(), name, package)
}

/// Finds a program that Debian keeps where only root looks: anybody may run it.
pub(crate) fn find_for_root(name: &str, package: &'static str) -> Result<PathBuf, Error> {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    find_in(&path, name, package)
}

fn find_in(path: &OsStr, name: &str, package: &'static str) -> Result<PathBuf, Error> {
    env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
        .ok_or_else(|| Error::Missing { program: name.to_owned(), package })
}

fn is_program(path: &std::path::Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Runs it; its standard output, or the end of what it said.
pub(crate) fn output(name: &str, command: &mut Command) -> Result<String, Error> {
    output_of(name, command.stdin(Stdio::null()))
}

/// The same with the standard input that it was given.
pub(crate) fn output_of(name: &str, command: &mut Command) -> Result<String, Error> {
    let failed = |said: String| Error::Failed { program: name.to_owned(), said };
    let ended = command.output().map_err(|error| failed(error.to_string()))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = last_lines(&String::from_utf8_lossy(&ended.stderr), 3).join("; ");
    Err(failed(if said.is_empty() { ended.status.to_string() } else { said }))
}

/// The last lines that are not empty.
pub(crate) fn last_lines(text: &str, count: usize) -> Vec<String> {
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_program_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one >&2; echo two >&2; exit 3"]);
        let error = output("sh", &mut command).unwrap_err();
        assert_eq!(error.to_string(), "sh: one; two");
        let mut silent = Command::new("false");
        assert!(output("false", &mut silent).unwrap_err().to_string().contains("exit status: 1"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let error = find("surely-no-program-of-that-name", "some-package").unwrap_err();
        assert_eq!(error.next().as_deref(), Some("apt-get install some-package"));
        assert!(find("sh", "dash").is_ok());
    }
}
