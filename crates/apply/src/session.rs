// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loans of one run: changes that are made one after the other, and undone last-first when the
//! session ends.

use std::path::{Path, PathBuf};

use pagewise_model::Bytes;
use pagewise_model::lend::{
    GroupSpec, KnobSetting, LoanId, MemoryGroup, SwapFile, ZramDevice, ZramSpec, ZswapSpec,
};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps};
use crate::journal::{EnabledSwap, Lock, OpenChange, RecordedChange, SettingChange};
use crate::live::Live;
use crate::loan::{file, group, knob, swap, zram, zswap};
use crate::recover::{Conflicts, recover_all};
use crate::transaction::Transaction;
use pagewise_model::undo::{Outcome, Recovered, Return};

/// All loans of one run.
#[derive(Debug)]
pub struct Session {
    changes: Transaction,
    shares_swap: bool,
    lends_devices: bool,
    pub(crate) swap_folder: Option<PathBuf>,
    // dropped after the changes were undone
    _lock: Option<Lock>,
}

impl Session {
    /// Takes the lock, returns what earlier runs left behind, and prepares to lend. `state` is the
    /// folder of journals; see [`state_folder`](crate::state_folder).
    ///
    /// # Errors
    /// If another run holds the lock, or the folder is not writable: only root may.
    pub fn open(state: &Path) -> Result<(Self, Vec<Recovered>), Error> {
        let lock = Lock::take(state)?;
        let mut host = Live::new().doing(|| "/".to_owned())?;
        let folder = crate::live::resolve(state)?;
        let recovered = recover_all(&mut host, &folder, Conflicts::Keep)?;
        let mut session = Self::new(Box::new(host), &folder);
        session._lock = Some(lock);
        Ok((session, recovered))
    }

    pub(crate) fn new(host: Box<dyn HostOps + Send>, folder: &str) -> Self {
        Self {
            changes: Transaction::of_loans(host, folder),
            shares_swap: false,
            lends_devices: false,
            swap_folder: None,
            _lock: None,
        }
    }

    /// Allows this session to enable swap although the host has other swap.
    pub fn allow_shared_swap(&mut self) {
        self.shares_swap = true;
    }

    /// Allows this session to swap to whole block devices that it did not create; their contents
    /// are lost. For a machine whose disks hold no data, such as a guest.
    pub fn allow_devices(&mut self) {
        self.lends_devices = true;
    }

    /// Sets the folder in which swap files are to be created.
    pub fn prefer_swap_folder(&mut self, folder: PathBuf) {
        self.swap_folder = Some(folder);
    }

    /// Whether memory cgroups on this machine are of version 2.
    #[must_use]
    pub fn has_unified_groups(&self) -> bool {
        group::find_mount(self.host()).is_ok_and(|(_, unified)| unified)
    }

    /// Creates a zram device and lends it. If zram is a module that is not loaded, it is loaded
    /// first.
    ///
    /// # Errors
    /// If there is no zram, or the kernel refuses the algorithm or the size; for the writeback
    /// device as for [`Session::swap_device`].
    pub fn zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Error> {
        if let Some(writeback) = &spec.writeback {
            self.unused_device(Path::new(&writeback.device))?;
        }
        let created = self.changes.add_zram(spec)?;
        Ok(zram::describe_device(LoanId(created.id), created.number))
    }

    /// Creates a file for swap in a folder, without holes.
    ///
    /// # Errors
    /// If there is not enough space.
    pub fn swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Error> {
        let folder = self.host().resolve(folder).doing(|| folder.display().to_string())?;
        file::refuse_escapes(&folder)?;
        let new = file::new_file(self.host(), &folder, self.changes.next_id(), size)?;
        let path = PathBuf::from(&new.path);
        let loan = LoanId(self.changes.add_swap_file(new, size)?);
        Ok(SwapFile { loan, path })
    }

    /// Writes a swap header to a device or file of this session and enables it as swap.
    ///
    /// # Errors
    /// If the kernel refuses, or other swap of the host is enabled and this was not allowed.
    pub fn swap_on(&mut self, area: &Path, priority: Option<i16>) -> Result<LoanId, Error> {
        let area = area.display().to_string();
        let of_area =
            self.changes.open_changes().iter().find(|open| open.area().as_deref() == Some(&area));
        let open = of_area.ok_or_else(|| Error::NotOurs(area.clone()))?;
        let diskseq = open.made.map(|device| device.diskseq);
        // returning the second loan would disable the first one's swap
        if open.find_dependent(self.changes.open_changes()).is_some() {
            return Err(Error::IsOn(area));
        }
        self.switch_on(&area, diskseq, priority)
    }

    /// Enables swap on a block device that is not part of this session; its contents are lost.
    /// mkswap refuses a device that is mounted.
    ///
    /// # Errors
    /// If this was not allowed, or as for [`Session::swap_on`].
    pub fn swap_device(&mut self, device: &Path, priority: Option<i16>) -> Result<LoanId, Error> {
        let area = self.unused_device(device)?;
        let diskseq = swap::diskseq_of(self.host(), &area);
        self.switch_on(&area, diskseq, priority)
    }

    /// The resolved path of a block device whose contents may be lost.
    fn unused_device(&self, device: &Path) -> Result<String, Error> {
        let area = self.host().resolve(device).doing(|| device.display().to_string())?;
        if !self.lends_devices {
            return Err(Error::NotOurs(area));
        }
        let name = area.strip_prefix("/dev/").unwrap_or_default();
        if name.is_empty() || !self.host().exists(&format!("/sys/class/block/{name}")) {
            return Err(Error::Absent { what: area, why: "it is no block device" });
        }
        if self.host().swaps().iter().any(|on| on.path == area) {
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
        let swap = EnabledSwap { area: area.to_owned(), diskseq, zram: None };
        let change = RecordedChange::SwapOn(swap);
        self.changes.make(change, |host| swap::enable(host, area, priority)).map(LoanId)
    }

    fn refuse_other_swap(&self) -> Result<(), Error> {
        if self.shares_swap {
            return Ok(());
        }
        let area = |open: &OpenChange| match &open.change {
            RecordedChange::SwapOn(swap) => Some(swap.area.clone()),
            _ => open.area(),
        };
        let ours: Vec<String> = self.changes.open_changes().iter().filter_map(area).collect();
        let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
        swap::refuse_others(self.host(), &ours)
    }

    /// Enables zswap as the specification says: each of its knobs is a loan, and the result lists
    /// them in the order in which they were taken. The swap area behind it has to be lent
    /// afterwards, because returning that first empties the pool.
    ///
    /// # Errors
    /// If the kernel has no zswap, no such compressor or no shrinker; or, unless it was allowed, if
    /// other swap of the host is enabled. Nothing stays lent then.
    pub fn zswap(&mut self, spec: &ZswapSpec) -> Result<Vec<LoanId>, Error> {
        let settings = zswap::settings(self.host(), spec)?;
        // zswap stores only pages that have a slot in swap: without other swap its pool is empty
        self.refuse_other_swap()?;
        let mut loans = Vec::new();
        let done = self.set_up_zswap(spec, &settings, &mut loans);
        if done.is_err() {
            for loan in loans.drain(..).rev() {
                // what cannot be returned now is tried again at the end
                let _ = self.changes.undo(loan.0);
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
        let old = self.changes.open_changes().iter().rev().find_map(|open| match &open.change {
            RecordedChange::Setting(SettingChange { name, old, .. })
                if name == zswap::COMPRESSOR =>
            {
                Some(old.clone())
            }
            _ => None,
        });
        let old = old.ok_or_else(|| Error::NoKnob(zswap::COMPRESSOR.to_owned()))?;
        zswap::check_compressor(self.changes.host_mut(), spec, &old)
    }

    /// Creates a memory cgroup and lends it.
    ///
    /// # Errors
    /// If there is no memory controller, or the kernel refuses a limit.
    pub fn group(&mut self, spec: &GroupSpec) -> Result<MemoryGroup, Error> {
        let (mount, unified) = group::find_mount(self.host())?;
        if unified {
            if let Some(controller) = group::new_controller(self.host(), &mount)? {
                let change = RecordedChange::Controller(controller);
                self.changes.make(change, |host| group::enable_controller(host, &mount))?;
            }
        }
        let new = group::new_group(self.host(), &mount, unified, self.changes.next_id());
        let folder = new.folder.clone();
        let id = self.changes.announce(RecordedChange::Group(new))?;
        self.changes.finish(id, |changes| {
            let identity = group::make(changes.host_mut(), &folder)?;
            changes.record_identity(id, identity)?;
            group::set_limits(changes.host_mut(), &folder, unified, spec)?;
            Ok(MemoryGroup { loan: LoanId(id), folder: folder.into(), unified })
        })
    }

    /// Sets a knob of the table until the loan is returned.
    ///
    /// # Errors
    /// If the host lacks it or refuses the value, or if its value could not be restored.
    pub fn knob(&mut self, setting: &KnobSetting) -> Result<LoanId, Error> {
        let KnobSetting { name, instance, value } = setting;
        let setting = knob::new_change(self.host(), name, instance.as_deref(), value)?;
        self.changes.set(&setting).map(LoanId)
    }

    /// Writes a word to the file of a lent knob that only makes the kernel refresh what it reports,
    /// such as `update_schemes_tried_regions` to `damon.kdamond.state`. It changes no setting, so
    /// there is nothing to restore.
    ///
    /// # Errors
    /// If the knob has no such word, or the kernel refuses it.
    pub fn trigger(&mut self, loan: LoanId, word: &str) -> Result<(), Error> {
        let open = self.changes.open_changes().iter().find(|open| open.id == loan.0);
        let Some(RecordedChange::Setting(setting)) = open.map(|open| &open.change) else {
            return Err(Error::NotOpen(loan.0));
        };
        let SettingChange { name, path, .. } = setting.clone();
        knob::check_refresh_word(&name, word)?;
        let write = HostChange::Write { path: &path, value: word };
        self.changes.host_mut().make_change(&write).doing(|| format!("{name} = {word}"))
    }

    /// Returns one loan before the session ends, after later loans that depend on it: swap on a
    /// device or file, another value of the same knob.
    ///
    /// # Errors
    /// If it cannot be returned: it stays lent, and is tried again at the end. Also if a zram
    /// device could not write its idle pages; in this case it was returned.
    pub fn give_back(&mut self, loan: LoanId) -> Result<Outcome, Error> {
        self.changes.undo_with_dependents(loan.0)
    }

    /// Returns all loans, last first, and reports the result of each.
    pub fn end(mut self) -> Vec<Return> {
        self.changes.undo_all()
    }

    fn host(&self) -> &dyn HostOps {
        self.changes.host()
    }
}
