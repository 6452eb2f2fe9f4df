// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the plans that are in force by their journals, and undoes them, newest first.
//!
//! A plan that was interrupted by a crash or a power cut is undone by the next `pagewise undo`. A
//! plan that was applied completely stays until the user names it.

use pagewise_model::undo::{InForce, Outcome, Recovered, Return};

use crate::error::Error;
use crate::host_ops::{HostOps, UnreadJournal};
use crate::journal::{
    self, DisabledSwap, EnabledSwap, FileChange, JournalName, LinkChange, NewFolder, OpenChange,
    Reading, RecordedChange,
};
use crate::recover::{Conflicts, boot_id, recover_one};

/// Which of the applied plans are undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoTarget<'a> {
    /// Plans whose run was interrupted before it had applied or undone them, and plans of which an
    /// earlier undo has left a part. Also plans on trial whose time is over.
    Interrupted,
    /// Plans on trial that were not confirmed in time or before a reboot; with `Some` only the plan
    /// with this journal.
    Unconfirmed(Option<&'a str>),
    /// The plans of [`UndoTarget::Interrupted`], and every plan on trial: once this program is removed, nothing
    /// could undo them when their time is over.
    BeforeRemoval,
    /// The plan with this journal number or plan id.
    One(&'a str),
    /// All plans that have a journal.
    All,
}

/// A journal of a plan, as far as it was read.
#[derive(Debug)]
pub(crate) struct PlanJournal {
    pub(crate) path: String,
    /// Why the file was not read; `None` if it was.
    pub(crate) unread: Option<UnreadJournal>,
    pub(crate) reading: Reading,
}

/// All journals of plans, oldest first. A journal that another user can have written is not
/// trusted: it is not read, and `undo` reports this.
pub(crate) fn read_journals(host: &dyn HostOps, folder: &str) -> Result<Vec<PlanJournal>, Error> {
    let paths = journal::plan_journals(host, folder)?;
    let read = paths.into_iter().map(|path| match host.journal(&path) {
        Ok(bytes) => PlanJournal { path, unread: None, reading: Reading::parse(&bytes) },
        Err(why) => PlanJournal { path, unread: Some(why), reading: Reading::default() },
    });
    Ok(read.collect())
}

pub(crate) fn plans_in_force(host: &dyn HostOps, folder: &str) -> Result<Vec<InForce>, Error> {
    let journals = read_journals(host, folder)?;
    let in_force = journals.into_iter().filter_map(|PlanJournal { path, reading, .. }| {
        let planned = reading.planned_run()?;
        let by_step = reading.open_changes_by_step();
        let left = by_step.iter().filter(|(step, _)| !step.is_empty());
        Some(InForce {
            journal: JournalName::parse(&path).id(),
            applied: reading.is_applied(),
            changes: reading.open_changes().len(),
            partly_undone: reading.is_partly_undone(),
            left: left.map(|(_, it)| it.describe()).collect(),
            trial_until: reading.trial_end(),
            unix_seconds: planned.run.unix_seconds,
            plan: (*planned.plan).clone(),
        })
    });
    Ok(in_force.collect())
}

/// Refuses to go on if a plan is neither fully applied nor undone.
pub(crate) fn refuse_if_interrupted(journals: &[PlanJournal]) -> Result<(), Error> {
    match journals.iter().find(|it| it.unread.is_none() && !it.reading.is_applied()) {
        None => Ok(()),
        Some(it) => Err(Error::Interrupted { id: it.id(), plan: it.plan() }),
    }
}

impl PlanJournal {
    pub(crate) fn id(&self) -> String {
        JournalName::parse(&self.path).id()
    }

    pub(crate) fn plan(&self) -> String {
        self.reading.plan().map(|plan| plan.id.clone()).unwrap_or_default()
    }

    /// The result for a plan that is not undone by itself, because a damaged line of its journal
    /// may have said something that forbids it: all its changes stay.
    pub(crate) fn report_kept(&self, what_it_may_say: &str) -> Recovered {
        let line = self.reading.damaged_line.unwrap_or_default();
        let id = self.id();
        let why =
            format!("line {line} of the journal is damaged and may have said {what_it_may_say}");
        let next = Some(format!("`pagewise undo {id}` undoes the plan all the same"));
        let left = || Outcome::Left { why: why.clone(), next: next.clone() };
        let open = self.reading.open_changes();
        let returns = open.iter().rev().map(|it| Return { what: it.describe(), outcome: left() });
        Recovered {
            set_aside: None,
            journal: self.path.clone(),
            pid: self.reading.run().map(|run| run.pid),
            earlier_boot: false,
            returns: returns.collect(),
            plan: self.reading.plan().map(|plan| plan.id.clone()),
            damaged_line: self.reading.damaged_line,
            skipped: None,
            unnoted: None,
            id,
        }
    }

    /// Why it cannot be known from this journal whether its plan is applied as it says; `None` if
    /// it can.
    pub(crate) fn why_doubtful(&self) -> Option<String> {
        match (&self.unread, self.reading.damaged_line) {
            (Some(UnreadJournal::Untrusted(why)), _) => Some(format!("it was not read: {why}")),
            (Some(UnreadJournal::NoFile(_)), _) | (None, None) => None,
            (None, Some(line)) => Some(format!("line {line} is damaged")),
        }
    }

    pub(crate) fn is_meant_by(&self, id: &str) -> bool {
        JournalName::parse(&self.path).is_meant_by(id) || self.plan() == id
    }
}

/// Undoes these plans, newest first.
pub(crate) fn undo(
    host: &mut dyn HostOps,
    folder: &str,
    which: UndoTarget<'_>,
) -> Result<Vec<Recovered>, Error> {
    let journals = read_journals(host, folder)?;
    let is_meant = |it: &&PlanJournal| match which {
        UndoTarget::Interrupted | UndoTarget::BeforeRemoval | UndoTarget::Unconfirmed(_) => {
            !it.reading.is_applied() || it.reading.is_partly_undone()
        }
        UndoTarget::One(id) => it.is_meant_by(id),
        UndoTarget::All => true,
    };
    let meant: Vec<&PlanJournal> = journals.iter().filter(is_meant).collect();
    if let UndoTarget::One(id) = which {
        let known = journals.iter().map(|it| format!("{} (plan {})", it.id(), it.plan())).collect();
        match meant.as_slice() {
            [] => return Err(Error::NoJournal { id: id.to_owned(), known }),
            [one] => refuse_if_changed_later(one, &journals)?,
            // a plan that was applied again after a change has several journals; all are undone,
            // newest first
            _ => {}
        }
    }
    let boot_id = boot_id(host)?;
    let is_named = matches!(which, UndoTarget::One(_) | UndoTarget::All);
    let undone = meant.iter().rev().map(|it| {
        if !is_named && it.reading.damaged_line.is_some() && it.reading.may_be_applied() {
            return it.report_kept("that the plan was applied completely");
        }
        recover_one(host, &it.path, Conflicts::Keep, &boot_id).0
    });
    Ok(undone.collect())
}

/// Refuses to undo a plan if a later one has changed the same setting, file or device.
fn refuse_if_changed_later(one: &PlanJournal, journals: &[PlanJournal]) -> Result<(), Error> {
    let own: Vec<String> = one.reading.open_changes().iter().flat_map(targets).collect();
    let later = journals.iter().skip_while(|it| it.path != one.path).skip(1);
    for later in later.collect::<Vec<_>>().into_iter().rev() {
        let open = later.reading.open_changes();
        let both = open.iter().flat_map(targets).find(|target| own.contains(target));
        if let Some(target) = both {
            return Err(Error::Under { id: later.id(), plan: later.plan(), target });
        }
    }
    Ok(())
}

/// Names of the files, settings and devices that a change affects.
fn targets(open: &OpenChange) -> Vec<String> {
    match &open.change {
        RecordedChange::Setting(setting) => vec![setting.path.clone(), setting.back.path.clone()],
        RecordedChange::File(FileChange { path, .. })
        | RecordedChange::Link(LinkChange { path, .. })
        | RecordedChange::Folder(NewFolder { path }) => vec![path.clone()],
        RecordedChange::SwapOn(EnabledSwap { area, .. })
        | RecordedChange::Drained(DisabledSwap { area, .. }) => vec![area.clone()],
        _ => Vec::new(),
    }
}
