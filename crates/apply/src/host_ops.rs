// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only interface between a change and the machine: every write is a [`HostChange`].
//!
//! An implementation of [`HostOps`] sees each write, including those to the journal, as one call
//! that happens, fails, or is the last thing that a killed process does. The property test can
//! therefore fail or stop at any write.

use std::io;
use std::path::Path;
use std::time::Duration;

use pagewise_model::Bytes;
use pagewise_model::plan::PlannedMachine;

use crate::journal::{FileText, Identity};

/// One write to the machine: the smallest part of a change that happens or fails as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostChange<'a> {
    /// Writes a value into a file of the kernel.
    Write {
        /// The file.
        path: &'a str,
        /// The text, without an end of line.
        value: &'a str,
    },
    /// Creates a cgroup.
    MakeGroup(&'a str),
    /// Removes a cgroup without processes or groups below it.
    RemoveGroup(&'a str),
    /// Kills a process, if it is in this cgroup.
    Kill {
        /// The process.
        pid: u32,
        /// The cgroup's folder.
        group: &'a str,
    },
    /// Creates an empty file that only root may read; it must not exist.
    MakeFile(&'a str),
    /// Fills a newly created file with zeros, without holes.
    FillFile {
        /// The file.
        path: &'a str,
        /// Its identity, to recognise it.
        identity: Identity,
        /// Its size.
        size: Bytes,
    },
    /// Deletes a file.
    RemoveFile {
        /// The file.
        path: &'a str,
        /// Its identity: another file of that name is kept.
        identity: Identity,
    },
    /// Writes the header of a swap area.
    FormatSwap(&'a str),
    /// Enables a swap area.
    SwapOn {
        /// The device or file.
        area: &'a str,
        /// Its priority; with `None` the kernel chooses one.
        priority: Option<i16>,
    },
    /// Disables a swap area.
    SwapOff(&'a str),
    /// Loads a kernel module.
    Load {
        /// Its name.
        module: &'a str,
        /// One module parameter.
        parameter: &'a str,
    },
    /// Unloads a module, and modules that only it used.
    Unload(&'a str),
    /// Disables a swap area, and gives up if this leaves less memory than the reserve, or if the
    /// user stops the run.
    Drain {
        /// The area.
        area: &'a str,
        /// Memory that must stay available.
        reserve: Bytes,
    },
    /// Creates a new file or link beside the one that it will replace. It is not synced yet.
    Stage {
        /// Its temporary name.
        path: &'a str,
        /// What to create.
        staged: Staged<'a>,
    },
    /// Syncs the contents of a staged file to disk.
    SyncFile(&'a str),
    /// Gives a staged file or link its final name, replacing what had that name.
    Rename {
        /// The temporary name.
        from: &'a str,
        /// The final name.
        to: &'a str,
    },
    /// Syncs the names in a folder to disk.
    SyncFolder(&'a str),
    /// Removes a configuration file or link.
    RemoveConfig(&'a str),
    /// Creates a folder for configuration files.
    MakeFolder(&'a str),
    /// Removes such a folder if it is empty.
    RemoveFolder(&'a str),
    /// Makes systemd reload its unit files.
    ReloadUnits,
    /// Stops a systemd unit, or cancels its start.
    StopUnit(&'a str),
    /// Asks systemd to start a unit, without waiting for it.
    StartUnit(&'a str),
    /// Starts a systemd timer that runs `undo --unconfirmed`.
    Arm {
        /// Seconds until it runs.
        seconds: u64,
        /// The path of this program.
        program: &'a str,
        /// The folder of the journals.
        state: &'a str,
    },
    /// Stops that timer.
    Disarm,
    /// Creates an empty journal.
    Begin(&'a str),
    /// Appends to a journal, and waits until it is on disk.
    Append {
        /// The journal.
        journal: &'a str,
        /// One line.
        line: &'a [u8],
    },
    /// Truncates a journal.
    Cut {
        /// The journal.
        journal: &'a str,
        /// The length to keep.
        length: u64,
    },
    /// Deletes a journal.
    Forget(&'a str),
}

/// A file or link that is created under a temporary name first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged<'a> {
    /// A file of root that all users may read, or with the mode and owner of the file that it
    /// replaces.
    File {
        /// Its contents.
        text: &'a str,
        /// The existing file whose mode, owner and SELinux context it gets.
        like: Option<&'a FileText>,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        to: &'a str,
    },
}

/// What exists under the name of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Config {
    Missing,
    File(FileText),
    Link(String),
    Folder,
    /// Neither a file nor a link, or a file that is not text; with a description.
    Other(String),
}

/// A directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    /// Whether it is a regular file with one link that we own and that nobody else may write to.
    pub(crate) is_own_file: bool,
    pub(crate) size: u64,
}

/// Why a journal was not read.
#[derive(Debug)]
pub(crate) enum UnreadJournal {
    /// It is not a file but a folder, link, pipe or device: no run wrote it.
    NoFile(String),
    /// It is a file that another user could have written, or that cannot be read.
    Untrusted(String),
}

/// An enabled swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    /// The device or file, in the kernel's spelling.
    pub(crate) path: String,
    /// How much of it is in use.
    pub(crate) used: Bytes,
    pub(crate) size: Bytes,
    /// How much more it can certainly take: a zram device with a `mem_limit` can take less than its
    /// size.
    pub(crate) room: Bytes,
    /// Its priority: higher is filled first.
    pub(crate) priority: i32,
}

/// A memory cgroup, with the values that matter when swap is disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupCharge {
    /// Path below the root of the hierarchy.
    pub(crate) path: String,
    pub(crate) current: Bytes,
    pub(crate) swap: Bytes,
    /// Its memory limit; `None` if there is none.
    pub(crate) max: Option<Bytes>,
    /// Its swap limit; `None` if there is none.
    pub(crate) swap_max: Option<Bytes>,
    /// `memory.swappiness` of the group (version 1), or `vm.swappiness` (version 2). With 0, the
    /// kernel swaps nothing out when the group reaches its limit.
    pub(crate) swappiness: Option<u64>,
}

/// The values that decide whether the contents of a swap area fit elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryFacts {
    pub(crate) total: Bytes,
    pub(crate) available: Bytes,
    /// Whether `vm.overcommit_memory` is 2: then the whole size of the area must fit below the
    /// commit limit.
    pub(crate) is_strict: bool,
    pub(crate) committed: Bytes,
    pub(crate) commit_limit: Bytes,
    /// Every memory cgroup.
    pub(crate) groups: Vec<GroupCharge>,
    /// Number of cgroups that were not read because there are too many.
    pub(crate) groups_left_out: u64,
}

/// Counters of memory pressure, read before and after a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Strain {
    /// Time in which at least one task waited for memory, in microseconds; `None` without PSI.
    pub(crate) some_us: Option<u64>,
    /// Time in which all tasks waited.
    pub(crate) full_us: Option<u64>,
    /// The share of the last 10 s in which all tasks waited, in percent.
    pub(crate) full_percent: u64,
    pub(crate) oom_kills: u64,
    /// Pages that were refaulted soon after they were reclaimed.
    pub(crate) refaults: u64,
}

/// The facts about the machine that a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) machine: PlannedMachine,
    /// The container runtime; `None` outside of a container.
    pub(crate) container: Option<String>,
    /// Whether systemd is PID 1.
    pub(crate) has_systemd: bool,
}

/// The file with the boot id, which changes with each boot.
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The operations on a machine that changes need.
pub(crate) trait HostOps {
    /// Makes a change. When this returns, the change was made or has failed: it is never deferred.
    fn act(&mut self, deed: &HostChange<'_>) -> io::Result<()>;

    /// Creates a zram device by reading `hot_add`; returns its number.
    fn hot_add(&mut self) -> io::Result<u32>;

    /// Reads a small file of the kernel, without surrounding white space.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Reads a journal, with any contents, if no other user can have written it.
    fn journal(&self, path: &str) -> Result<Vec<u8>, UnreadJournal>;

    /// The names in a folder, sorted.
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Whether a file or folder exists.
    fn exists(&self, path: &str) -> bool;

    /// The path of a folder with links resolved, as the kernel spells it.
    fn resolve(&self, folder: &Path) -> io::Result<String>;

    /// The inode number of a folder: it stays the same after a reboot.
    fn inode(&self, folder: &str) -> io::Result<u64>;

    /// The entry of that name; links are not followed.
    fn entry(&self, path: &str) -> io::Result<Entry>;

    /// Whether this folder is a cgroup, that is, in a cgroup file system.
    fn is_cgroup(&self, folder: &str) -> bool;

    /// When the kernel created the device node of a zram device, in milliseconds of Unix time;
    /// `None` if the file system of `/dev` does not record it.
    fn created_at(&self, number: u32) -> Option<u64>;

    /// The current time in milliseconds of Unix time.
    fn now(&self) -> u64;

    /// Free space in the file system of a folder.
    fn free_space(&self, folder: &str) -> io::Result<Bytes>;

    /// The enabled swap areas.
    fn swaps(&self) -> Vec<Area>;

    /// Available memory; `None` if the kernel does not report it.
    fn available(&self) -> Option<Bytes>;

    /// Reads a configuration file; no link in its path is followed.
    fn config(&self, path: &str) -> io::Result<Config>;

    /// The error if that folder, or the one in which it would be created, is not writable.
    fn may_write_config(&self, folder: &str) -> io::Result<()>;

    /// The facts about the machine that a plan depends on.
    fn site(&self) -> Site;

    /// The values that decide whether the contents of a swap area fit elsewhere.
    fn memory_facts(&self) -> MemoryFacts;

    /// Counters of memory pressure since boot.
    fn strain(&self) -> Strain;

    /// Where memory cgroups are mounted, and whether they are of version 2.
    fn groups(&self) -> Option<(String, bool)>;

    /// The path of this program.
    fn program(&self) -> io::Result<String>;

    /// The id of our own process.
    fn pid(&self) -> u32;

    /// Sleeps.
    fn pause(&self, time: Duration);

    /// A second handle to the same machine, for another thread.
    fn for_thread(&self) -> io::Result<Box<dyn HostOps + Send>>;
}

/// How often an operation on something that is briefly in use is retried: for two seconds.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(20);

/// The folder that contains this path.
pub(crate) fn folder_of(path: &str) -> &str {
    let folder = path.rsplit_once('/').map(|(folder, _)| folder);
    folder.filter(|folder| !folder.is_empty()).unwrap_or("/")
}

/// Makes the change, and retries if the device is briefly in use: udev opens each new device to
/// read it.
pub(crate) fn act_patiently(host: &mut dyn HostOps, deed: &HostChange<'_>) -> io::Result<()> {
    let mut tried = 0;
    loop {
        match host.act(deed) {
            Err(error) if is_transient(&error) && tried < TRIES => tried += 1,
            done => return done,
        }
        host.pause(BETWEEN);
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}
