// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated machine that behaves like the kernel as far as loans depend on it. It can fail, or
//! kill the process, at any write.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pagewise_model::Bytes;
use pagewise_model::plan::{PlannedMachine, config_mode};

use crate::host_ops::{
    Area, Config, Entry, GroupCharge, HostChange, HostOps, MemoryFacts, Site, Staged, Strain,
    UnreadJournal, folder_of,
};
use crate::journal::{FileText, Identity};

/// A fault of the simulated machine at one of its writes, which are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The write with this number fails; if it is to a journal, half the line is written.
    Fail(usize),
    /// The write with this number and all later ones fail, including those to the journal.
    FailOn(usize),
    /// The write with this number and all later ones fail, except those to the journal.
    Stuck(usize),
    /// The process is killed before the write with this number; if it is to a journal, half the
    /// line is written.
    KillBefore(usize),
    /// The process is killed right after the write with this number.
    KillAfter(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FakeZram {
    pub(crate) diskseq: u64,
    pub(crate) disksize: u64,
    pub(crate) algorithm: &'static str,
    /// The device to which pages are written back, if one is set.
    pub(crate) backing: Option<String>,
}

/// The compression algorithm of a zram device before one is chosen, and after a reset.
const DEFAULT_ALGORITHM: &str = "lzo";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FakeGroup {
    pub(crate) members: BTreeSet<u32>,
    pub(crate) limits: BTreeMap<String, String>,
}

/// The state of everything that can be borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) knobs: BTreeMap<String, String>,
    pub(crate) zrams: BTreeMap<u32, FakeZram>,
    pub(crate) swaps: BTreeSet<String>,
    pub(crate) priorities: BTreeMap<String, i32>,
    /// Configuration files, links and folders, as programs see them.
    pub(crate) config: BTreeMap<String, Config>,
    pub(crate) groups: BTreeMap<String, FakeGroup>,
    pub(crate) files: BTreeMap<String, u64>,
    pub(crate) is_loaded: bool,
    pub(crate) hands_down: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeHost {
    pub(crate) state: State,
    pub(crate) journals: BTreeMap<String, Vec<u8>>,
    /// The configuration files and links that would survive a power loss.
    pub(crate) disk: FakeDisk,
    /// The units that systemd has loaded: the configuration at the time of the last reload.
    pub(crate) units: BTreeMap<String, Config>,
    /// Journals that `undo --forget` has moved out of force.
    pub(crate) set_aside: BTreeMap<String, Vec<u8>>,
    /// Calls of systemd, in order.
    pub(crate) calls_of_systemd: Vec<String>,
    /// When the timer of a trial expires, in seconds.
    pub(crate) timer: Option<u64>,
    /// Whether `vm.overcommit_memory` is 2 and the commit limit is reached.
    pub(crate) is_strict: bool,
    /// Number of processes that the kernel has killed for lack of memory.
    pub(crate) oom_kills: u64,
    /// Names of entries in the folder of journals beside the journals.
    pub(crate) others: BTreeSet<String>,
    pub(crate) unified: bool,
    pub(crate) boot: u32,
    pub(crate) faults: Vec<Fault>,
    pub(crate) deeds: usize,
    pub(crate) is_dead: bool,
    /// Whether the disk of the journals is mounted read-only.
    pub(crate) is_read_only: bool,
    /// Available memory of the simulated machine, in bytes.
    pub(crate) available: u64,
    /// Cgroups that other programs made.
    pub(crate) groups: Vec<GroupCharge>,
    /// Inode number of every folder.
    pub(crate) inode: u64,
    newest_diskseq: u64,
    /// Simulated clock in milliseconds; every write advances it by one.
    pub(crate) clock: u64,
    /// By how much somebody has set the clock of Unix time back, in milliseconds.
    pub(crate) set_back: u64,
    /// For each disk sequence number, when the disk was created, in simulated milliseconds.
    pub(crate) made: BTreeMap<u64, u64>,
    /// Whether the kernel reports the creation times.
    pub(crate) tells_times: bool,
    /// Inode numbers of created files and groups, by path.
    pub(crate) inodes: BTreeMap<String, u64>,
    newest_inode: u64,
    /// Path and value of every write to a setting, in order.
    pub(crate) written: Vec<(String, String)>,
    /// Written words that only make the kernel refresh what it reports.
    pub(crate) lines: Vec<String>,
    /// Whether zswap was enabled since boot.
    knows_zswap: bool,
}

/// A file with the owner and mode that a plan gives it.
pub(crate) fn new_file(text: &str) -> FileText {
    FileText { text: text.to_owned(), mode: 0o644, user: 0, group: 0, label: None }
}

/// The machine for which all test plans are made.
pub(crate) fn fake_machine() -> PlannedMachine {
    PlannedMachine {
        machine_id_hash: Some("0123456789abcdef".to_owned()),
        memory_total_bytes: Some(Bytes::new(1 << 30)),
        kernel: None,
    }
}

/// An entry of a folder on the simulated disk, and whether its contents survive a power loss for
/// certain.
type OnDisk = (Config, bool);
/// Names that change in one operation.
type NameChange = Vec<(String, Option<OnDisk>)>;

/// The disk that holds the configuration: what was synced, and the name changes that were not
/// synced, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeDisk {
    synced: BTreeMap<String, OnDisk>,
    pending: Vec<NameChange>,
}

impl FakeDisk {
    fn holding(config: &BTreeMap<String, Config>) -> Self {
        let certain = |(path, entry): (&String, &Config)| (path.clone(), (entry.clone(), true));
        Self { synced: config.iter().map(certain).collect(), pending: Vec::new() }
    }

    fn change(&mut self, change: NameChange) {
        self.pending.push(change);
    }

    fn entries(&mut self) -> impl Iterator<Item = (&String, &mut OnDisk)> {
        let pending = self.pending.iter_mut().flatten();
        let pending = pending.filter_map(|(path, entry)| Some((&*path, entry.as_mut()?)));
        self.synced.iter_mut().chain(pending)
    }

    fn sync_contents(&mut self, path: &str) {
        self.entries().filter(|(of, _)| *of == path).for_each(|(_, entry)| entry.1 = true);
    }

    fn is_certain(&mut self, path: &str) -> bool {
        self.entries().filter(|(of, _)| *of == path).last().is_some_and(|(_, entry)| entry.1)
    }

    fn sync_folder(&mut self, folder: &str) {
        let pending = std::mem::take(&mut self.pending);
        let (now, later): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|change| folder_of(&change[0].0) == folder);
        now.into_iter().for_each(|change| apply(&mut self.synced, change));
        self.pending = later;
    }

    /// For each folder, some of its name changes are on disk, earlier ones first; contents that
    /// were not synced are empty.
    fn after_power_loss(&self, luck: usize) -> BTreeMap<String, Config> {
        let mut found = self.synced.clone();
        let folders: BTreeSet<&str> = self.pending.iter().map(|it| folder_of(&it[0].0)).collect();
        for (at, folder) in folders.into_iter().enumerate() {
            let own = self.pending.iter().filter(|change| folder_of(&change[0].0) == folder);
            let own: Vec<&NameChange> = own.collect();
            let kept = (luck >> (at * 3)) % (own.len() + 1);
            own[..kept].iter().for_each(|change| apply(&mut found, (*change).clone()));
        }
        let contents = |(path, (entry, is_certain)): (String, OnDisk)| match entry {
            Config::File(file) if !is_certain => {
                (path, Config::File(FileText { text: String::new(), ..file }))
            }
            entry => (path, entry),
        };
        found.into_iter().map(contents).collect()
    }
}

fn apply(names: &mut BTreeMap<String, OnDisk>, change: NameChange) {
    for (path, entry) in change {
        match entry {
            Some(entry) => drop(names.insert(path, entry)),
            None => drop(names.remove(&path)),
        }
    }
}

/// A handle to a simulated machine that several owners share.
#[derive(Debug, Clone)]
pub(crate) struct Fake(Arc<Mutex<FakeHost>>);

pub(crate) const STATE: &str = "/state";
pub(crate) const MOUNT: &str = "/cg";
pub(crate) const DISK: &str = "/disk";
/// The process id of the simulated run.
pub(crate) const PID: u32 = 4711;

const VM: &str = "/proc/sys/vm";
pub(crate) const KNOBS: [(&str, &str); 5] = [
    ("swappiness", "60"),
    ("page-cluster", "3"),
    ("dirty_ratio", "20"),
    ("dirty_bytes", "0"),
    ("min_free_kbytes", "8192"),
];

pub(crate) const ZSWAP: &str = "/sys/module/zswap/parameters";
const ZSWAP_KNOBS: [(&str, &str); 5] = [
    ("enabled", "N"),
    ("compressor", "lzo"),
    ("max_pool_percent", "20"),
    ("accept_threshold_percent", "90"),
    ("shrinker_enabled", "N"),
];

impl Fake {
    /// A machine with a zram device that belongs to somebody else.
    pub(crate) fn new(unified: bool, is_loaded: bool) -> Self {
        let of_vm = KNOBS.map(|(name, value)| (format!("{VM}/{name}"), value.to_owned()));
        let of_zswap =
            ZSWAP_KNOBS.map(|(name, value)| (format!("{ZSWAP}/{name}"), value.to_owned()));
        let knobs: BTreeMap<String, String> = of_vm.into_iter().chain(of_zswap).collect();
        let theirs = FakeZram { diskseq: 5, disksize: 1 << 20, algorithm: "lz4", backing: None };
        let state = State {
            knobs,
            zrams: is_loaded.then_some((0, theirs)).into_iter().collect(),
            swaps: BTreeSet::new(),
            priorities: BTreeMap::new(),
            config: BTreeMap::new(),
            groups: [(format!("{MOUNT}/system"), FakeGroup::default())].into(),
            files: BTreeMap::new(),
            is_loaded,
            hands_down: false,
        };
        Self(Arc::new(Mutex::new(FakeHost {
            state,
            journals: BTreeMap::new(),
            disk: FakeDisk::default(),
            units: BTreeMap::new(),
            set_aside: BTreeMap::new(),
            calls_of_systemd: Vec::new(),
            timer: None,
            is_strict: false,
            oom_kills: 0,
            others: BTreeSet::new(),
            unified,
            boot: 1,
            faults: Vec::new(),
            deeds: 0,
            is_dead: false,
            is_read_only: false,
            available: 1 << 30,
            groups: Vec::new(),
            inode: 2,
            newest_diskseq: 5,
            clock: 1_000_000,
            set_back: 0,
            made: BTreeMap::new(),
            tells_times: true,
            inodes: BTreeMap::new(),
            newest_inode: 100,
            written: Vec::new(),
            lines: Vec::new(),
            knows_zswap: false,
        })))
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, FakeHost> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A second machine in the same state.
    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.world().clone())))
    }

    /// Starts a new process, for which no faults are planned.
    pub(crate) fn revive(&self) {
        let mut world = self.world();
        world.faults.clear();
        world.is_dead = false;
        world.deeds = 0;
    }
}

impl FakeHost {
    /// Reboots the simulated machine: its kernel state is reset.
    pub(crate) fn boot(&mut self, at_boot: &State) {
        self.boot += 1;
        self.timer = None;
        self.knows_zswap = false;
        let (files, config) = (self.state.files.clone(), self.state.config.clone());
        self.state = State { files, config, ..at_boot.clone() };
        self.units = self.state.config.clone();
        // sets the values as systemd-sysctl does
        let texts = self.state.config.clone().into_iter().filter_map(|(path, entry)| match entry {
            Config::File(file) if path.starts_with("/etc/sysctl.d/") => Some(file.text),
            _ => None,
        });
        for text in texts {
            for (name, value) in text.lines().filter_map(|line| line.split_once(" = ")) {
                let name = name.strip_prefix("vm.").expect("a setting of vm");
                self.set_knob(name, value).expect("a value that the kernel takes");
            }
        }
    }

    /// Cuts the power of the simulated machine: of the latest name changes and contents, only
    /// those that were synced are certain to remain.
    pub(crate) fn lose_power(&mut self, luck: usize, at_boot: &State) {
        self.state.config = self.disk.after_power_loss(luck);
        self.disk = FakeDisk::holding(&self.state.config);
        self.boot(at_boot);
    }

    /// Adds configuration that exists from the start.
    pub(crate) fn put_config(&mut self, path: &str, entry: Config) {
        self.state.config.insert(path.to_owned(), entry);
        self.disk = FakeDisk::holding(&self.state.config);
        self.units = self.state.config.clone();
    }

    fn configure(&mut self, change: &HostChange<'_>) -> io::Result<()> {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let config = &mut self.state.config;
        match *change {
            HostChange::Stage { path, staged } => {
                if config.contains_key(path) {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                let folder = folder_of(path);
                if folder != "/etc" && !config.contains_key(folder) {
                    return Err(missing());
                }
                let entry = match staged {
                    Staged::Link { to } => Config::Link(to.to_owned()),
                    Staged::File { text, like } => Config::File(FileText {
                        text: text.to_owned(),
                        ..like
                            .cloned()
                            .unwrap_or(FileText { mode: config_mode(path), ..new_file("") })
                    }),
                };
                config.insert(path.to_owned(), entry.clone());
                let is_certain = matches!(entry, Config::Link(_));
                self.disk.change(vec![(path.to_owned(), Some((entry, is_certain)))]);
            }
            HostChange::SyncFile(path) => {
                config.get(path).ok_or_else(missing)?;
                self.disk.sync_contents(path);
            }
            HostChange::Rename { from, to } => {
                let entry = config.remove(from).ok_or_else(missing)?;
                config.insert(to.to_owned(), entry.clone());
                let is_certain = self.disk.is_certain(from);
                let named = (to.to_owned(), Some((entry, is_certain)));
                self.disk.change(vec![(from.to_owned(), None), named]);
            }
            HostChange::SyncFolder(folder) => self.disk.sync_folder(folder),
            HostChange::RemoveConfig(path) => {
                config.remove(path).ok_or_else(missing)?;
                self.disk.change(vec![(path.to_owned(), None)]);
            }
            HostChange::MakeFolder(path) => {
                if config.insert(path.to_owned(), Config::Folder).is_some() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                self.disk.change(vec![(path.to_owned(), Some((Config::Folder, true)))]);
            }
            HostChange::RemoveFolder(path) => {
                let below = format!("{path}/");
                if config.keys().any(|other| other.starts_with(&below)) {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
                config.remove(path).ok_or_else(missing)?;
                self.disk.change(vec![(path.to_owned(), None)]);
            }
            _ => self.units = config.clone(),
        }
        Ok(())
    }

    pub(crate) fn add_zram(&mut self) -> io::Result<u32> {
        if !self.state.is_loaded {
            return Err(ErrorKind::NotFound.into());
        }
        self.newest_diskseq += 1;
        let diskseq = self.newest_diskseq;
        let algorithm = DEFAULT_ALGORITHM;
        let device = FakeZram { diskseq, disksize: 0, algorithm, backing: None };
        let free = (0..).find(|number| !self.state.zrams.contains_key(number));
        let number = free.expect("numbers do not end");
        self.made.insert(device.diskseq, self.clock);
        self.state.zrams.insert(number, device);
        Ok(number)
    }

    /// Gives a newly created file or group a new inode number, even under a name that existed
    /// before.
    pub(crate) fn new_inode(&mut self, path: &str) {
        self.newest_inode += 1;
        self.inodes.insert(path.to_owned(), self.newest_inode);
    }

    fn perform(&mut self, deed: &HostChange<'_>) -> io::Result<()> {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let busy = || io::Error::from(ErrorKind::ResourceBusy);
        let there = || io::Error::from(ErrorKind::AlreadyExists);
        let state = &mut self.state;
        match *deed {
            HostChange::Write { path, value } => return self.write(path, value),
            HostChange::MakeGroup(folder) => {
                if state.groups.contains_key(folder) {
                    return Err(there());
                }
                state.groups.insert(folder.to_owned(), FakeGroup::default());
                self.new_inode(folder);
            }
            HostChange::RemoveGroup(folder) => {
                let group = state.groups.get(folder).ok_or_else(missing)?;
                let below = format!("{folder}/");
                let has_groups = state.groups.keys().any(|other| other.starts_with(&below));
                if has_groups || !group.members.is_empty() {
                    return Err(busy());
                }
                state.groups.remove(folder);
            }
            HostChange::Kill { pid, group } => {
                state.groups.get_mut(group).ok_or_else(missing)?.members.remove(&pid);
            }
            HostChange::MakeFile(path) => {
                if state.files.insert(path.to_owned(), 0).is_some() {
                    return Err(there());
                }
                self.new_inode(path);
            }
            HostChange::FillFile { path, identity, size } => {
                assert_eq!(self.inodes.get(path), Some(&identity.inode), "another file");
                *state.files.get_mut(path).ok_or_else(missing)? = size.get();
            }
            HostChange::RemoveFile { path, identity } => {
                if state.swaps.contains(path) {
                    return Err(io::Error::other("text file busy"));
                }
                assert_eq!(self.inodes.get(path), Some(&identity.inode), "another file");
                state.files.remove(path).ok_or_else(missing)?;
            }
            HostChange::FormatSwap(area) => {
                if !self.is_area(area) {
                    return Err(missing());
                }
            }
            HostChange::SwapOn { area, .. } => {
                if !self.is_area(area) || !self.state.swaps.insert(area.to_owned()) {
                    return Err(busy());
                }
                let HostChange::SwapOn { priority, .. } = deed else { return Err(busy()) };
                let priority = priority.map_or(-2, i32::from);
                self.state.priorities.insert(area.to_owned(), priority);
            }
            HostChange::SwapOff(area) | HostChange::Drain { area, .. } => {
                if !state.swaps.remove(area) {
                    return Err(ErrorKind::InvalidInput.into());
                }
                state.priorities.remove(area);
            }
            HostChange::Stage { .. }
            | HostChange::SyncFile(_)
            | HostChange::Rename { .. }
            | HostChange::SyncFolder(_)
            | HostChange::RemoveConfig(_)
            | HostChange::MakeFolder(_)
            | HostChange::RemoveFolder(_)
            | HostChange::ReloadUnits => {
                if let HostChange::ReloadUnits = deed {
                    self.calls_of_systemd.push("daemon-reload".to_owned());
                }
                return self.configure(deed);
            }
            HostChange::Arm { seconds, .. } => self.timer = Some(self.clock / 1000 + seconds),
            HostChange::Disarm => self.timer = None,
            HostChange::StopUnit(unit) => self.calls_of_systemd.push(format!("stop {unit}")),
            HostChange::StartUnit(unit) => self.calls_of_systemd.push(format!("start {unit}")),
            HostChange::Load { .. } => state.is_loaded = true,
            HostChange::Unload(_) => {
                if !state.zrams.is_empty() {
                    return Err(busy());
                }
                state.is_loaded = false;
            }
            HostChange::Begin(journal) => {
                if self.journals.insert(journal.to_owned(), Vec::new()).is_some() {
                    return Err(there());
                }
            }
            HostChange::Append { journal, line } => {
                self.journals.get_mut(journal).ok_or_else(missing)?.extend_from_slice(line);
            }
            HostChange::Cut { journal, length } => {
                let length = usize::try_from(length).expect("short");
                self.journals.get_mut(journal).ok_or_else(missing)?.truncate(length);
            }
            HostChange::Forget(journal) => drop(self.journals.remove(journal).ok_or_else(missing)?),
            HostChange::SetAside { journal, to } => {
                let bytes = self.journals.remove(journal).ok_or_else(missing)?;
                self.set_aside.insert(to.to_owned(), bytes);
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &str, value: &str) -> io::Result<()> {
        self.written.push((path.to_owned(), value.to_owned()));
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["", "proc", "sys", "vm", name] => self.set_knob(name, value),
            ["", "sys", "module", "zswap", "parameters", name] => self.set_zswap(name, value),
            // a kdamond, whose state does not change when it is told to update what it reports
            [.., "kdamonds", _, "state"] if value.starts_with("update_") => {
                self.lines.push(value.to_owned());
                Ok(())
            }
            [.., "kdamonds", _, "state"] => {
                self.state.knobs.insert(path.to_owned(), value.to_owned());
                Ok(())
            }
            ["", "sys", "block", disk, file] => {
                let number: u32 = disk.strip_prefix("zram").unwrap_or_default().parse().unwrap();
                let is_on = self.state.swaps.contains(&format!("/dev/zram{number}"));
                let device = self.state.zrams.get_mut(&number).ok_or(ErrorKind::NotFound)?;
                match *file {
                    "disksize" => device.disksize = value.parse().expect("bytes"),
                    "reset" if is_on => return Err(ErrorKind::ResourceBusy.into()),
                    "reset" => {
                        device.backing = None;
                        (device.disksize, device.algorithm) = (0, DEFAULT_ALGORITHM);
                    }
                    "backing_dev" if device.disksize == 0 => {
                        device.backing = Some(value.to_owned());
                    }
                    "comp_algorithm" if value == "lz4" => device.algorithm = "lz4",
                    _ => {}
                }
                Ok(())
            }
            ["", "sys", "class", "zram-control", "hot_remove"] => {
                let number = value.parse().expect("a number");
                let device = self.state.zrams.get(&number);
                let is_empty = device.is_some_and(|it| it.disksize == 0 && it.backing.is_none());
                assert!(is_empty, "only a device that was reset is removed");
                self.state.zrams.remove(&number);
                Ok(())
            }
            ["", "cg", "cgroup.subtree_control"] => {
                self.state.hands_down = value == "+memory";
                Ok(())
            }
            ["", "cg", group, "cgroup.procs"] => {
                let pid = value.parse().expect("a process");
                for other in self.state.groups.values_mut() {
                    other.members.remove(&pid);
                }
                let folder = format!("{MOUNT}/{group}");
                let group = self.state.groups.get_mut(&folder).ok_or(ErrorKind::NotFound)?;
                group.members.insert(pid);
                Ok(())
            }
            ["", "cg", group, file] => {
                let folder = format!("{MOUNT}/{group}");
                let group = self.state.groups.get_mut(&folder).ok_or(ErrorKind::NotFound)?;
                group.limits.insert((*file).to_owned(), value.to_owned());
                Ok(())
            }
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Until zswap is first enabled, any compressor name is accepted; when it is enabled, lzo
    /// replaces an unknown one. After that, unknown names are refused.
    fn set_zswap(&mut self, name: &str, value: &str) -> io::Result<()> {
        let is_there = |compressor: &str| ["lzo", "lz4"].contains(&compressor);
        let compressor = format!("{ZSWAP}/compressor");
        match name {
            "compressor" if self.knows_zswap && !is_there(value) => {
                return Err(ErrorKind::NotFound.into());
            }
            "enabled" if value == "Y" && !self.knows_zswap => {
                self.knows_zswap = true;
                if !is_there(&self.state.knobs[&compressor]) {
                    self.state.knobs.insert(compressor, "lzo".to_owned());
                }
            }
            _ => {}
        }
        self.state.knobs.insert(format!("{ZSWAP}/{name}"), value.to_owned());
        Ok(())
    }

    /// Of dirty_ratio and dirty_bytes, one is active and the other reads 0; min_free_kbytes is
    /// rounded to whole pages.
    fn set_knob(&mut self, name: &str, value: &str) -> io::Result<()> {
        let path = |name: &str| format!("{VM}/{name}");
        let other = match name {
            "dirty_ratio" => Some("dirty_bytes"),
            "dirty_bytes" if value == "0" => return Err(ErrorKind::InvalidInput.into()),
            "dirty_bytes" => Some("dirty_ratio"),
            _ => None,
        };
        let rounded = |value: u64| (value / 4 * 4).to_string();
        let value = match name {
            "min_free_kbytes" => value.parse().map(rounded).expect("a number"),
            _ => value.to_owned(),
        };
        if let Some(other) = other {
            self.state.knobs.insert(path(other), "0".to_owned());
        }
        self.state.knobs.insert(path(name), value);
        Ok(())
    }

    fn is_area(&self, area: &str) -> bool {
        let number = area.strip_prefix("/dev/zram").and_then(|number| number.parse().ok());
        let device = number.and_then(|number: u32| self.state.zrams.get(&number));
        device.is_some_and(|device| device.disksize > 0) || self.state.files.contains_key(area)
    }

    fn read_text(&self, path: &str) -> Option<String> {
        let state = &self.state;
        if let Some(value) = state.knobs.get(path) {
            return Some(value.clone());
        }
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["", "proc", "sys", "kernel", "random", "boot_id"] => Some(self.boot.to_string()),
            ["", "proc", "self", "cgroup"] => Some("4:memory:/system\n0::/system".to_owned()),
            ["", "sys", "block", "vda", "diskseq"] => Some("1".to_owned()),
            ["", "sys", "class", "block", "vda"] => Some(String::new()),
            ["", "sys", "block", disk] => {
                let number = disk.strip_prefix("zram")?.parse().ok()?;
                state.zrams.get(&number).map(|_| String::new())
            }
            ["", "sys", "block", disk, file] => {
                let number = disk.strip_prefix("zram")?.parse().ok()?;
                let device = state.zrams.get(&number)?;
                match *file {
                    "diskseq" => Some(device.diskseq.to_string()),
                    "disksize" => Some(device.disksize.to_string()),
                    "comp_algorithm" => Some(match device.algorithm {
                        "lz4" => "lzo [lz4]".to_owned(),
                        _ => "[lzo] lz4".to_owned(),
                    }),
                    "algorithm_params" => Some(String::new()),
                    "backing_dev" => Some(device.backing.clone().unwrap_or("none".to_owned())),
                    _ => None,
                }
            }
            ["", "sys", "class", "zram-control", "hot_add"] => state.is_loaded.then(String::new),
            ["", "sys", "module", "zram"] => state.is_loaded.then(String::new),
            ["", "cg", "cgroup.subtree_control"] => {
                Some(if state.hands_down { "cpu memory" } else { "cpu" }.to_owned())
            }
            ["", "cg", group] => {
                state.groups.get(&format!("{MOUNT}/{group}")).map(|_| String::new())
            }
            ["", "cg", group, "cgroup.procs"] => {
                let group = state.groups.get(&format!("{MOUNT}/{group}"))?;
                let lines: Vec<String> = group.members.iter().map(u32::to_string).collect();
                Some(lines.join("\n"))
            }
            ["", "cg", group, file] => {
                let group = state.groups.get(&format!("{MOUNT}/{group}"))?;
                let has_memory = !self.unified || state.hands_down;
                let usual = || (has_memory && *file == "memory.max").then(|| "max".to_owned());
                let v1 = || (*file == "memory.limit_in_bytes").then(|| "0".to_owned());
                group.limits.get(*file).cloned().or_else(usual).or_else(v1)
            }
            _ => state.files.get(path).map(u64::to_string),
        }
    }
}

impl HostOps for Fake {
    fn make_change(&mut self, deed: &HostChange<'_>) -> io::Result<()> {
        self.fallible(deed, |world| world.perform(deed))
    }

    fn add_zram_device(&mut self) -> io::Result<u32> {
        self.fallible(&HostChange::Load { module: "", parameter: "" }, FakeHost::add_zram)
    }

    fn read(&self, path: &str) -> io::Result<String> {
        self.world().read_text(path).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn journal(&self, path: &str) -> Result<Vec<u8>, UnreadJournal> {
        let journal = self.world().journals.get(path).cloned();
        journal.ok_or_else(|| UnreadJournal::NoFile("it is a folder, not a plain file".to_owned()))
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let world = self.world();
        let below = format!("{folder}/");
        let paths: Vec<String> = match folder {
            STATE => world.journals.keys().chain(&world.others).cloned().collect(),
            "/sys/block" => {
                let devices = world.state.zrams.keys().map(|n| format!("{below}zram{n}"));
                devices.chain([format!("{below}vda")]).collect()
            }
            _ => world.state.groups.keys().cloned().collect(),
        };
        let names = paths.iter().filter_map(|path| path.strip_prefix(&below));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn exists(&self, path: &str) -> bool {
        self.world().read_text(path).is_some()
    }

    fn resolve(&self, folder: &Path) -> io::Result<String> {
        Ok(folder.display().to_string())
    }

    fn inode(&self, _folder: &str) -> io::Result<u64> {
        Ok(self.world().inode)
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        let world = self.world();
        world.read_text(path).ok_or(ErrorKind::NotFound)?;
        let inode = world.inodes.get(path).copied().unwrap_or(1);
        let size = world.state.files.get(path).copied();
        let identity = Identity { device: 1, inode };
        Ok(Entry { identity, is_own_file: size.is_some(), size: size.unwrap_or(0) })
    }

    fn is_cgroup(&self, folder: &str) -> bool {
        folder == MOUNT || self.world().state.groups.contains_key(folder)
    }

    fn created_at(&self, number: u32) -> Option<u64> {
        let world = self.world();
        let diskseq = world.state.zrams.get(&number)?.diskseq;
        world.made.get(&diskseq).copied().filter(|_| world.tells_times)
    }

    fn now(&self) -> u64 {
        let world = self.world();
        world.clock.saturating_sub(world.set_back)
    }

    fn since_boot(&self) -> u64 {
        self.world().clock
    }

    fn free_space(&self, _folder: &str) -> io::Result<Bytes> {
        Ok(Bytes::new(1 << 30))
    }

    fn swaps(&self) -> Vec<Area> {
        let world = self.world();
        let area = |path: &String| {
            let number = path.strip_prefix("/dev/zram").and_then(|number| number.parse().ok());
            let device = number.and_then(|number: u32| world.state.zrams.get(&number));
            let size = Bytes::new(device.map_or(4096, |device| device.disksize));
            Area {
                path: path.clone(),
                used: Bytes::new(4096),
                size,
                room: size.saturating_sub(Bytes::new(4096)),
                priority: world.state.priorities.get(path).copied().unwrap_or_default(),
            }
        };
        world.state.swaps.iter().map(area).collect()
    }

    fn config(&self, path: &str) -> io::Result<Config> {
        Ok(self.world().state.config.get(path).cloned().unwrap_or(Config::Missing))
    }

    fn check_config_writable(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn site(&self) -> Site {
        Site { machine: fake_machine(), container: None, has_systemd: true }
    }

    fn memory_facts(&self) -> MemoryFacts {
        let world = self.world();
        let limit = Bytes::new(1 << 30);
        MemoryFacts {
            total: limit,
            available: Bytes::new(world.available),
            is_strict: world.is_strict,
            committed: limit,
            commit_limit: limit,
            groups: world.groups.clone(),
            groups_left_out: 0,
        }
    }

    fn memory_pressure(&self) -> Strain {
        Strain { oom_kills: self.world().oom_kills, ..Strain::default() }
    }

    fn available(&self) -> Option<Bytes> {
        Some(Bytes::new(self.world().available))
    }

    fn groups(&self) -> Option<(String, bool)> {
        Some((MOUNT.to_owned(), self.world().unified))
    }

    fn program(&self) -> io::Result<String> {
        Ok("/usr/bin/pagewise".to_owned())
    }

    fn pid(&self) -> u32 {
        PID
    }

    fn pause(&self, _time: Duration) {}

    fn for_thread(&self) -> io::Result<Box<dyn HostOps + Send>> {
        Ok(Box::new(self.clone()))
    }
}

impl Fake {
    fn fallible<T>(
        &self,
        deed: &HostChange<'_>,
        perform: impl FnOnce(&mut FakeHost) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut world = self.world();
        let at = world.deeds;
        world.deeds += 1;
        world.clock += 1;
        if world.is_dead {
            return Err(io::Error::other("killed"));
        }
        let is_journal = matches!(
            deed,
            HostChange::Begin(_)
                | HostChange::Append { .. }
                | HostChange::Cut { .. }
                | HostChange::Forget(_)
                | HostChange::SetAside { .. }
        );
        if world.is_read_only && is_journal {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        let half = |world: &mut FakeHost| {
            if let HostChange::Append { journal, line } = deed {
                let half = &line[..line.len() / 2];
                world.journals.entry((*journal).to_owned()).or_default().extend_from_slice(half);
            }
        };
        for fault in world.faults.clone() {
            let why = match fault {
                Fault::Fail(when) if at == when => "failed",
                Fault::FailOn(when) if at >= when => "fails",
                Fault::Stuck(when) if at >= when && !is_journal => "stuck",
                Fault::KillBefore(when) if at == when => "killed",
                _ => continue,
            };
            half(&mut world);
            world.is_dead = why == "killed";
            return Err(io::Error::other(why));
        }
        let done = perform(&mut world);
        if world.faults.contains(&Fault::KillAfter(at)) {
            world.is_dead = true;
            return Err(io::Error::other("killed"));
        }
        done
    }
}
