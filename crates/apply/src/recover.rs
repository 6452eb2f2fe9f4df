// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cleans up after killed runs, by their journals, and reports the result for each change.
//!
//! A conflict is reported at every start until somebody asks for [`Conflicts::Close`], as
//! `pagewise undo` does: it is reported once more and closed, and the value of the other program
//! stays.

use std::path::Path;

use crate::error::{Doing, Error};
use crate::host_ops::{BOOT_ID, HostChange, HostOps, UnreadJournal};
use crate::journal::{
    self, FileChange, Journal, JournalName, Lock, OpenChange, Reading, Record, RecordedChange,
};
use crate::live::Live;
use crate::loan;
use crate::loan::run::{Boot, Run};
use crate::loan::zram;
use pagewise_model::Advice;
use pagewise_model::undo::{Outcome, Recovered, Return, SkippedJournal};

/// What to do with a conflict (somebody else changed the value) that has been reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// The journal stays, so that the conflict is reported again at the next start.
    Keep,
    /// The conflict counts as settled: the value of the other program stays, and the journal may be
    /// removed.
    Close,
}

/// Returns what earlier runs left behind. Creates nothing if there is no journal, not even the
/// folder.
///
/// # Errors
/// If a run holds the lock, or the folder cannot be read and written: only root may.
pub fn recover(state: &Path, conflicts: Conflicts) -> Result<Vec<Recovered>, Error> {
    if !journal::has_folder(state)? {
        return Ok(Vec::new());
    }
    let _lock = Lock::take(state)?;
    let mut host = Live::new().doing(|| "/".to_owned())?;
    let folder = crate::live::resolve(state)?;
    recover_all(&mut host, &folder, conflicts)
}

/// Puts a journal that cannot be settled into the folder `forgotten`, after everything that can be
/// returned was returned. Loans that the result lists as not settled stay on the machine, and no
/// journal in force names them any more. The file is kept, because it has the old contents of
/// files that could not be restored.
///
/// # Errors
/// If there is no such journal, or it cannot be put there: it then stays in force.
pub fn forget(state: &Path, id: &str) -> Result<Recovered, Error> {
    if !journal::has_folder(state)? {
        return Err(Error::NoJournal { id: id.to_owned(), known: Vec::new() });
    }
    let _lock = Lock::take(state)?;
    let mut host = Live::new().doing(|| "/".to_owned())?;
    let folder = crate::live::resolve(state)?;
    forget_one(&mut host, &folder, id)
}

pub(crate) fn forget_one(
    host: &mut dyn HostOps,
    folder: &str,
    id: &str,
) -> Result<Recovered, Error> {
    let mut paths = journal::loan_journals(host, folder)?;
    paths.extend(journal::plan_journals(host, folder)?);
    let meant: Vec<&String> =
        paths.iter().filter(|path| JournalName::parse(path).is_meant_by(id)).collect();
    let [path] = meant.as_slice() else {
        let among = if meant.is_empty() { paths.iter().collect() } else { meant };
        let name = |path: &&String| path.rsplit('/').next().unwrap_or_default().to_owned();
        let known = among.iter().map(name).collect();
        return Err(Error::NoJournal { id: id.to_owned(), known });
    };
    let boot_id = boot_id(host)?;
    // a conflict is no reason to delete the journal, which has the old value
    let (recovered, is_removed) = recover_one(host, path, Conflicts::Keep, &boot_id);
    let kept = |source| Error::Kept { path: (*path).clone(), source };
    let is_file = recovered.skipped.as_ref().is_none_or(|skipped| skipped.is_file);
    let mut set_aside = None;
    if !is_removed && is_file {
        let to = free_name(host, path);
        host.make_change(&HostChange::SetAside { journal: path, to: &to }).map_err(kept)?;
        set_aside = Some(to);
    } else if !is_removed {
        // a link or pipe of such a name contains nothing
        host.make_change(&HostChange::Forget(path)).map_err(kept)?;
    }
    Ok(Recovered { unnoted: None, set_aside, ..recovered })
}

/// The folder beside the journals for those that `undo --forget` has put aside.
const FORGOTTEN: &str = "forgotten";

/// A path in the folder of forgotten journals that no file has.
fn free_name(host: &dyn HostOps, path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let first = format!("{folder}/{FORGOTTEN}/{name}");
    let later = (2..).map(|number| format!("{first}.{number}"));
    let mut all = std::iter::once(first.clone()).chain(later);
    all.find(|path| !host.exists(path)).unwrap_or(first.clone())
}

/// Recovers all journals, newest first, because later changes must be undone first.
pub(crate) fn recover_all(
    host: &mut dyn HostOps,
    folder: &str,
    conflicts: Conflicts,
) -> Result<Vec<Recovered>, Error> {
    let paths = journal::loan_journals(host, folder)?;
    let mut all = Vec::new();
    if paths.is_empty() {
        return Ok(all);
    }
    let boot_id = boot_id(host)?;
    for path in paths.iter().rev() {
        let (recovered, _) = recover_one(host, path, conflicts, &boot_id);
        // a run that was killed after undoing the last change and before removing its journal left
        // nothing
        if recovered.is_worth_reporting() {
            all.push(recovered);
        }
    }
    Ok(all)
}

pub(crate) fn boot_id(host: &dyn HostOps) -> Result<String, Error> {
    host.read(BOOT_ID).doing(|| BOOT_ID.to_owned())
}

/// Undoes what one journal names; returns the result, and whether the journal file was removed. A
/// failure in one journal does not prevent others from being read.
pub(crate) fn recover_one(
    host: &mut dyn HostOps,
    path: &str,
    conflicts: Conflicts,
    boot_id: &str,
) -> (Recovered, bool) {
    let name = JournalName::parse(path);
    let mut recovered = Recovered {
        journal: path.to_owned(),
        id: name.id(),
        pid: None,
        earlier_boot: false,
        returns: Vec::new(),
        plan: None,
        damaged_line: None,
        skipped: None,
        unnoted: None,
        set_aside: None,
    };
    let bytes = match host.journal(path) {
        Ok(bytes) => bytes,
        Err(unread) => {
            let (why, is_file) = match unread {
                UnreadJournal::NoFile(why) => (why, false),
                UnreadJournal::Untrusted(why) => (why, true),
            };
            return (
                Recovered { skipped: Some(SkippedJournal { why, is_file }), ..recovered },
                false,
            );
        }
    };
    let reading = Reading::parse(&bytes);
    let run = Run {
        boot: boot_of(name, &reading, boot_id),
        is_early: name.boot.is_none(),
        is_damaged: reading.damaged_line.is_some(),
        is_own: false,
        is_plan: name.is_plan,
    };
    let mut journal = Journal::resume(host, path, bytes.len() as u64, &reading);
    if run.is_plan && !reading.records.contains(&Record::Undoing) {
        // without it, what is left now is not tried again by a plain `undo`, which does no harm
        let _ = journal.add(host, &Record::Undoing);
    }
    recovered.plan = reading.plan().map(|plan| plan.id.clone());
    recovered.pid = reading.run().map(|run| run.pid);
    recovered.earlier_boot = run.boot == Boot::Earlier;
    recovered.damaged_line = reading.damaged_line;
    let is_at_later_boot = run.is_plan && recovered.earlier_boot;
    let (last, open): (Vec<OpenChange>, Vec<OpenChange>) = order_for_undo(reading.open_changes())
        .into_iter()
        .partition(|it| is_at_later_boot && it.change == RecordedChange::Units);
    recovered.returns = undo_all(host, &mut journal, open, run);
    if is_at_later_boot && recovered.is_settled() {
        stop_units(host, &reading);
    }
    recovered.returns.extend(undo_all(host, &mut journal, last, run));
    let is_over =
        recovered.is_settled() || conflicts == Conflicts::Close && recovered.is_reported();
    let is_removed = is_over && journal.remove(host).is_ok();
    if !is_removed {
        recovered.unnoted = journal.trouble().map(str::to_owned);
    }
    (recovered, is_removed)
}

/// Stops the units in files that a plan wrote before this boot, now that the files are removed:
/// systemd loads a unit before it starts it. This must come before systemd reloads its units: the
/// unit that undoes a plan on trial is among those files, and without it the ordering by which the
/// plan's units wait is lost. If another file of zram-generator sets up the device, its swap is
/// started.
fn stop_units(host: &mut dyn HostOps, reading: &Reading) {
    const OWN_UNIT: &str = "pagewise-unconfirmed.service";
    let (mut units, mut areas, mut has_generator) = (Vec::new(), Vec::new(), false);
    for it in reading.open_changes() {
        match it.change {
            RecordedChange::File(FileChange { path, old, .. }) => {
                has_generator |= path.starts_with("/etc/systemd/zram-generator.conf");
                let new = path.strip_prefix("/etc/systemd/system/").filter(|_| old.is_none());
                let is_unit = |it: &str| it.ends_with(".service") || it.ends_with(".swap");
                let unit = new.filter(|it| is_unit(it) && *it != OWN_UNIT);
                units.extend(unit.map(str::to_owned));
            }
            RecordedChange::SwapOn(swap) => areas.extend(zram::number_of(&swap.area)),
            _ => {}
        }
    }
    let swap = |number: &u32| format!("dev-zram{number}.swap");
    if has_generator {
        units.extend(areas.iter().map(swap));
        units.extend(areas.iter().map(|number| format!("systemd-zram-setup@zram{number}.service")));
    }
    for unit in &units {
        let _ = host.make_change(&HostChange::StopUnit(unit));
    }
    if has_generator && host.make_change(&HostChange::ReloadUnits).is_ok() {
        let generated = |unit: &String| host.exists(&format!("/run/systemd/generator/{unit}"));
        for unit in areas.iter().map(swap).filter(generated).collect::<Vec<_>>() {
            let _ = host.make_change(&HostChange::StartUnit(&unit));
        }
    }
}

/// The boot in which a journal was written. It is stated in the journal's name and in its first
/// line; if these contradict each other, it is unknown.
fn boot_of(name: JournalName<'_>, reading: &Reading, now: &str) -> Boot {
    let began = reading.run().map(|run| run.boot_id.as_str());
    let message = match (name.boot, began) {
        (Some(named), Some(began)) if named != began => None,
        (named, began) => named.or(began),
    };
    match message {
        Some(said) if said == now => Boot::This,
        Some(_) => Boot::Earlier,
        None => Boot::Unknown,
    }
}

/// The order in which changes are undone from the last to the first: that of making, but with the
/// changes that must be undone last at the front. systemd reloads its units after the files were
/// restored.
pub(crate) fn order_for_undo(mut open: Vec<OpenChange>) -> Vec<OpenChange> {
    open.sort_by_key(|it| it.change != RecordedChange::Units);
    open
}

/// Undoes all changes that a journal names, last first.
fn undo_all(
    host: &mut dyn HostOps,
    journal: &mut Journal,
    mut open: Vec<OpenChange>,
    run: Run,
) -> Vec<Return> {
    let mut returns = Vec::new();
    let mut remaining: Vec<OpenChange> = Vec::new();
    while let Some(mut it) = open.pop() {
        if it.is_needed_by(&remaining) {
            // no failure: the timer undoes what is left
            remaining.push(it);
            continue;
        }
        let outcome = match it.find_dependent(&remaining) {
            Some(later) => Err(Error::Held { by: later.describe() }),
            None => undo_and_record(host, journal, &it, run),
        };
        let outcome = outcome_of_undo(outcome);
        returns.push(Return { what: it.describe(), outcome: outcome.clone() });
        if let Outcome::Conflict { found, .. } = &outcome {
            it.conflict = Some(found.clone());
        }
        if !outcome.is_settled() {
            remaining.push(it);
        }
    }
    returns
}

/// Undoes one change and records the outcome in the journal. If the record cannot be written, this
/// does no harm: the next start finds nothing to undo.
pub(crate) fn undo_and_record(
    host: &mut dyn HostOps,
    journal: &mut Journal,
    it: &OpenChange,
    run: Run,
) -> Result<Outcome, Error> {
    let outcome = loan::undo(host, it, run)?;
    let note = match &outcome {
        Outcome::Conflict { found, .. } if it.conflict.as_ref() != Some(found) => {
            Some(Record::Conflict { id: it.id, found: found.clone() })
        }
        outcome if outcome.is_settled() => Some(Record::Undone { id: it.id }),
        _ => None,
    };
    if let Some(note) = note {
        let _ = journal.add(host, &note);
    }
    Ok(outcome)
}

/// The outcome of undoing a change; an error becomes [`Outcome::Left`], with its text as the
/// reason.
pub(crate) fn outcome_of_undo(outcome: Result<Outcome, Error>) -> Outcome {
    outcome
        .unwrap_or_else(|error| Outcome::Left { why: text_with_cause(&error), next: error.next() })
}

/// The text of an error, with that of its cause.
pub(crate) fn text_with_cause(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
