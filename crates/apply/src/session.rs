// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loans of one run: taken one after the other, returned last-first.
//!
//! Each loan is announced in the journal, taken, and recorded as done. If taking one fails halfway,
//! it is undone at once, so that the run can continue without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pagewise_model::Bytes;
use pagewise_model::lend::{
    GroupSpec, KnobSetting, LoanId, MemoryGroup, SwapFile, ZramDevice, ZramSpec, ZramWriteback,
    ZswapSpec,
};
use pagewise_model::plan::Plan;

use crate::error::{Doing, Error};
use crate::host_ops::{BOOT_ID, HostChange, HostOps};
use crate::journal::{Identity, Journal, Loan, Lock, Open, Record};
use crate::live::Live;
use crate::loan::run::Run;
use crate::loan::writeback::Writer;
use crate::loan::{file, group, knob, module, swap, zram, zswap};
use crate::recover::{Conflicts, in_order, recover_all, settle, settled_or_left};
use pagewise_model::undo::{Outcome, Recovered, Return};

/// All loans of this run.
pub struct Session {
    hands: Box<dyn HostOps + Send>,
    folder: String,
    journal: Option<Journal>,
    open: Vec<Open>,
    /// Writeback threads of zram devices with a backing device, by the loan of the device.
    writers: BTreeMap<u64, Writer>,
    next: u64,
    pub(crate) shares_swap: bool,
    run: Run,
    lends_devices: bool,
    pub(crate) swap_folder: Option<PathBuf>,
    _lock: Option<Lock>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("journal", &self.journal)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Takes the lock, returns what earlier runs left behind, and prepares to lend. `state` is the
    /// folder of journals; see [`state_folder`](crate::state_folder).
    ///
    /// # Errors
    /// If another run holds the lock, or the folder is not writable: only root may.
    pub fn open(state: &Path) -> Result<(Self, Vec<Recovered>), Error> {
        let lock = Lock::take(state)?;
        let mut hands = Live::new().doing(|| "/".to_owned())?;
        let folder = crate::live::resolved(state)?;
        let recovered = recover_all(&mut hands, &folder, Conflicts::Keep)?;
        let mut session = Self::over(Box::new(hands), &folder);
        session._lock = Some(lock);
        Ok((session, recovered))
    }

    pub(crate) fn over(hands: Box<dyn HostOps + Send>, folder: &str) -> Self {
        Self {
            hands,
            folder: folder.to_owned(),
            journal: None,
            open: Vec::new(),
            writers: BTreeMap::new(),
            next: 1,
            shares_swap: false,
            run: Run::OWN,
            lends_devices: false,
            swap_folder: None,
            _lock: None,
        }
    }

    /// A session for the steps of a plan, whose journal exists already and contains the plan.
    pub(crate) fn for_plan(
        mut hands: Box<dyn HostOps + Send>,
        folder: &str,
        plan: &Plan,
    ) -> Result<Self, Error> {
        let Record::Began { boot_id, pid, unix_seconds, pagewise } = began(hands.as_ref())? else {
            return Err(Error::NotOpen(0));
        };
        let plan = Box::new(plan.clone());
        let planned = Record::Planned { boot_id, pid, unix_seconds, pagewise, plan };
        let journal = Journal::begin(hands.as_mut(), folder, &planned)?;
        let mut session = Self::over(hands, folder);
        session.journal = Some(journal);
        session.run = Run::OWN_PLAN;
        session.shares_swap = true;
        Ok(session)
    }

    /// The journal file, if there is one.
    pub(crate) fn journal_path(&self) -> Option<&str> {
        self.journal.as_ref().map(Journal::path)
    }

    /// Keeps everything that was taken so far; the journal continues to name it.
    pub(crate) fn leave(&mut self) {
        self.open.clear();
        self.journal = None;
    }

    /// Returns what was taken after this loan, last first; everything else is kept, and the journal
    /// continues to name it.
    pub(crate) fn give_back_after(&mut self, loan: LoanId) -> Vec<Return> {
        let later: Vec<Open> = self.open.iter().filter(|it| it.id > loan.0).cloned().collect();
        let later = in_order(later).into_iter().rev();
        let returns = later.map(|it| Return {
            what: it.described(),
            outcome: settled_or_left(self.put_back(it.id)),
        });
        let returns = returns.collect();
        self.leave();
        returns
    }

    /// Allows to enable swap although the host has other swap.
    pub fn allow_shared_swap(&mut self) {
        self.shares_swap = true;
    }

    /// Allows to swap to whole block devices that this session did not create; their contents are
    /// lost. For a machine whose disks hold no data, such as a guest.
    pub fn allow_devices(&mut self) {
        self.lends_devices = true;
    }

    /// Sets the folder in which swap files are to be created.
    pub fn prefer_swap_folder(&mut self, folder: PathBuf) {
        self.swap_folder = Some(folder);
    }

    /// Whether memory cgroups here are of version 2.
    #[must_use]
    pub fn has_unified_groups(&self) -> bool {
        group::mount(self.hands()).is_ok_and(|(_, unified)| unified)
    }

    /// Creates a zram device. If zram is a module that is not loaded, it is loaded first.
    ///
    /// # Errors
    /// If there is no zram, or the kernel refuses the algorithm or the size; for the writeback
    /// device as for [`Session::swap_device`].
    pub fn zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Error> {
        if let Some(writeback) = &spec.writeback {
            self.unused_device(Path::new(&writeback.device))?;
        }
        if !zram::is_there(self.hands()) {
            let what = Loan::Module { name: module::ZRAM.to_owned() };
            self.taken(what, |hands| module::load(hands))?;
        }
        let what = zram::announced(self.hands())?;
        let id = self.announce(what)?;
        self.finish(id, |session| {
            let device = zram::make(session.hands.as_mut())?;
            session.with_open(id, |open| open.made = Some(device));
            session.note(&Record::Made { loan: id.0, device })?;
            zram::set_up(session.hands.as_mut(), device.number, spec)?;
            if let Some(writeback) = &spec.writeback {
                session.start_writer(id, device.number, writeback)?;
            }
            Ok(zram::lent(id, device.number))
        })
    }

    fn start_writer(
        &mut self,
        id: LoanId,
        number: u32,
        writeback: &ZramWriteback,
    ) -> Result<(), Error> {
        let hands = self.hands().for_thread().doing(|| format!("zram{number}"))?;
        let every = Duration::from_secs(writeback.every_seconds);
        self.writers.insert(id.0, Writer::start(hands, number, every)?);
        Ok(())
    }

    /// Creates a file for swap in a folder, without holes.
    ///
    /// # Errors
    /// If there is not enough space.
    pub fn swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Error> {
        let folder = self.hands().resolved(folder).doing(|| folder.display().to_string())?;
        file::plain(&folder)?;
        let what = file::announced(self.hands(), &folder, self.next, size)?;
        self.filled(what, size)
    }

    /// Creates and fills the swap file of this announced loan.
    pub(crate) fn filled(&mut self, what: Loan, size: Bytes) -> Result<SwapFile, Error> {
        let Loan::SwapFile { path, .. } = &what else {
            return Err(Error::NotOurs(what.described(None)));
        };
        let path = path.clone();
        let id = self.announce(what)?;
        self.finish(id, |session| {
            let identity = file::make(session.hands.as_mut(), &path)?;
            session.identify(id, identity)?;
            file::fill(session.hands.as_mut(), &path, identity, size)?;
            Ok(SwapFile { loan: id, path: path.into() })
        })
    }

    /// Writes a swap header to a device or file of this session and enables it as swap.
    ///
    /// # Errors
    /// If the kernel refuses, or other swap of the host is enabled and this was not allowed.
    pub fn swap_on(&mut self, area: &Path, priority: Option<i16>) -> Result<LoanId, Error> {
        let area = area.display().to_string();
        let of_area = self.open.iter().find(|open| open.area().as_deref() == Some(&area));
        let open = of_area.ok_or_else(|| Error::NotOurs(area.clone()))?;
        let diskseq = open.made.map(|device| device.diskseq);
        // returning the second loan would disable the first one's swap
        if open.held_by(&self.open).is_some() {
            return Err(Error::IsOn(area));
        }
        self.switch_on(&area, diskseq, priority)
    }

    /// The same on a block device that is not part of this session; its contents are lost. mkswap
    /// refuses a device that is mounted.
    ///
    /// # Errors
    /// If this was not allowed, or as for [`Session::swap_on`].
    pub fn swap_device(&mut self, device: &Path, priority: Option<i16>) -> Result<LoanId, Error> {
        let area = self.unused_device(device)?;
        let diskseq = swap::diskseq_of(self.hands(), &area);
        self.switch_on(&area, diskseq, priority)
    }

    /// The resolved path of a block device whose contents may be lost.
    fn unused_device(&self, device: &Path) -> Result<String, Error> {
        let area = self.hands().resolved(device).doing(|| device.display().to_string())?;
        if !self.lends_devices {
            return Err(Error::NotOurs(area));
        }
        let name = area.strip_prefix("/dev/").unwrap_or_default();
        if name.is_empty() || !self.hands().exists(&format!("/sys/class/block/{name}")) {
            return Err(Error::Absent { what: area, why: "it is no block device" });
        }
        if self.hands().swaps().iter().any(|on| on.path == area) {
            return Err(Error::IsOn(area));
        }
        Ok(area)
    }

    fn switch_on(
        &mut self,
        area: &str,
        diskseq: Option<u64>,
        priority: Option<i16>,
    ) -> Result<LoanId, Error> {
        self.refuse_other_swap()?;
        let what = Loan::SwapOn { area: area.to_owned(), diskseq, zram: None };
        self.taken(what, |hands| swap::on(hands, area, priority))
    }

    fn refuse_other_swap(&self) -> Result<(), Error> {
        if self.shares_swap {
            return Ok(());
        }
        let on = |open: &Open| match &open.what {
            Loan::SwapOn { area, .. } => Some(area.clone()),
            _ => open.area(),
        };
        let ours: Vec<String> = self.open.iter().filter_map(on).collect();
        let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
        swap::alone(self.hands(), &ours)
    }

    /// Enables zswap as specified: each of its knobs is a loan, and the result lists them in the
    /// order in which they were taken. The swap area behind it has to be lent afterwards, because
    /// returning that first empties the pool.
    ///
    /// # Errors
    /// If the kernel has no zswap, no such compressor or no shrinker; or, unless it was allowed, if
    /// other swap of the host is enabled. Nothing stays lent then.
    pub fn zswap(&mut self, spec: &ZswapSpec) -> Result<Vec<LoanId>, Error> {
        let settings = zswap::settings(self.hands(), spec)?;
        // zswap stores only pages that have a slot in swap: without other swap its pool is empty
        self.refuse_other_swap()?;
        let mut loans = Vec::new();
        let done = self.set_up_zswap(spec, &settings, &mut loans);
        if done.is_err() {
            for loan in loans.drain(..).rev() {
                // what cannot be returned now is tried again at the end
                let _ = self.put_back(loan.0);
            }
        }
        done.map(|()| loans)
    }

    fn set_up_zswap(
        &mut self,
        spec: &ZswapSpec,
        settings: &[KnobSetting],
        loans: &mut Vec<LoanId>,
    ) -> Result<(), Error> {
        for setting in settings {
            loans.push(self.knob(setting)?);
        }
        let old = self.open.iter().rev().find_map(|open| match &open.what {
            Loan::Setting { name, old, .. } if name == zswap::COMPRESSOR => Some(old.clone()),
            _ => None,
        });
        let old = old.ok_or_else(|| Error::NoKnob(zswap::COMPRESSOR.to_owned()))?;
        zswap::check_compressor(self.hands.as_mut(), spec, &old)
    }

    /// Creates a memory cgroup.
    ///
    /// # Errors
    /// If there is no memory controller, or the kernel refuses a limit.
    pub fn group(&mut self, spec: &GroupSpec) -> Result<MemoryGroup, Error> {
        let (mount, unified) = group::mount(self.hands())?;
        if unified {
            if let Some(what) = group::controller(self.hands(), &mount)? {
                self.taken(what, |hands| group::hand_down(hands, &mount))?;
            }
        }
        let what = group::announced(self.hands(), &mount, unified, self.next);
        let Loan::Group { folder, .. } = &what else { return Err(Error::NotOurs(mount)) };
        let folder = folder.clone();
        let loan = self.announce(what)?;
        self.finish(loan, |session| {
            let identity = group::make(session.hands.as_mut(), &folder)?;
            session.identify(loan, identity)?;
            group::limit(session.hands.as_mut(), &folder, unified, spec)?;
            Ok(MemoryGroup { loan, folder: folder.into(), unified })
        })
    }

    /// Sets a knob of the table until the loan is returned.
    ///
    /// # Errors
    /// If the host lacks it or refuses the value, or if its value could not be restored.
    pub fn knob(&mut self, setting: &KnobSetting) -> Result<LoanId, Error> {
        let KnobSetting { name, instance, value } = setting;
        let what = knob::announced(self.hands(), name, instance.as_deref(), value)?;
        let Loan::Setting { path, old, ours, back, .. } = what.clone() else {
            return Err(Error::NoKnob(name.clone()));
        };
        let change = knob::Change { path: &path, old: &old, ours: &ours, back: &back };
        self.taken(what, |hands| knob::set(hands, name, &change))
    }

    /// Writes a word to the file of a lent knob that only makes the kernel refresh what it reports,
    /// such as `update_schemes_tried_regions` to `damon.kdamond.state`. It changes no setting, so
    /// there is nothing to restore.
    ///
    /// # Errors
    /// If the knob has no such word, or the kernel refuses it.
    pub fn trigger(&mut self, loan: LoanId, word: &str) -> Result<(), Error> {
        let open = self.open.iter().find(|open| open.id == loan.0);
        let Some(Loan::Setting { name, path, .. }) = open.map(|open| &open.what) else {
            return Err(Error::NotOpen(loan.0));
        };
        knob::tells(name, word)?;
        self.hands
            .act(&HostChange::Write { path, value: word })
            .doing(|| format!("{name} = {word}"))
    }

    /// Returns one loan early, after later loans that depend on it: swap on a device or file,
    /// another value of the same knob.
    ///
    /// # Errors
    /// If it cannot be returned: it stays lent, and is tried again at the end. Also if a zram
    /// device could not write its idle pages; in this case it was returned.
    pub fn give_back(&mut self, loan: LoanId) -> Result<Outcome, Error> {
        let written = self.writers.remove(&loan.0).map_or(Ok(()), Writer::end);
        let at = self.open.iter().position(|open| open.id == loan.0);
        let at = at.ok_or(Error::NotOpen(loan.0))?;
        let rests = self.open[at + 1..].iter().rev().filter(|later| later.rests_on(&self.open[at]));
        let rests: Vec<u64> = rests.map(|later| later.id).collect();
        for later in rests {
            self.put_back(later)?;
        }
        let outcome = self.put_back(loan.0)?;
        written.map(|()| outcome)
    }

    /// Returns all loans, last first, and reports the result of each.
    pub fn end(mut self) -> Vec<Return> {
        self.give_all_back()
    }

    pub(crate) fn give_all_back(&mut self) -> Vec<Return> {
        self.open = in_order(std::mem::take(&mut self.open));
        let ids: Vec<u64> = self.open.iter().rev().map(|open| open.id).collect();
        let returns = ids.into_iter().filter_map(|id| {
            let what = self.open.iter().find(|open| open.id == id)?.described();
            Some(Return { what, outcome: settled_or_left(self.put_back(id)) })
        });
        let returns = returns.collect();
        if self.open.is_empty() {
            if let Some(mut journal) = self.journal.take() {
                // if it cannot be removed, the next start finds that nothing in it is lent
                let _ = journal.remove(self.hands.as_mut());
            }
        }
        returns
    }

    fn put_back(&mut self, id: u64) -> Result<Outcome, Error> {
        drop(self.writers.remove(&id));
        let at = self.open.iter().position(|open| open.id == id).ok_or(Error::NotOpen(id))?;
        let Some(journal) = &mut self.journal else { return Err(Error::NotOpen(id)) };
        if let Some(later) = self.open[at].held_by(&self.open[at + 1..]) {
            return Err(Error::Held { by: later.described() });
        }
        let outcome = settle(self.hands.as_mut(), journal, &self.open[at], self.run)?;
        match &outcome {
            Outcome::Conflict { found, .. } => self.open[at].conflict = Some(found.clone()),
            _ => drop(self.open.remove(at)),
        }
        Ok(outcome)
    }

    pub(crate) fn hands(&self) -> &dyn HostOps {
        self.hands.as_ref()
    }

    fn with_open(&mut self, id: LoanId, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.open.iter_mut().find(|open| open.id == id.0) {
            change(open);
        }
    }

    /// Records the identity of the created file or group.
    fn identify(&mut self, id: LoanId, identity: Identity) -> Result<(), Error> {
        self.with_open(id, |open| open.identity = Some(identity));
        self.note(&Record::Identified { loan: id.0, identity })
    }

    /// Announces a loan, takes it, and records it.
    pub(crate) fn taken(
        &mut self,
        what: Loan,
        take: impl FnOnce(&mut dyn HostOps) -> Result<(), Error>,
    ) -> Result<LoanId, Error> {
        let id = self.announce(what)?;
        self.finish(id, |session| take(session.hands.as_mut()).map(|()| id))
    }

    fn announce(&mut self, what: Loan) -> Result<LoanId, Error> {
        let id = LoanId(self.next);
        self.next += 1;
        self.note(&Record::Taking { loan: id.0, what: what.clone() })?;
        self.open.push(Open::new(id.0, what));
        Ok(id)
    }

    /// Takes a loan that was announced; if this fails halfway, it is undone at once.
    fn finish<T>(
        &mut self,
        id: LoanId,
        take: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let taken = take(self).and_then(|taken| {
            self.note(&Record::Done { loan: id.0 })?;
            #[cfg(debug_assertions)]
            crash_if_asked(id);
            Ok(taken)
        });
        if taken.is_err() {
            // what cannot be returned now is tried again at the end
            let _ = self.put_back(id.0);
        }
        taken
    }

    pub(crate) fn note(&mut self, record: &Record) -> Result<(), Error> {
        if self.journal.is_none() {
            let began = began(self.hands())?;
            self.journal = Some(Journal::begin(self.hands.as_mut(), &self.folder, &began)?);
        }
        match &mut self.journal {
            Some(journal) => journal.add(self.hands.as_mut(), record),
            None => Ok(()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.give_all_back();
    }
}

/// For tests of crashes: with `PAGEWISE_TEST_CRASH=panic:2` it panics once the second loan is
/// taken, with `abort:2` it aborts as a panic of the release build does, with `kill:2` it kills
/// itself with SIGKILL.
#[cfg(debug_assertions)]
fn crash_if_asked(loan: LoanId) {
    let asked = std::env::var("PAGEWISE_TEST_CRASH").unwrap_or_default();
    match asked.split_once(':') {
        Some(("panic", at)) if at == loan.0.to_string() => panic!("asked for by a test"),
        Some(("abort", at)) if at == loan.0.to_string() => std::process::abort(),
        Some(("kill", at)) if at == loan.0.to_string() => {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
        _ => {}
    }
}

fn began(hands: &dyn HostOps) -> Result<Record, Error> {
    let boot_id = hands.read(BOOT_ID).doing(|| BOOT_ID.to_owned())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Record::Began {
        boot_id,
        pid: hands.pid(),
        unix_seconds: now.as_secs(),
        pagewise: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
