// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows text in the user's pager, which a helper process starts.
//!
//! The process that reads a recording or page contents may not start programs (see
//! `pagewise-sandbox`). So before it gives this right up it starts this program again, as a helper that
//! reads text from a pipe. When the text is complete, the helper starts the pager with it. Without
//! text, because of an error or of Ctrl-C, the pager is not started, so that an error message is
//! printed to the terminal in its usual state.
//!
//! The environment variable PAGER names the pager, as for man and git; if it is not set, `less` is used.
//! `less` then keeps colours, leaves the text on the screen, and ends at once if it fits on the screen.
//! It is told to run no other program (LESSSECURE): a user who may run only `pagewise` as root would
//! otherwise get a shell. `sudo -E` keeps PAGER and PATH, so root takes of them only a pager that is
//! known as one, has no arguments (they could be those of a shell) and that no other user can replace;
//! otherwise the text is printed without a pager.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pagewise_observe::{acts_as_root, check_trusted_file, find_program};
use pagewise_terminal::{interrupt, screen};

use crate::again;

const USUAL: &str = "less";
/// Options of `less`: end if the text fits on the screen, keep colours, do not clear the screen.
const LESS: &str = "FRX";

/// The handle of the helper that shows text in the pager.
#[derive(Debug)]
pub(crate) struct Pager(Child);

impl Pager {
    /// Starts the helper if standard output is a terminal and there is a pager. Call it before
    /// confinement.
    pub(crate) fn start() -> Option<Self> {
        if !screen::is_terminal() {
            return None;
        }
        choose_pager()?;
        let mut command = again::pagewise_command();
        command.arg("show-in-pager").stdin(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().ok().map(Self)
    }

    /// Shows the text, and waits until the user ends the pager. Ctrl-C is then for the pager.
    ///
    /// # Errors
    /// If the helper has ended.
    pub(crate) fn show(mut self, text: &str) -> io::Result<()> {
        interrupt::leave_to_child()?;
        if let Some(mut pipe) = self.0.stdin.take() {
            pipe.write_all(text.as_bytes())?;
        }
        // a confined process may not wait for its child: the helper holds this pipe until it ends
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_end(&mut Vec::new())?;
        }
        Ok(())
    }
}

/// The main function of the helper process: reads all text, then runs the pager.
pub(crate) fn show_in_pager() -> anyhow::Result<()> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    let words = choose_pager();
    let Some((program, arguments)) = words.as_deref().and_then(<[OsString]>::split_first) else {
        return Ok(());
    };
    if text.is_empty() {
        return Ok(());
    }
    interrupt::leave_to_child()?;
    let mut pager = start(program, arguments)?;
    if let Some(mut pipe) = pager.stdin.take() {
        // a pager that is ended before it read all of it is no error
        let _ = pipe.write_all(&text);
    }
    pager.wait()?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the user's own pager")]
fn start(program: &OsStr, arguments: &[OsString]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).env("LESSSECURE", "1").env("PAGERSECURE", "1");
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    // our standard error is the pipe that the parent waits for
    command.stderr(Stdio::from(rustix::io::dup(io::stdout())?)).spawn()
}

/// The pager that this process may start, by its path, and its arguments.
fn choose_pager() -> Option<Vec<OsString>> {
    let path = std::env::var_os("PATH");
    let words = parse_pager(std::env::var_os("PAGER").as_deref(), path.as_deref())?;
    if acts_as_root() { accept_for_root(words) } else { Some(words) }
}

/// Programs that only show text.
const PAGERS: [&str; 4] = ["less", "more", "most", "pager"];

/// What root takes of these words.
fn accept_for_root(mut words: Vec<OsString>) -> Option<Vec<OsString>> {
    let name = Path::new(words.first()?).file_name()?.to_str()?.to_owned();
    if !PAGERS.contains(&&*name) || words.len() > 1 {
        return None;
    }
    let program = words.first_mut()?;
    if Path::new(program).components().count() == 1 {
        *program = find_program(program).ok()?.into();
    } else {
        check_trusted_file(Path::new(program)).ok()?;
    }
    Some(words)
}

/// The pager and its arguments; `None` if the user wants none, or if there is no such program.
fn parse_pager(pager: Option<&OsStr>, path: Option<&OsStr>) -> Option<Vec<OsString>> {
    let pager = pager.map_or(Some(USUAL), OsStr::to_str)?;
    let words: Vec<OsString> = pager.split_whitespace().map(OsString::from).collect();
    let program = words.first().filter(|program| *program != "cat")?;
    let is_path = program.to_str().is_some_and(|program| program.contains('/'));
    let exists = if is_path {
        Path::new(program).is_file()
    } else {
        std::env::split_paths(path?).any(|folder| folder.join(program).is_file())
    };
    exists.then_some(words)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_environment_chooses_the_pager() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("less");
        assert_eq!(std::os::unix::fs::symlink("/proc/self/exe", &path).ok(), Some(()));
        let chosen = |pager: Option<&str>| {
            parse_pager(pager.map(OsStr::new), Some(folder.path().as_os_str()))
        };
        assert_eq!(chosen(None), Some(vec!["less".into()]));
        assert_eq!(chosen(Some("less -R")), Some(vec!["less".into(), "-R".into()]));
        assert_eq!(chosen(Some(path.to_str().unwrap())), Some(vec![path.clone().into()]));
        for none in ["", " ", "cat", "more", "/nowhere/less"] {
            assert_eq!(chosen(Some(none)), None, "{none}");
        }
        assert_eq!(parse_pager(None, None), None);
    }

    /// Of what `sudo -E` keeps of another user.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "it makes the pagers that it looks for")]
    fn root_starts_only_pagers_that_no_other_user_can_replace() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            OsString::from(path)
        };
        let (pager, other) = (path("pager"), path("other"));
        assert_eq!(accept_for_root(vec![pager.clone()]), Some(vec![pager.clone()]));
        assert_eq!(accept_for_root(vec![other]), None);
        assert_eq!(accept_for_root(vec![pager.clone(), "-c".into()]), None);
        assert_eq!(accept_for_root(vec!["sh".into()]), None);
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(accept_for_root(vec![pager]), None);
    }
}
