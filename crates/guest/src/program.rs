// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs other programs. None of them outlives the thread that started it.
//!
//! The kernel kills a child when its parent thread ends, if the child asked for that
//! (`PR_SET_PDEATHSIG`). The program setpriv makes this request, because making it here would need
//! unsafe code. If the parent ended before the request, the shell that starts setpriv notices that
//! its parent is another process, and starts nothing.

#![expect(clippy::disallowed_methods, reason = "it starts programs that end with their parent")]

use std::env;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pagewise_model::Name;
use pagewise_observe::{
    PROGRAM_FOLDERS, ProgramError, acts_as_root, find_program, find_system_program,
};

use crate::calls;
use crate::error::Error;
use crate::user::User;

/// The environment variables that root passes on: they are about languages and proxies, and apt
/// needs them.
const KEPT: [&str; 12] = [
    "LANG",
    "LC_ALL",
    "TERM",
    "TZ",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

/// Finds a program in PATH; the error names its package. If root runs this, folders and programs
/// that another user can change are skipped.
pub fn find(name: &str, package: &'static str) -> Result<PathBuf, Error> {
    find_program(name.as_ref()).map_err(|error| not_found(error, package))
}

/// Finds a program that Debian installs in /usr/sbin, which is not in every user's PATH.
pub(crate) fn find_for_root(name: &str, package: &'static str) -> Result<PathBuf, Error> {
    find_system_program(name.as_ref()).map_err(|error| not_found(error, package))
}

fn not_found(error: ProgramError, package: &'static str) -> Error {
    match error {
        ProgramError::Missing { name } => Error::Missing { program: name, package },
        ProgramError::Untrusted { path, why } => {
            Error::Unusable { path, what: format!("root does not start it: {why}") }
        }
    }
}

/// Whether there is an executable file at this path.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// A command for a program that ends with the thread that starts it, even if that thread is killed.
///
/// Root starts only programs that no other user can replace, and passes on no variable that could
/// make the program start or read something else (APT_CONFIG, TAR_OPTIONS, MKE2FS_CONFIG, TMPDIR
/// …).
pub(crate) fn command_killed_with_parent(program: &OsStr) -> Result<Command, Error> {
    let mut command = Command::new(find("setpriv", "util-linux")?);
    let mut program = PathBuf::from(program);
    if acts_as_root() {
        command
            .env_clear()
            .envs(KEPT.into_iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.env("PATH", PROGRAM_FOLDERS);
        if program.components().count() == 1 {
            let name = program.to_string_lossy().into_owned();
            program = find_program(program.as_ref()).map_err(|error| match error {
                ProgramError::Missing { .. } => {
                    Error::Failed { program: name, message: "not found in PATH".to_owned() }
                }
                untrusted @ ProgramError::Untrusted { .. } => not_found(untrusted, ""),
            })?;
        }
    }
    command.args(["--pdeathsig", "KILL", "--"]).arg(find("sh", "dash")?);
    command.args(["-c", r#"umask 022; [ "$PPID" = "$0" ] && exec "$@""#]);
    command.arg(std::process::id().to_string()).arg(program);
    Ok(command)
}

/// A command for a program without privileges that ends with the thread that starts it. The program
/// runs as this user, with these files open. It gets only those environment variables that say
/// where programs and libraries are. If root starts it, it does not get the one for libraries
/// either, because another user may have set it.
pub(crate) fn confined_command(
    program: &Path,
    user: User,
    group: Option<u32>,
    files: Vec<OwnedFd>,
) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    if acts_as_root() {
        command.env("PATH", PROGRAM_FOLDERS);
    } else {
        let kept = ["PATH", "LD_LIBRARY_PATH"];
        command.envs(kept.into_iter().filter_map(|name| Some((name, env::var_os(name)?))));
    }
    calls::confine(&mut command, user, group, files);
    command
}

/// Wraps a command so that its process ends with the thread that starts it.
fn wrap_to_be_killed(command: &Command) -> Result<Command, Error> {
    let mut leashed = command_killed_with_parent(command.get_program())?;
    leashed.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => leashed.env(name, value),
            None => leashed.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        leashed.current_dir(folder);
    }
    Ok(leashed)
}

/// Runs a command; returns its standard output, or an error with the end of its error output.
pub fn output(name: &str, command: &mut Command) -> Result<String, Error> {
    output_of(name, command, Stdio::null())
}

/// Like [`output`], for a command that reads this standard input.
pub(crate) fn output_of(name: &str, command: &Command, input: Stdio) -> Result<String, Error> {
    output_of_wrapped(name, wrap_to_be_killed(command)?.stdin(input))
}

/// Runs a command that is already wrapped by [`command_killed_with_parent`].
pub(crate) fn output_of_wrapped(name: &str, command: &mut Command) -> Result<String, Error> {
    let failed = |message: String| Error::Failed { program: name.to_owned(), message };
    let ended = command.output().map_err(|error| failed(error.to_string()))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let output = last_lines(&String::from_utf8_lossy(&ended.stderr), 3).join("; ");
    Err(failed(if output.is_empty() { ended.status.to_string() } else { output }))
}

/// The last `count` lines of a text that are not empty, escaped for printing.
pub fn last_lines(text: &str, count: usize) -> Vec<String> {
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    last.iter().map(|line| printable_line(line)).collect()
}

/// Escapes a line of output of another program, or of a guest, so that it cannot control a terminal
/// or begin another line.
pub fn printable_line(line: &str) -> String {
    Name::from(&*line.replace('\t', " ")).to_string()
}

#[cfg(test)]
mod tests {
    use pagewise_model::Advice;

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

    /// Output of other programs is escaped: otherwise a guest could print lines that look like
    /// Pagewise's own, or control the terminal.
    #[test]
    fn what_others_said_is_safe_to_print() {
        let message = "a\tb \x1b]0;x\x07\r\n\u{202e}c\u{85}d\n";
        assert_eq!(last_lines(message, 3), ["a b \\u{1b}]0;x\\u{7}", "\\u{202e}c\\u{85}d"]);
        assert_eq!(printable_line("why\npagewise: forged"), "why\\u{a}pagewise: forged");
    }

    #[test]
    fn a_parent_that_is_gone_gets_no_child() {
        let mut command = command_killed_with_parent("echo".as_ref()).unwrap();
        assert_eq!(command.arg("here").output().unwrap().stdout, b"here\n");
        let other = command.get_args().map(|word| match word.to_str() {
            Some(word) if word == std::process::id().to_string() => "1",
            word => word.unwrap(),
        });
        let mut orphan = Command::new(command.get_program());
        let ended = orphan.args(other).output().unwrap();
        assert!(!ended.status.success() && ended.stdout.is_empty());
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let error = find("surely-no-program-of-that-name", "some-package").unwrap_err();
        assert_eq!(error.next().as_deref(), Some("apt-get install some-package"));
        assert!(find("sh", "dash").is_ok());
    }
}
