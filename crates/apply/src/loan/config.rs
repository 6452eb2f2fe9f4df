// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration files, links and folders that a plan writes, and reloading of systemd's units.
//!
//! A file or link is created under a temporary name, synced and renamed, and its folder is synced
//! before the journal marks it as done. So a power cut leaves the old contents, the new ones, or
//! additionally a temporary file, whose name follows from the path in the journal.
//!
//! The old contents are restored only if the current ones are still those of the plan.

use crate::error::{Doing, Error};
use crate::host_ops::{Config, HostChange, HostOps, Staged, folder_of};
use crate::journal::{FileText, Loan};
use crate::loan::place;
use pagewise_model::undo::Outcome;

/// The temporary name of a file or link until it is renamed: programs that read these folders
/// ignore such names.
pub(crate) fn staged_name(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{folder}/.{name}.pagewise-new")
}

/// Writes the file of this loan.
pub(crate) fn set_file(
    hands: &mut dyn HostOps,
    path: &str,
    text: &str,
    like: Option<&FileText>,
) -> Result<(), Error> {
    put(hands, path, Staged::File { text, like })?;
    match found(hands, path)? {
        Config::File(file) if file.text == text => Ok(()),
        other => Err(changed(path, &described_text(text), &other)),
    }
}

/// Creates the link of this loan.
pub(crate) fn set_link(hands: &mut dyn HostOps, path: &str, to: &str) -> Result<(), Error> {
    put(hands, path, Staged::Link { to })?;
    match found(hands, path)? {
        Config::Link(target) if target == to => Ok(()),
        other => Err(changed(path, to, &other)),
    }
}

fn changed(path: &str, wrote: &str, found: &Config) -> Error {
    Error::Changed { what: path.to_owned(), wrote: wrote.to_owned(), found: described(found) }
}

fn put(hands: &mut dyn HostOps, path: &str, staged: Staged<'_>) -> Result<(), Error> {
    let from = staged_name(path);
    clear_staged(hands, &from)?;
    let doing = || path.to_owned();
    hands.act(&HostChange::Stage { path: &from, staged }).doing(doing)?;
    if matches!(staged, Staged::File { .. }) {
        hands.act(&HostChange::SyncFile(&from)).doing(doing)?;
    }
    hands.act(&HostChange::Rename { from: &from, to: path }).doing(doing)?;
    sync_folder(hands, path)
}

/// Removes a temporary file that a killed run left.
fn clear_staged(hands: &mut dyn HostOps, staged: &str) -> Result<(), Error> {
    match found(hands, staged)? {
        Config::Missing => Ok(()),
        Config::Folder => {
            let why = "a folder has the name of a staged file".to_owned();
            Err(Error::Uncertain { what: staged.to_owned(), why })
        }
        _ => hands.act(&HostChange::RemoveConfig(staged)).doing(|| staged.to_owned()),
    }
}

/// A folder that does not exist need not be synced: it was removed with its contents.
fn sync_folder(hands: &mut dyn HostOps, path: &str) -> Result<(), Error> {
    let folder = folder_of(path);
    match hands.act(&HostChange::SyncFolder(folder)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        synced => synced.doing(|| folder.to_owned()),
    }
}

fn found(hands: &dyn HostOps, path: &str) -> Result<Config, Error> {
    hands.config(path).doing(|| path.to_owned())
}

fn described_text(text: &str) -> String {
    let lines = text.lines().count();
    format!("a file of {lines} {}", if lines == 1 { "line" } else { "lines" })
}

/// A short description of what exists there.
pub(crate) fn described(found: &Config) -> String {
    match found {
        Config::Missing => "nothing".to_owned(),
        Config::File(file) => described_text(&file.text),
        Config::Link(to) => format!("a link to {to}"),
        Config::Folder => "a folder".to_owned(),
        Config::Other(what) => what.clone(),
    }
}

/// An entry before the plan, or as the plan wrote it.
enum Entry<'a> {
    Nothing,
    File(&'a str, Option<&'a FileText>),
    Link(&'a str),
}

impl Entry<'_> {
    fn is(&self, found: &Config) -> bool {
        match (self, found) {
            (Self::Nothing, Config::Missing) => true,
            (Self::File(text, _), Config::File(file)) => *text == file.text,
            (Self::Link(to), Config::Link(target)) => to == target,
            _ => false,
        }
    }

    fn described(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::File(text, _) => described_text(text),
            Self::Link(to) => format!("a link to {to}"),
        }
    }
}

pub(crate) fn give_back(hands: &mut dyn HostOps, what: &Loan) -> Result<Outcome, Error> {
    let (path, old, ours) = match what {
        Loan::File { path, old, ours } => {
            let old = old.as_ref().map(|old| Entry::File(&old.text, Some(old)));
            (path, old, Entry::File(ours, None))
        }
        Loan::Link { path, old, ours } => {
            (path, old.as_deref().map(Entry::Link), Entry::Link(ours))
        }
        Loan::Folder { path } => return give_back_folder(hands, path),
        _ => return reload(hands).map(|()| Outcome::Returned),
    };
    let old = old.unwrap_or(Entry::Nothing);
    // a journal may only name paths of the known places
    place::known(path, matches!(ours, Entry::Link(_))).map_err(|why| Error::Uncertain {
        what: path.clone(),
        why: format!("its journal names a place where no plan writes: {why}"),
    })?;
    let folder = found(hands, folder_of(path))?;
    if folder == Config::Missing && matches!(old, Entry::Nothing) {
        return Ok(Outcome::Gone);
    }
    clear_staged(hands, &staged_name(path))?;
    let now = found(hands, path)?;
    if old.is(&now) {
        // it may have been restored by a run that was killed before the change was on disk
        sync_folder(hands, path)?;
        return Ok(Outcome::Gone);
    }
    if !ours.is(&now) {
        let (old, ours) = (old.described(), ours.described());
        return Ok(Outcome::Conflict { old, ours, found: described(&now) });
    }
    match old {
        Entry::Nothing => {
            hands.act(&HostChange::RemoveConfig(path)).doing(|| path.clone())?;
            sync_folder(hands, path)?;
        }
        Entry::File(text, like) => put(hands, path, Staged::File { text, like })?,
        Entry::Link(to) => put(hands, path, Staged::Link { to })?,
    }
    let now = found(hands, path)?;
    if old.is(&now) { Ok(Outcome::Returned) } else { Err(changed(path, &old.described(), &now)) }
}

pub(crate) fn make_folder(hands: &mut dyn HostOps, path: &str) -> Result<(), Error> {
    hands.act(&HostChange::MakeFolder(path)).doing(|| path.to_owned())?;
    sync_folder(hands, path)
}

/// Removes the folder of this loan. If it contains other files, it is kept.
fn give_back_folder(hands: &mut dyn HostOps, path: &str) -> Result<Outcome, Error> {
    place::known_folder(path).map_err(|why| Error::Uncertain { what: path.to_owned(), why })?;
    let outcome = match hands.config(path).doing(|| path.to_owned())? {
        Config::Folder => match hands.act(&HostChange::RemoveFolder(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                return Ok(Outcome::Kept { why: "there are other files in it".to_owned() });
            }
            removed => removed.doing(|| path.to_owned()).map(|()| Outcome::Returned)?,
        },
        _ => Outcome::Gone,
    };
    sync_folder(hands, path)?;
    Ok(outcome)
}

/// Stops the timer of a trial. A timer that has expired no longer exists.
pub(crate) fn disarm(hands: &mut dyn HostOps) -> Result<Outcome, Error> {
    hands.act(&HostChange::Disarm).doing(|| "stopping the timer of the trial".to_owned())?;
    Ok(Outcome::Returned)
}

pub(crate) fn reload(hands: &mut dyn HostOps) -> Result<(), Error> {
    hands.act(&HostChange::ReloadUnits).doing(|| "systemctl daemon-reload".to_owned())
}
