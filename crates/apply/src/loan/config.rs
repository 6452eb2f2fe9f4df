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
use crate::journal::{FileChange, FileText, LinkChange};
use crate::loan::place;
use pagewise_model::undo::Outcome;

/// The temporary name of a file or link until it is renamed: programs that read these folders
/// ignore such names.
pub(crate) fn staged_name(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{folder}/.{name}.pagewise-new")
}

/// Writes the configuration file of a change.
pub(crate) fn set_file(host: &mut dyn HostOps, change: &FileChange) -> Result<(), Error> {
    let FileChange { path, old, ours: text } = change;
    replace(host, path, Staged::File { text, like: old.as_ref() })?;
    match read(host, path)? {
        Config::File(file) if file.text == *text => Ok(()),
        other => Err(changed_error(path, &describe_text(text), &other)),
    }
}

/// Creates the symbolic link of a change.
pub(crate) fn set_link(host: &mut dyn HostOps, change: &LinkChange) -> Result<(), Error> {
    let LinkChange { path, ours: to, .. } = change;
    replace(host, path, Staged::Link { to })?;
    match read(host, path)? {
        Config::Link(target) if target == *to => Ok(()),
        other => Err(changed_error(path, to, &other)),
    }
}

fn changed_error(path: &str, wrote: &str, found: &Config) -> Error {
    Error::Changed { what: path.to_owned(), wrote: wrote.to_owned(), found: describe(found) }
}

fn replace(host: &mut dyn HostOps, path: &str, staged: Staged<'_>) -> Result<(), Error> {
    let from = staged_name(path);
    clear_staged(host, &from)?;
    let doing = || path.to_owned();
    host.make_change(&HostChange::Stage { path: &from, staged }).doing(doing)?;
    if matches!(staged, Staged::File { .. }) {
        host.make_change(&HostChange::SyncFile(&from)).doing(doing)?;
    }
    host.make_change(&HostChange::Rename { from: &from, to: path }).doing(doing)?;
    sync_folder(host, path)
}

/// Removes a temporary file that a killed run left.
fn clear_staged(host: &mut dyn HostOps, staged: &str) -> Result<(), Error> {
    match read(host, staged)? {
        Config::Missing => Ok(()),
        Config::Folder => {
            let why = "a folder has the name of a staged file".to_owned();
            Err(Error::Uncertain { what: staged.to_owned(), why })
        }
        _ => host.make_change(&HostChange::RemoveConfig(staged)).doing(|| staged.to_owned()),
    }
}

/// Syncs the folder that contains a path. A folder that does not exist need not be synced: it was
/// removed with its contents.
fn sync_folder(host: &mut dyn HostOps, path: &str) -> Result<(), Error> {
    let folder = folder_of(path);
    match host.make_change(&HostChange::SyncFolder(folder)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        synced => synced.doing(|| folder.to_owned()),
    }
}

fn read(host: &dyn HostOps, path: &str) -> Result<Config, Error> {
    host.config(path).doing(|| path.to_owned())
}

fn describe_text(text: &str) -> String {
    let lines = text.lines().count();
    format!("a file of {lines} {}", if lines == 1 { "line" } else { "lines" })
}

/// Describes in a few words what exists at a path.
pub(crate) fn describe(found: &Config) -> String {
    match found {
        Config::Missing => "nothing".to_owned(),
        Config::File(file) => describe_text(&file.text),
        Config::Link(to) => format!("a link to {to}"),
        Config::Folder => "a folder".to_owned(),
        Config::Other(what) => what.clone(),
    }
}

/// The contents of a path before the plan, or the contents that the plan wrote.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Nothing,
    File(&'a str, Option<&'a FileText>),
    Link(&'a str),
}

impl Entry<'_> {
    fn matches(&self, found: &Config) -> bool {
        match (self, found) {
            (Self::Nothing, Config::Missing) => true,
            (Self::File(text, _), Config::File(file)) => *text == file.text,
            (Self::Link(to), Config::Link(target)) => to == target,
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::File(text, _) => describe_text(text),
            Self::Link(to) => format!("a link to {to}"),
        }
    }
}

/// Restores the old contents of a file if it still has the contents that the plan wrote.
pub(crate) fn undo_file(host: &mut dyn HostOps, change: &FileChange) -> Result<Outcome, Error> {
    let FileChange { path, old, ours } = change;
    let old = old.as_ref().map(|old| Entry::File(&old.text, Some(old)));
    restore(host, path, old.unwrap_or(Entry::Nothing), Entry::File(ours, None))
}

/// Restores the old target of a link if it still has the target that the plan gave it.
pub(crate) fn undo_link(host: &mut dyn HostOps, change: &LinkChange) -> Result<Outcome, Error> {
    let LinkChange { path, old, ours } = change;
    let old = old.as_deref().map(Entry::Link);
    restore(host, path, old.unwrap_or(Entry::Nothing), Entry::Link(ours))
}

fn restore(
    host: &mut dyn HostOps,
    path: &str,
    old: Entry<'_>,
    ours: Entry<'_>,
) -> Result<Outcome, Error> {
    // a journal may only name paths of the known places
    place::check_path(path, matches!(ours, Entry::Link(_))).map_err(|why| Error::Uncertain {
        what: path.to_owned(),
        why: format!("its journal names a place where no plan writes: {why}"),
    })?;
    let folder = read(host, folder_of(path))?;
    if folder == Config::Missing && matches!(old, Entry::Nothing) {
        return Ok(Outcome::Gone);
    }
    clear_staged(host, &staged_name(path))?;
    let now = read(host, path)?;
    if old.matches(&now) {
        // it may have been restored by a run that was killed before the change was on disk
        sync_folder(host, path)?;
        return Ok(Outcome::Gone);
    }
    if !ours.matches(&now) {
        let (old, ours) = (old.describe(), ours.describe());
        return Ok(Outcome::Conflict { old, ours, found: describe(&now) });
    }
    match old {
        Entry::Nothing => {
            host.make_change(&HostChange::RemoveConfig(path)).doing(|| path.to_owned())?;
            sync_folder(host, path)?;
        }
        Entry::File(text, like) => replace(host, path, Staged::File { text, like })?,
        Entry::Link(to) => replace(host, path, Staged::Link { to })?,
    }
    let now = read(host, path)?;
    if old.matches(&now) {
        Ok(Outcome::Returned)
    } else {
        Err(changed_error(path, &old.describe(), &now))
    }
}

pub(crate) fn make_folder(host: &mut dyn HostOps, path: &str) -> Result<(), Error> {
    host.make_change(&HostChange::MakeFolder(path)).doing(|| path.to_owned())?;
    sync_folder(host, path)
}

/// Removes a folder of the plan. If it contains other files, it is kept.
pub(crate) fn undo_folder(host: &mut dyn HostOps, path: &str) -> Result<Outcome, Error> {
    place::check_folder(path).map_err(|why| Error::Uncertain { what: path.to_owned(), why })?;
    let outcome = match host.config(path).doing(|| path.to_owned())? {
        Config::Folder => match host.make_change(&HostChange::RemoveFolder(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                return Ok(Outcome::Kept { why: "there are other files in it".to_owned() });
            }
            removed => removed.doing(|| path.to_owned()).map(|()| Outcome::Returned)?,
        },
        _ => Outcome::Gone,
    };
    sync_folder(host, path)?;
    Ok(outcome)
}

/// Stops the timer of a trial. A timer that has expired no longer exists.
pub(crate) fn disarm(host: &mut dyn HostOps) -> Result<Outcome, Error> {
    host.make_change(&HostChange::Disarm).doing(|| "stopping the timer of the trial".to_owned())?;
    Ok(Outcome::Returned)
}

pub(crate) fn reload(host: &mut dyn HostOps) -> Result<(), Error> {
    host.make_change(&HostChange::ReloadUnits).doing(|| "systemctl daemon-reload".to_owned())
}
