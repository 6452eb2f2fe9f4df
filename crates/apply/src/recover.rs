// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Journals that were left behind → the machine as it was before, and what became of each loan.
//!
//! A conflict is told at every start until somebody asks for [`Conflicts::Close`], as `pagewise
//! undo` does: told once more, it is closed, and what the other made of it stays.

use std::path::Path;

use crate::error::{Doing, Error};
use crate::hands::Hands;
use crate::journal::{self, Journal, Lock, Open, Reading, Record};
use crate::live::Live;
use crate::loan;
use crate::outcome::{Outcome, Recovered, Return};
use crate::session::BOOT_ID;

/// What becomes of a conflict that has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// The journal keeps naming it.
    Keep,
    /// It is settled with that.
    Close,
}

/// Puts back what earlier runs left behind. Nothing is made where nothing is: the folder neither.
///
/// # Errors
/// Where a run still borrows, or the folder cannot be read and written: only root may.
pub fn recover(state: &Path, conflicts: Conflicts) -> Result<Vec<Recovered>, Error> {
    if !journal::is_there(state)? {
        return Ok(Vec::new());
    }
    let _lock = Lock::take(state)?;
    let mut hands = Live::new().doing(|| "/".to_owned())?;
    let folder = crate::live::resolved(state)?;
    recover_all(&mut hands, &folder, conflicts)
}

/// The newest first: what came last goes back first.
pub(crate) fn recover_all(
    hands: &mut dyn Hands,
    folder: &str,
    conflicts: Conflicts,
) -> Result<Vec<Recovered>, Error> {
    let paths = journal::left_in(hands, folder)?;
    let mut all = Vec::new();
    for path in paths.iter().rev() {
        let recovered = recover_one(hands, path, conflicts)?;
        // a run that was killed between giving the last back and removing its journal left nothing
        if !(recovered.returns.is_empty() && recovered.damaged_line.is_none()) {
            all.push(recovered);
        }
    }
    Ok(all)
}

fn recover_one(
    hands: &mut dyn Hands,
    path: &str,
    conflicts: Conflicts,
) -> Result<Recovered, Error> {
    let state = |source| Error::State { path: path.to_owned(), source };
    let bytes = hands.journal(path).map_err(state)?;
    let reading = Reading::of(&bytes);
    let mut journal = Journal::resume(hands, path, bytes.len() as u64, &reading)?;
    let boot_id = hands.read(BOOT_ID).doing(|| BOOT_ID.to_owned())?;
    let earlier_boot = reading.began().is_some_and(|(began, _)| boot_id != began);
    let returns = put_back(hands, &mut journal, reading.open(), earlier_boot);
    let recovered = Recovered {
        journal: path.to_owned(),
        pid: reading.began().map(|(_, pid)| pid),
        earlier_boot,
        returns,
        damaged_line: reading.damaged_line,
    };
    if recovered.is_settled() || conflicts == Conflicts::Close && recovered.is_told() {
        journal.remove(hands)?;
    }
    Ok(recovered)
}

/// All of it, the last first.
fn put_back(
    hands: &mut dyn Hands,
    journal: &mut Journal,
    mut open: Vec<Open>,
    earlier_boot: bool,
) -> Vec<Return> {
    let mut returns = Vec::new();
    let mut remaining: Vec<Open> = Vec::new();
    while let Some(mut it) = open.pop() {
        let outcome = match it.held_by(&remaining) {
            Some(later) => Err(Error::Held { by: later.described() }),
            None => settle(hands, journal, &it, earlier_boot),
        };
        let outcome = settled_or_left(outcome);
        returns.push(Return { what: it.described(), outcome: outcome.clone() });
        if let Outcome::Conflict { found, .. } = &outcome {
            it.conflict = Some(found.clone());
        }
        if !outcome.is_settled() {
            remaining.push(it);
        }
    }
    returns
}

/// Puts one loan back and notes that. A note that cannot be written does no harm: the next start
/// finds nothing to put back.
pub(crate) fn settle(
    hands: &mut dyn Hands,
    journal: &mut Journal,
    it: &Open,
    earlier_boot: bool,
) -> Result<Outcome, Error> {
    let outcome = match earlier_boot {
        true => loan::give_back_after_boot(hands, it)?,
        false => loan::give_back(hands, it)?,
    };
    let note = match &outcome {
        Outcome::Conflict { found, .. } if it.conflict.as_ref() != Some(found) => {
            Some(Record::Conflict { loan: it.id, found: found.clone() })
        }
        outcome if outcome.is_settled() => Some(Record::Returned { loan: it.id }),
        _ => None,
    };
    if let Some(note) = note {
        let _ = journal.add(hands, &note);
    }
    Ok(outcome)
}

/// What could not be put back, as an outcome.
pub(crate) fn settled_or_left(outcome: Result<Outcome, Error>) -> Outcome {
    outcome.unwrap_or_else(|error| Outcome::Left { why: told(&error), next: error.next() })
}

fn told(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
