// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor --journal`: entries in the systemd journal for findings that begin, worsen or end.
//!
//! The entries are handed to journald before the file of known findings is replaced: if this process
//! is killed in between, the next run writes them again, and none is lost.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pagewise_apply::{KnownFindingsFile, state_folder};
use pagewise_decide::follow::{Found, follow};
use pagewise_journald::{Entry, JournalSocket, SOCKET};
use pagewise_model::{ChangedFinding, Refusal};
use pagewise_report::text::journal_fields;
use pagewise_terminal::{Global, Outcome, output};
use rustix::fs::Access;
use rustix::io::Errno;

use super::{Diagnosis, ShownFindings, check_readings, read_accepted};
use crate::{cli, input};

/// Below the folder of journals, if systemd names no other.
const FOLDER: &str = "doctor";

pub(super) fn run(global: &Global, args: &cli::Doctor) -> anyhow::Result<Outcome> {
    refuse_others(global)?;
    let accepted = read_accepted(global, args)?;
    let socket = connect(Path::new(SOCKET))?;
    let file = KnownFindingsFile::open(&folder())?;
    let (before, damage) = file.read();
    if let Some(damage) = damage {
        output::message(format_args!("{damage}; every finding is taken for a new one"));
    }
    let host = input::open(global)?;
    let interval = input::interval(&host, global)?;
    check_readings(&interval.end)?;
    let all = Diagnosis::make(&host, &interval, false).all;
    let chosen = ShownFindings::select(all.clone(), &accepted);
    let followed = follow(
        &before,
        &Found {
            interval: &interval,
            all: &all,
            shown: &chosen.findings,
            ignored: &accepted.ignore,
            is_unreadable: &is_unreadable,
        },
    );
    for changed in &followed.changes {
        send(&socket, changed)?;
    }
    if followed.known != before {
        file.replace(&followed.known)?;
    }
    if global.verbose {
        let (written, open) = (followed.changes.len(), followed.known.findings.len());
        output::message(format_args!(
            "{written} entries written to the journal; {open} findings have not ended"
        ));
    }
    Ok(Outcome::Done)
}

/// `--journal` is about this machine, and prints nothing.
fn refuse_others(global: &Global) -> anyhow::Result<()> {
    if global.root.is_some() {
        let what = "doctor --journal: the journal is of this machine, and --root names another";
        anyhow::bail!(Refusal::advised(what, "print the findings: pagewise doctor --root …"));
    }
    if global.json {
        let what = "doctor --journal prints nothing, so it has no --json";
        anyhow::bail!(Refusal::advised(what, "read the entries: journalctl -o json -t pagewise"));
    }
    Ok(())
}

fn folder() -> PathBuf {
    let named = std::env::var_os("STATE_DIRECTORY").filter(|it| !it.is_empty());
    named.map_or_else(|| state_folder().join(FOLDER), PathBuf::from)
}

fn connect(socket: &Path) -> anyhow::Result<JournalSocket> {
    JournalSocket::connect(socket).map_err(|error| {
        let what = format!("{}: {error}", socket.display());
        let is_absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
        if is_absent {
            let what = format!("{what}; journald does not run here");
            Refusal::advised(what, "use `pagewise doctor -q` or `pagewise doctor --nagios` instead")
                .into()
        } else {
            anyhow::Error::msg(what)
        }
    })
}

fn send(socket: &JournalSocket, changed: &ChangedFinding) -> anyhow::Result<()> {
    let add = |entry: Entry, (name, value): &(&str, String)| entry.with(name, value);
    let entry = journal_fields(changed).iter().fold(Entry::default(), add);
    socket.send(&entry).map_err(|error| {
        let what = format!("{SOCKET}: {error}");
        let next = "run it again: what is missing is written then, maybe with some entries twice";
        Refusal::advised(what, next).into()
    })
}

/// Whether a file exists that this process may not read.
fn is_unreadable(path: &str) -> bool {
    matches!(rustix::fs::access(path, Access::READ_OK), Err(Errno::ACCESS | Errno::PERM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_journald_the_error_names_another_way() {
        let folder = tempfile::tempdir().unwrap();
        let refused = connect(&folder.path().join("socket")).unwrap_err();
        let refused = refused.downcast::<Refusal>().unwrap();
        assert!(refused.what.ends_with("journald does not run here"), "{refused}");
        assert!(refused.next.unwrap().contains("--nagios"));
    }

    #[test]
    fn what_is_missing_is_not_unreadable() {
        assert!(!is_unreadable("/proc/meminfo") && !is_unreadable("/no/such/file"));
    }
}
