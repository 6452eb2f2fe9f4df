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

/// One write to the machine, which happens or fails as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostChange<'a> {
    /// Writes a value into a file of the kernel.
    Write {
        /// The path of the kernel's file.
        path: &'a str,
        /// The text to write, without an end of line.
        value: &'a str,
    },
    /// Creates the cgroup whose folder has this path.
    MakeGroup(&'a str),
    /// Removes a cgroup that has no processes and no child groups.
    RemoveGroup(&'a str),
    /// Kills a process, but only if it is in the given cgroup.
    Kill {
        /// The id of the process.
        pid: u32,
        /// The path of the cgroup's folder.
        group: &'a str,
    },
    /// Creates an empty file that only root may read; fails if the path exists.
    MakeFile(&'a str),
    /// Fills a newly created file with zeros, without holes.
    FillFile {
        /// The path of the file.
        path: &'a str,
        /// Device and inode number of the file: another file at this path is not written.
        identity: Identity,
        /// The size of the file afterwards.
        size: Bytes,
    },
    /// Deletes the file at a path, if it is still the file that was recorded.
    RemoveFile {
        /// The path of the file.
        path: &'a str,
        /// Device and inode number of the file: another file at this path is kept.
        identity: Identity,
    },
    /// Writes a swap header to a device or file.
    FormatSwap(&'a str),
    /// Enables a device or file as swap.
    SwapOn {
        /// The path of the device or file.
        area: &'a str,
        /// The swap priority of the area; with `None` the kernel chooses one.
        priority: Option<i16>,
    },
    /// Disables a swap area, whatever memory this needs.
    SwapOff(&'a str),
    /// Loads a kernel module.
    Load {
        /// The name of the module.
        module: &'a str,
        /// One module parameter, as `name=value`.
        parameter: &'a str,
    },
    /// Unloads a kernel module, and the modules that only it used.
    Unload(&'a str),
    /// Disables a swap area, and gives up if this leaves less memory than the reserve, or if the
    /// user stops the run.
    Drain {
        /// The device or file of the swap area.
        area: &'a str,
        /// How much memory must stay available.
        reserve: Bytes,
    },
    /// Creates a configuration file or link under a temporary name, beside the one that it will
    /// replace. It is not synced yet.
    Stage {
        /// The temporary path.
        path: &'a str,
        /// The file or link to create.
        staged: Staged<'a>,
    },
    /// Syncs the contents of a staged file to disk.
    SyncFile(&'a str),
    /// Gives a staged file or link its final name, replacing what had this name.
    Rename {
        /// The temporary path.
        from: &'a str,
        /// The final path.
        to: &'a str,
    },
    /// Syncs the names in a folder to disk.
    SyncFolder(&'a str),
    /// Removes a configuration file or link.
    RemoveConfig(&'a str),
    /// Creates a folder for configuration files.
    MakeFolder(&'a str),
    /// Removes a folder for configuration files if it is empty.
    RemoveFolder(&'a str),
    /// Makes systemd reload its unit files.
    ReloadUnits,
    /// Stops a systemd unit, or cancels its start.
    StopUnit(&'a str),
    /// Asks systemd to start a unit, without waiting for it.
    StartUnit(&'a str),
    /// Starts a systemd timer that runs `undo --unconfirmed`.
    Arm {
        /// Seconds until the timer runs the command.
        seconds: u64,
        /// The path of this program.
        program: &'a str,
        /// The folder of the journals on which the command works.
        state: &'a str,
        /// The name of the journal of the plan on trial.
        journal: &'a str,
    },
    /// Stops the timer that runs `undo --unconfirmed`.
    Disarm,
    /// Creates an empty journal at this path.
    Begin(&'a str),
    /// Appends a line to a journal, and waits until it is on disk.
    Append {
        /// The path of the journal.
        journal: &'a str,
        /// The line, with its line end.
        line: &'a [u8],
    },
    /// Truncates a journal.
    Cut {
        /// The path of the journal.
        journal: &'a str,
        /// The length to keep, in bytes.
        length: u64,
    },
    /// Deletes a journal.
    Forget(&'a str),
    /// Moves a journal out of force, into a folder that is created if it does not exist.
    SetAside {
        /// The path of the journal.
        journal: &'a str,
        /// The new path, which no file has.
        to: &'a str,
    },
}

/// A configuration file or link to create under a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged<'a> {
    /// A file of root that all users may read and, if it is a start script, run; or with the mode and owner of the file that it
    /// replaces.
    File {
        /// The contents of the file.
        text: &'a str,
        /// The existing file whose mode, owner and SELinux context the new file gets.
        like: Option<&'a FileText>,
    },
    /// A symbolic link to create.
    Link {
        /// The target of the link.
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
    /// Anything but a readable text file, a link or a folder; described in words.
    Other(String),
}

/// The file, folder or link that exists at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    /// Whether the entry is a regular file with one link that we own and that nobody else may
    /// write to.
    pub(crate) is_own_file: bool,
    pub(crate) size: u64,
}

/// Why a journal was not read.
#[derive(Debug)]
pub(crate) enum UnreadJournal {
    /// The path is not a file but a folder, link, pipe or device, so no run wrote it.
    NoFile(String),
    /// Another user could have written the file, or it cannot be read.
    Untrusted(String),
}

/// A swap area that is enabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    /// The device or file, in the kernel's spelling.
    pub(crate) path: String,
    /// How much of the area is in use.
    pub(crate) used: Bytes,
    pub(crate) size: Bytes,
    /// How much more the area can certainly take: a zram device with a `mem_limit` can take less
    /// than its size.
    pub(crate) room: Bytes,
    /// The swap priority of the area: the kernel fills areas of higher priority first.
    pub(crate) priority: i32,
}

/// A memory cgroup, with the values that decide whether swap can be disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupCharge {
    /// Path of the group below the root of the cgroup hierarchy.
    pub(crate) path: String,
    pub(crate) current: Bytes,
    pub(crate) swap: Bytes,
    /// The memory limit of the group; `None` if it has none.
    pub(crate) max: Option<Bytes>,
    /// The swap limit of the group; `None` if it has none.
    pub(crate) swap_max: Option<Bytes>,
    /// `memory.swappiness` of the group (version 1), or `vm.swappiness` (version 2). With 0, the
    /// kernel swaps nothing out when the group reaches its limit.
    pub(crate) swappiness: Option<u64>,
}

/// Facts about memory on which it depends whether the contents of a swap area fit elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryFacts {
    pub(crate) total: Bytes,
    pub(crate) available: Bytes,
    /// Whether `vm.overcommit_memory` is 2: then the whole size of the area must fit below the
    /// commit limit.
    pub(crate) is_strict: bool,
    pub(crate) committed: Bytes,
    pub(crate) commit_limit: Bytes,
    /// The memory cgroups of the machine.
    pub(crate) groups: Vec<GroupCharge>,
    /// Number of cgroups that were not read because there are too many.
    pub(crate) groups_left_out: u64,
}

/// Counters of memory pressure, read before and after a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Strain {
    /// Time in which at least one task waited for memory, in microseconds, from `/proc/pressure`;
    /// `None` if the kernel has no pressure information (PSI).
    pub(crate) some_us: Option<u64>,
    /// Time in which all tasks waited for memory, in microseconds.
    pub(crate) full_us: Option<u64>,
    /// The share of the last 10 s in which all tasks waited for memory, in percent.
    pub(crate) full_percent: u64,
    pub(crate) oom_kills: u64,
    /// Number of pages that were read back soon after they were reclaimed.
    pub(crate) refaults: u64,
}

/// The facts about the machine that decide whether a plan can be applied to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) machine: PlannedMachine,
    /// The container runtime in which we run; `None` outside of a container.
    pub(crate) container: Option<String>,
    /// Whether systemd is PID 1.
    pub(crate) has_systemd: bool,
}

/// The file with the boot id, which changes with each boot.
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The operations on a machine that making and undoing changes needs.
pub(crate) trait HostOps {
    /// Makes a change. When this returns, the change was made or has failed: it is never deferred.
    fn make_change(&mut self, deed: &HostChange<'_>) -> io::Result<()>;

    /// Creates a zram device by reading `hot_add`; returns its number.
    fn add_zram_device(&mut self) -> io::Result<u32>;

    /// Reads a small file of the kernel, without surrounding white space.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Reads a journal, with any contents, if no other user can have written it.
    fn journal(&self, path: &str) -> Result<Vec<u8>, UnreadJournal>;

    /// Sorted names of the entries in a folder.
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Whether a file or folder exists.
    fn exists(&self, path: &str) -> bool;

    /// The path of a folder with all symbolic links resolved, in the spelling of the kernel.
    fn resolve(&self, folder: &Path) -> io::Result<String>;

    /// The inode number of a folder: it stays the same after a reboot.
    fn inode(&self, folder: &str) -> io::Result<u64>;

    /// The file, folder or link at this path; a link is not followed.
    fn entry(&self, path: &str) -> io::Result<Entry>;

    /// Whether this folder is a cgroup, that is, lies in a cgroup file system.
    fn is_cgroup(&self, folder: &str) -> bool;

    /// When the kernel created the device node of a zram device, in milliseconds of Unix time;
    /// `None` if the file system of `/dev` does not record it.
    fn created_at(&self, number: u32) -> Option<u64>;

    /// The current time in milliseconds of Unix time.
    fn now(&self) -> u64;

    /// The time since boot in milliseconds, with the time during which the machine was suspended.
    fn since_boot(&self) -> u64;

    /// Free space in the file system of a folder.
    fn free_space(&self, folder: &str) -> io::Result<Bytes>;

    /// The swap areas that are enabled.
    fn swaps(&self) -> Vec<Area>;

    /// How much memory is available; `None` if the kernel does not report it.
    fn available(&self) -> Option<Bytes>;

    /// Reads a configuration file; no link in its path is followed.
    fn config(&self, path: &str) -> io::Result<Config>;

    /// Fails if the folder, or the one in which it would be created, is not writable.
    fn check_config_writable(&self, folder: &str) -> io::Result<()>;

    /// The facts about the machine that a plan depends on.
    fn site(&self) -> Site;

    /// Facts about memory on which it depends whether the contents of a swap area fit elsewhere.
    fn memory_facts(&self) -> MemoryFacts;

    /// Counters of memory pressure since boot, such as stall times and OOM kills.
    fn memory_pressure(&self) -> Strain;

    /// Where memory cgroups are mounted, and whether they are of cgroup version 2.
    fn groups(&self) -> Option<(String, bool)>;

    /// The path of this program.
    fn program(&self) -> io::Result<String>;

    /// The id of our own process.
    fn pid(&self) -> u32;

    /// Sleeps for this time.
    fn pause(&self, time: Duration);

    /// A second handle to the same machine, for another thread.
    fn for_thread(&self) -> io::Result<Box<dyn HostOps + Send>>;
}

/// How often an operation is retried on an object that is briefly in use: the retries take two
/// seconds.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(20);

/// The path of the folder that contains the given path.
pub(crate) fn folder_of(path: &str) -> &str {
    let folder = path.rsplit_once('/').map(|(folder, _)| folder);
    folder.filter(|folder| !folder.is_empty()).unwrap_or("/")
}

/// Makes the change, and retries if the device is briefly in use: udev opens each new device to
/// read it.
pub(crate) fn make_change_with_retries(
    host: &mut dyn HostOps,
    deed: &HostChange<'_>,
) -> io::Result<()> {
    let mut tried = 0;
    loop {
        match host.make_change(deed) {
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
