// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The changes of one run under one journal: made one after the other, undone last-first.
//!
//! Each change is announced in the journal, made, read back, and recorded as done. If making one
//! fails halfway, it is undone at once, so that the run can continue without it.
//!
//! Who starts the run decides how long its changes stay: a [`Session`](crate::Session) undoes them
//! when it ends, a plan that was applied [keeps](Transaction::keep) them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pagewise_model::Bytes;
use pagewise_model::lend::{ZramSpec, ZramWriteback};
use pagewise_model::plan::Plan;

use crate::error::{Doing, Error};
use crate::host_ops::{BOOT_ID, Config, HostOps, folder_of};
use crate::journal::{
    Identity, Journal, LoadedModule, NewFolder, NewSwapFile, OpenChange, PlannedRun, Record,
    RecordedChange, RunStart, SettingChange,
};
use crate::loan::run::Run;
use crate::loan::writeback::Writer;
use crate::loan::{config, file, knob, module, place, zram};
use crate::recover::{order_for_undo, outcome_of_undo, undo_and_record};
use pagewise_model::undo::{Outcome, Return};

/// All changes of one run. When it is dropped, those that were not kept are undone.
pub(crate) struct Transaction {
    host: Box<dyn HostOps + Send>,
    folder: String,
    journal: Option<Journal>,
    open: Vec<OpenChange>,
    /// Writeback threads of zram devices with a backing device, by the change that created the
    /// device.
    writers: BTreeMap<u64, Writer>,
    next: u64,
    run: Run,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("journal", &self.journal)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// A zram device that a change of the transaction created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreatedZram {
    /// The number of the change that created the device.
    pub(crate) id: u64,
    pub(crate) number: u32,
}

impl Transaction {
    /// An empty transaction whose changes are undone when the run ends. The journal is created
    /// with the first one.
    pub(crate) fn of_loans(host: Box<dyn HostOps + Send>, folder: &str) -> Self {
        Self {
            host,
            folder: folder.to_owned(),
            journal: None,
            open: Vec::new(),
            writers: BTreeMap::new(),
            next: 1,
            run: Run::OWN,
        }
    }

    /// An empty transaction for the changes of a plan. The journal is created now and contains the
    /// plan.
    pub(crate) fn of_plan(
        mut host: Box<dyn HostOps + Send>,
        folder: &str,
        plan: &Plan,
    ) -> Result<Self, Error> {
        let run = run_start(host.as_ref())?;
        let planned = Record::Planned(PlannedRun { run, plan: Box::new(plan.clone()) });
        let journal = Journal::begin(host.as_mut(), folder, &planned)?;
        let mut transaction = Self::of_loans(host, folder);
        transaction.journal = Some(journal);
        transaction.run = Run::OWN_PLAN;
        Ok(transaction)
    }

    pub(crate) fn host(&self) -> &dyn HostOps {
        self.host.as_ref()
    }

    pub(crate) fn host_mut(&mut self) -> &mut dyn HostOps {
        self.host.as_mut()
    }

    /// The path of the journal, if the transaction has one.
    pub(crate) fn journal_path(&self) -> Option<&str> {
        self.journal.as_ref().map(Journal::path)
    }

    /// The changes of this run that are in force, in the order in which they were made.
    pub(crate) fn open_changes(&self) -> &[OpenChange] {
        &self.open
    }

    /// The number that the next change gets.
    pub(crate) const fn next_id(&self) -> u64 {
        self.next
    }

    /// Announces a change in the journal, makes it with `write`, and records that it is done.
    /// Returns the number of the change.
    pub(crate) fn make(
        &mut self,
        change: RecordedChange,
        write: impl FnOnce(&mut dyn HostOps) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let id = self.announce(change)?;
        self.finish(id, |changes| write(changes.host.as_mut()).map(|()| id))
    }

    /// Creates a zram device. If zram is a module that is not loaded, it is loaded first.
    pub(crate) fn add_zram(&mut self, spec: &ZramSpec) -> Result<CreatedZram, Error> {
        if !zram::is_loaded(self.host()) {
            let module = LoadedModule { name: module::ZRAM.to_owned() };
            self.make(RecordedChange::Module(module), |host| module::load(host))?;
        }
        let new = zram::new_device(self.host())?;
        let id = self.announce(RecordedChange::Zram(new))?;
        self.finish(id, |changes| {
            let device = zram::make(changes.host.as_mut())?;
            changes.update_open(id, |open| open.made = Some(device));
            changes.add_record(&Record::Made { id, device })?;
            zram::set_up(changes.host.as_mut(), device.number, spec)?;
            if let Some(writeback) = &spec.writeback {
                changes.start_writer(id, device.number, writeback)?;
            }
            Ok(CreatedZram { id, number: device.number })
        })
    }

    fn start_writer(
        &mut self,
        id: u64,
        number: u32,
        writeback: &ZramWriteback,
    ) -> Result<(), Error> {
        let host = self.host().for_thread().doing(|| format!("zram{number}"))?;
        let every = Duration::from_secs(writeback.every_seconds);
        self.writers.insert(id, Writer::start(host, number, every)?);
        Ok(())
    }

    /// Creates and fills a swap file. Returns the number of the change.
    pub(crate) fn add_swap_file(&mut self, new: NewSwapFile, size: Bytes) -> Result<u64, Error> {
        let path = new.path.clone();
        let id = self.announce(RecordedChange::SwapFile(new))?;
        self.finish(id, |changes| {
            let identity = file::make(changes.host.as_mut(), &path)?;
            changes.record_identity(id, identity)?;
            file::fill(changes.host.as_mut(), &path, identity, size)?;
            Ok(id)
        })
    }

    /// Writes a setting and returns the number of the change.
    pub(crate) fn set(&mut self, setting: &SettingChange) -> Result<u64, Error> {
        let change = RecordedChange::Setting(setting.clone());
        self.make(change, |host| knob::set(host, setting))
    }

    /// Creates the missing parent folders of a configuration file.
    pub(crate) fn make_folders(&mut self, path: &str) -> Result<(), Error> {
        let mut missing = Vec::new();
        let mut folder = folder_of(path);
        while place::check_folder(folder).is_ok()
            && matches!(self.host().config(folder), Ok(Config::Missing))
        {
            missing.push(folder.to_owned());
            folder = folder_of(folder);
        }
        for path in missing.into_iter().rev() {
            let change = RecordedChange::Folder(NewFolder { path: path.clone() });
            self.make(change, |host| config::make_folder(host, &path))?;
        }
        Ok(())
    }

    /// Keeps all changes made so far when the transaction is dropped; the journal continues to
    /// name them.
    pub(crate) fn keep(&mut self) {
        self.open.clear();
        self.journal = None;
    }

    /// Whether the timer of a trial is among the changes in force.
    pub(crate) fn has_timer(&self) -> bool {
        self.open.iter().any(|open| open.change == RecordedChange::Timer)
    }

    /// Undoes all changes, last first, and reports the result of each.
    pub(crate) fn undo_all(&mut self) -> Vec<Return> {
        self.open = order_for_undo(std::mem::take(&mut self.open));
        let ids: Vec<u64> = self.open.iter().rev().map(|open| open.id).collect();
        let returns = ids.into_iter().filter_map(|id| {
            let at = self.open.iter().position(|open| open.id == id)?;
            let (open, later) = (&self.open[at], &self.open[at + 1..]);
            if open.is_needed_by(later) {
                return None;
            }
            let what = open.describe();
            Some(Return { what, outcome: outcome_of_undo(self.undo(id)) })
        });
        let returns = returns.collect();
        self.remove_empty_journal();
        returns
    }

    fn remove_empty_journal(&mut self) {
        if self.open.is_empty() {
            if let Some(mut journal) = self.journal.take() {
                // if it cannot be removed, the next start finds that nothing in it is in force
                let _ = journal.remove(self.host.as_mut());
            }
        }
    }

    /// Undoes all changes that were made after this one, and those in `also`, last first;
    /// everything else is kept, and the journal continues to name it.
    pub(crate) fn undo_after(&mut self, id: u64, also: &[u64]) -> Vec<Return> {
        let is_undone = |it: &&OpenChange| it.id > id || also.contains(&it.id);
        let later: Vec<OpenChange> = self.open.iter().filter(is_undone).cloned().collect();
        let later = order_for_undo(later).into_iter().rev();
        let returns = later
            .map(|it| Return { what: it.describe(), outcome: outcome_of_undo(self.undo(it.id)) });
        let returns = returns.collect();
        self.remove_empty_journal();
        self.keep();
        returns
    }

    /// Undoes one change, after later changes that depend on it.
    ///
    /// # Errors
    /// If it cannot be undone: it stays in force. Also if a zram device could not write its idle
    /// pages; in this case it was undone.
    pub(crate) fn undo_with_dependents(&mut self, id: u64) -> Result<Outcome, Error> {
        let written = self.writers.remove(&id).map_or(Ok(()), Writer::end);
        let at = self.open.iter().position(|open| open.id == id);
        let at = at.ok_or(Error::NotOpen(id))?;
        let rests =
            self.open[at + 1..].iter().rev().filter(|later| later.depends_on(&self.open[at]));
        let rests: Vec<u64> = rests.map(|later| later.id).collect();
        for later in rests {
            self.undo(later)?;
        }
        let outcome = self.undo(id)?;
        written.map(|()| outcome)
    }

    /// Undoes one change on which no later change depends.
    ///
    /// # Errors
    /// If it cannot be undone, or a later change depends on it: it stays in force.
    pub(crate) fn undo(&mut self, id: u64) -> Result<Outcome, Error> {
        drop(self.writers.remove(&id));
        let at = self.open.iter().position(|open| open.id == id).ok_or(Error::NotOpen(id))?;
        let Some(journal) = &mut self.journal else { return Err(Error::NotOpen(id)) };
        if let Some(later) = self.open[at].find_dependent(&self.open[at + 1..]) {
            return Err(Error::Held { by: later.describe() });
        }
        let outcome = undo_and_record(self.host.as_mut(), journal, &self.open[at], self.run)?;
        match &outcome {
            Outcome::Conflict { found, .. } => self.open[at].conflict = Some(found.clone()),
            _ => drop(self.open.remove(at)),
        }
        Ok(outcome)
    }

    fn update_open(&mut self, id: u64, change: impl FnOnce(&mut OpenChange)) {
        if let Some(open) = self.open.iter_mut().find(|open| open.id == id) {
            change(open);
        }
    }

    /// Records in the journal the identity of the file or cgroup that a change created.
    pub(crate) fn record_identity(&mut self, id: u64, identity: Identity) -> Result<(), Error> {
        self.update_open(id, |open| open.identity = Some(identity));
        self.add_record(&Record::Identified { id, identity })
    }

    /// Records in the journal a change that is about to be made. Returns the number of the change.
    pub(crate) fn announce(&mut self, change: RecordedChange) -> Result<u64, Error> {
        let id = self.next;
        self.next += 1;
        self.add_record(&Record::Announced { id, what: change.clone() })?;
        self.open.push(OpenChange::new(id, change));
        Ok(id)
    }

    /// Makes a change that the journal has announced; if this fails halfway, the change is undone
    /// at once.
    pub(crate) fn finish<T>(
        &mut self,
        id: u64,
        write: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let made = write(self).and_then(|made| {
            self.add_record(&Record::Done { id })?;
            #[cfg(debug_assertions)]
            crash_if_asked(id);
            Ok(made)
        });
        if made.is_err() {
            // what cannot be undone now is tried again at the end
            let _ = self.undo(id);
        }
        made
    }

    /// Appends a record to the journal, which is created first if the run has none yet.
    pub(crate) fn add_record(&mut self, record: &Record) -> Result<(), Error> {
        if self.journal.is_none() {
            let began = Record::Began(run_start(self.host())?);
            self.journal = Some(Journal::begin(self.host.as_mut(), &self.folder, &began)?);
        }
        match &mut self.journal {
            Some(journal) => journal.add(self.host.as_mut(), record),
            None => Ok(()),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.undo_all();
    }
}

/// For tests of crashes: with `PAGEWISE_TEST_CRASH=panic:2` it panics once the second change is
/// made, with `abort:2` it aborts as a panic of the release build does, with `kill:2` it kills
/// itself with SIGKILL.
#[cfg(debug_assertions)]
fn crash_if_asked(id: u64) {
    let asked = std::env::var("PAGEWISE_TEST_CRASH").unwrap_or_default();
    match asked.split_once(':') {
        Some(("panic", at)) if at == id.to_string() => panic!("asked for by a test"),
        Some(("abort", at)) if at == id.to_string() => std::process::abort(),
        Some(("kill", at)) if at == id.to_string() => {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
        _ => {}
    }
}

fn run_start(host: &dyn HostOps) -> Result<RunStart, Error> {
    let boot_id = host.read(BOOT_ID).doing(|| BOOT_ID.to_owned())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(RunStart {
        boot_id,
        pid: host.pid(),
        unix_seconds: now.as_secs(),
        pagewise: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
