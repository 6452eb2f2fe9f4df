// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor --journal`: entries in the systemd journal for findings that begin, worsen or end.
//!
//! The entries are handed to journald before the file of known findings is replaced: if this process
//! is killed in between, the next run writes them again, and none is lost.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagewise_apply::{FollowLock, KnownFindingsFile, state_folder};
use pagewise_decide::follow::{Found, follow};
use pagewise_journald::{Entry, JournalSocket, SOCKET};
use pagewise_model::{ChangedFinding, Finding, Interval, KnownFinding, KnownFindings, Refusal};
use pagewise_report::text::journal_fields;
use pagewise_terminal::{Global, Outcome, output};
use rustix::fs::Access;
use rustix::io::Errno;

use super::{Diagnosis, ShownFindings, check_readings, read_accepted};
use crate::accepted::{self, Accepted};
use crate::{cli, input};

/// Folder for the known findings, below the folder of journals, if systemd does not name another
/// one.
const FOLDER: &str = "doctor";
/// The runtime folder that systemd makes for the service of `monitor`. The service locks a file in
/// it for as long as it writes the journal entries.
const MONITOR_FOLDER: &str = "/run/pagewise-monitor";
const MONITOR_LOCK: &str = "journal.lock";
/// How long a finding has to be absent until the monitor reports its end: the time between two runs
/// of the doctor timer.
const HELD: Duration = Duration::from_secs(300);

pub(super) fn run(global: &Global, args: &cli::Doctor) -> anyhow::Result<Outcome> {
    refuse_other_options(global)?;
    if is_monitor_writing() {
        if global.verbose {
            output::print_message(
                "pagewise monitor writes the entries; nothing was read or written",
            );
        }
        return Ok(Outcome::Done);
    }
    let mut journal = FindingsJournal::open(&folder(), read_accepted(global, args)?)?;
    let host = input::open(global)?;
    let interval = input::read_interval(&host, global)?;
    check_readings(&interval.end)?;
    let written =
        journal.write_entries(&interval, &Diagnosis::make(&host, &interval, false).all)?;
    if global.verbose {
        let open = journal.known.findings.len();
        output::print_message(format_args!(
            "{written} entries written to the journal; {open} findings have not ended"
        ));
    }
    Ok(Outcome::Done)
}

/// Writes journal entries about findings, by comparing the present findings with those of the
/// previous comparison.
#[derive(Debug)]
pub(in crate::verbs) struct FindingsJournal {
    socket: JournalSocket,
    file: KnownFindingsFile,
    accepted: Accepted,
    known: KnownFindings,
    held: Option<Held>,
}

/// When each finding was last present; only for the monitor, which compares findings every few
/// seconds.
#[derive(Debug, Default)]
struct Held(HashMap<(String, Option<String>), Instant>);

impl Held {
    fn note_present(&mut self, known: &KnownFindings, now: Instant) {
        let key = |it: &KnownFinding| (it.id.clone(), it.about.clone());
        self.0.extend(known.findings.iter().map(|finding| (key(finding), now)));
        self.0.retain(|_, seen| now.saturating_duration_since(*seen) < HELD);
    }

    fn has(&self, finding: &KnownFinding) -> bool {
        self.0.contains_key(&(finding.id.clone(), finding.about.clone()))
    }
}

impl FindingsJournal {
    /// Connects to journald, and reads the known findings that the previous run wrote into this
    /// folder.
    pub(in crate::verbs) fn open(folder: &Path, accepted: Accepted) -> anyhow::Result<Self> {
        let socket = connect(Path::new(SOCKET))?;
        let file = KnownFindingsFile::open(folder)?;
        let (known, damage) = file.read();
        if let Some(damage) = damage {
            output::print_message(format_args!("{damage}; every finding is taken for a new one"));
        }
        Ok(Self { socket, file, accepted, known, held: None })
    }

    /// Like [`Self::open`], for a process that compares findings every few seconds: it never waits
    /// for journald, and a finding ends only after it was absent for [`HELD`].
    pub(in crate::verbs) fn open_for_monitor(folder: &Path) -> anyhow::Result<Self> {
        let open = Self::open(folder, accepted::read(None)?)?;
        let mut held = Held::default();
        held.note_present(&open.known, Instant::now());
        Ok(Self { socket: open.socket.set_nonblocking()?, held: Some(held), ..open })
    }

    /// Writes entries for the findings that begin, worsen or end; returns their number. If one
    /// entry cannot be written, the next call writes all of them again.
    pub(in crate::verbs) fn write_entries(
        &mut self,
        interval: &Interval,
        all: &[Finding],
    ) -> anyhow::Result<usize> {
        let chosen = ShownFindings::select(all.to_vec(), &self.accepted);
        let found = Found {
            interval,
            all,
            shown: &chosen.findings,
            ignored: &self.accepted.ignore,
            is_unreadable: &is_unreadable,
        };
        let mut followed = follow(&self.known, &found);
        if let Some(held) = &mut self.held {
            held.note_present(&followed.known, Instant::now());
            followed.hold_ends(&|finding| held.has(finding));
        }
        for changed in &followed.changes {
            send(&self.socket, changed)?;
        }
        if followed.known != self.known {
            self.file.replace(&followed.known)?;
            self.known = followed.known;
        }
        Ok(followed.changes.len())
    }
}

/// Whether `pagewise monitor --journal` runs as a service, which then writes the entries.
fn is_monitor_writing() -> bool {
    FollowLock::is_held(&Path::new(MONITOR_FOLDER).join(MONITOR_LOCK))
}

/// Locks the file by which `doctor --journal` knows that the monitor writes the entries; the lock
/// is held as long as the returned value lives. `None` if systemd made no runtime folder for the
/// service.
pub(in crate::verbs) fn lock_as_monitor() -> Option<FollowLock> {
    let named = std::env::var_os("RUNTIME_DIRECTORY").filter(|it| !it.is_empty())?;
    FollowLock::take(&Path::new(&named).join(MONITOR_LOCK)).ok()
}

/// Refuses options that contradict `--journal`, which is about this machine and prints nothing.
fn refuse_other_options(global: &Global) -> anyhow::Result<()> {
    if global.root.is_some() {
        let what = "doctor --journal: the journal is of this machine, and --root names another";
        anyhow::bail!(Refusal::with_advice(what, "print the findings: pagewise doctor --root …"));
    }
    if global.json {
        let what = "doctor --journal prints nothing, so it has no --json";
        anyhow::bail!(Refusal::with_advice(
            what,
            "read the entries: journalctl -o json -t pagewise"
        ));
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
            Refusal::with_advice(
                what,
                "use `pagewise doctor -q` or `pagewise doctor --nagios` instead",
            )
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
        Refusal::with_advice(what, next).into()
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
