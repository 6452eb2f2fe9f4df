// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies plans and undoes them.
//!
//! A plan's changes stay, and so does its journal: `NUMBER.BOOT.plan` beside the journals of loans,
//! with the whole plan in its first line. No other run undoes it by itself. Apart from that, a plan
//! consists of the same operations as a session of loans: each change is announced, made and read
//! back, and undone last-first.

pub(crate) mod check;
pub(crate) mod run;
pub(crate) mod trial;
pub(crate) mod undo;
pub(crate) mod verify;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pagewise_model::Configuration;
use pagewise_model::plan::{Applied, Complaint, Plan, Verified};
use pagewise_model::undo::InForce;

pub use run::{Failed, Options, Progress};
pub use undo::UndoTarget;
pub use verify::{DoubtfulJournal, VerifyTarget};

use crate::error::{Doing, Error};
use crate::journal::{self, Lock};
use crate::live::Live;
use crate::recover::{Conflicts, recover_all};
use check::CheckedStep;
use pagewise_model::undo::Recovered;

/// Why a plan is not applied; nothing was changed.
#[derive(Debug)]
pub enum Refused {
    /// The plan cannot be compared with the machine: another run holds the lock, an earlier plan
    /// was interrupted, or the journals cannot be read.
    Unready(Error),
    /// The plan does not fit this machine, for each of these reasons.
    Unfit(Vec<Complaint>),
}

/// A plan that fits this machine. As long as this exists, no other run of Pagewise changes the
/// machine.
#[derive(Debug)]
pub struct ReadyPlan {
    plan: Plan,
    steps: Vec<CheckedStep>,
    folder: String,
    _lock: Lock,
}

impl ReadyPlan {
    /// Compares each step with the machine. Loans of killed runs are returned first; the result
    /// includes what was done about them.
    ///
    /// # Errors
    /// All complaints about the plan at once.
    pub fn check(
        state: &Path,
        plan: &Plan,
        allows_irreversible: bool,
        is_trial: bool,
    ) -> Result<(Self, Vec<Recovered>), Refused> {
        let unready = Refused::Unready;
        let lock = Lock::take(state).map_err(unready)?;
        let mut host = Live::new().doing(|| "/".to_owned()).map_err(unready)?;
        let folder = crate::live::resolve(state).map_err(unready)?;
        let recovered = recover_all(&mut host, &folder, Conflicts::Keep).map_err(unready)?;
        let journals = undo::read_journals(&host, &folder).map_err(unready)?;
        undo::refuse_if_interrupted(&journals).map_err(unready)?;
        trial::refuse_if_on_trial(&journals).map_err(unready)?;
        let applied: Vec<_> = journals.into_iter().map(|it| it.reading).collect();
        let steps = check::check(&host, plan, allows_irreversible, &applied);
        let steps = check::check_trial(steps, is_trial, &host).map_err(Refused::Unfit)?;
        Ok((Self { plan: plan.clone(), steps, folder, _lock: lock }, recovered))
    }

    /// The ids of the steps whose planned state the machine does not have yet.
    #[must_use]
    pub fn pending_steps(&self) -> Vec<&str> {
        let steps = self.plan.steps.iter().zip(&self.steps);
        steps
            .filter(|(_, checked)| **checked != CheckedStep::InPlace)
            .map(|(step, _)| step.id.as_str())
            .collect()
    }

    /// Applies the checked plan to this machine.
    ///
    /// # Errors
    /// If a step fails, programs come under memory pressure, or the user stops it: what was done is
    /// then undone, except after swap was disabled.
    pub fn carry_out(
        &self,
        options: &Options,
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Applied, Box<Failed>> {
        let host = live_host(&options.stop).map_err(|source| {
            let what = self.plan.id.clone();
            let steps = self.plan.steps.len();
            Box::new(Failed {
                number: 1,
                steps,
                what,
                returns: vec![],
                stay: vec![],
                journal: None,
                has_timer: false,
                source,
            })
        })?;
        run::carry_out(Box::new(host), &self.folder, &self.plan, &self.steps, options, report)
    }
}

fn live_host(stop: &Arc<AtomicBool>) -> Result<Live, Error> {
    Ok(Live::new().doing(|| "/".to_owned())?.with_stop(stop.clone()))
}

/// The plans whose changes are in force, oldest first. Takes no lock and changes nothing.
///
/// # Errors
/// If the folder of journals cannot be read: only root may.
pub fn plans_in_force(state: &Path) -> Result<Vec<InForce>, Error> {
    if !journal::has_folder(state)? {
        return Ok(Vec::new());
    }
    let host = Live::new().doing(|| "/".to_owned())?;
    undo::plans_in_force(&host, &crate::live::resolve(state)?)
}

/// Undoes the chosen plans, newest first. A change that somebody else has changed since is kept,
/// and so is its journal.
///
/// # Errors
/// If another run holds the lock, there is no such plan, or a later plan changed the same thing.
pub fn undo_plans(state: &Path, which: UndoTarget<'_>) -> Result<Vec<Recovered>, Error> {
    if !journal::has_folder(state)? {
        return match which {
            UndoTarget::One(id) => Err(Error::NoJournal { id: id.to_owned(), known: Vec::new() }),
            _ => Ok(Vec::new()),
        };
    }
    let _lock = Lock::take(state)?;
    let mut host = Live::new().doing(|| "/".to_owned())?;
    let folder = crate::live::resolve(state)?;
    match which {
        UndoTarget::Unconfirmed(journal) => trial::undo_unconfirmed(&mut host, &folder, journal),
        UndoTarget::Interrupted => trial::undo_overdue(&mut host, &folder),
        UndoTarget::BeforeRemoval => trial::undo_before_removal(&mut host, &folder),
        _ => undo::undo(&mut host, &folder, which),
    }
}

/// Confirms a plan that is on trial, so that it is not undone automatically.
///
/// # Errors
/// If no plan of that number or id is on trial, or another run holds the lock.
pub fn confirm_plan(state: &Path, id: &str) -> Result<(), Error> {
    if !journal::has_folder(state)? {
        return Err(Error::NotOnTrial { id: id.to_owned(), known: Vec::new() });
    }
    let _lock = Lock::take(state)?;
    let mut host = Live::new().doing(|| "/".to_owned())?;
    trial::confirm(&mut host, &crate::live::resolve(state)?, id)
}

/// Compares plans with the machine, oldest first. Takes no lock and changes nothing.
///
/// # Errors
/// If the folder of journals cannot be read, or there is no such plan.
pub fn verify_plans(
    state: &Path,
    which: VerifyTarget<'_>,
    configuration: &Configuration,
) -> Result<Vec<Verified>, Error> {
    let host = Live::new().doing(|| "/".to_owned())?;
    let journals = match journal::has_folder(state) {
        Ok(true) => undo::read_journals(&host, &crate::live::resolve(state)?),
        Ok(false) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let journals = match (journals, which) {
        // comparing a document needs no journal, which only root can read
        (Err(_), VerifyTarget::Document(_)) => Vec::new(),
        (journals, _) => journals?,
    };
    verify::verify_journals(&host, &journals, which, configuration)
}

/// The journals of plans that are damaged or not trusted. Takes no lock and changes nothing.
///
/// # Errors
/// If the folder of journals cannot be read: only root may.
pub fn doubtful_journals(state: &Path) -> Result<Vec<DoubtfulJournal>, Error> {
    if !journal::has_folder(state)? {
        return Ok(Vec::new());
    }
    let host = Live::new().doing(|| "/".to_owned())?;
    let journals = undo::read_journals(&host, &crate::live::resolve(state)?)?;
    Ok(verify::doubtful_journals(&journals))
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
