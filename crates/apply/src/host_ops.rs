// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one seam between a loan and the machine: every write is a [`HostChange`].
//!
//! Whoever implements [`HostOps`] sees each write, those of the journal included, as one call that
//! either happens, or fails, or is the last thing that a killed process did. So the property test
//! can fail or stop at any of them.

use std::io;
use std::path::Path;
use std::time::Duration;

use pagewise_model::Bytes;
use pagewise_model::plan::PlannedMachine;

use crate::journal::{FileText, Identity};

/// One change of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostChange<'a> {
    /// Writes a value into a file of the kernel.
    Write {
        /// The file.
        path: &'a str,
        /// The text, without an end of line.
        value: &'a str,
    },
    /// Makes a cgroup.
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
    /// Makes an empty file that only root may read; it must not be there yet.
    MakeFile(&'a str),
    /// Fills a file that was made with zeros, without holes.
    FillFile {
        /// The file.
        path: &'a str,
        /// Which one it is.
        identity: Identity,
        /// Its size.
        size: Bytes,
    },
    /// Removes a file for good.
    RemoveFile {
        /// The file.
        path: &'a str,
        /// Which one it is: another of that name stays.
        identity: Identity,
    },
    /// Writes the head of a swap area.
    FormatSwap(&'a str),
    /// Switches a swap area on.
    SwapOn {
        /// Device or file.
        area: &'a str,
        /// Higher is filled first; the kernel chooses where there is none.
        priority: Option<i16>,
    },
    /// Switches a swap area off.
    SwapOff(&'a str),
    /// Loads a module.
    Load {
        /// Its name.
        module: &'a str,
        /// One parameter.
        parameter: &'a str,
    },
    /// Unloads a module, and those that only it used.
    Unload(&'a str),
    /// Switches a swap area off, and stops that if it takes more memory than is left, or if the user
    /// stops the run.
    Drain {
        /// The area.
        area: &'a str,
        /// The least memory that must stay available.
        reserve: Bytes,
    },
    /// Makes a new file or link beside the one that it is to replace. Nothing of it is certain to be on
    /// the disk yet.
    Stage {
        /// Its name until it is renamed.
        path: &'a str,
        /// What it is.
        staged: Staged<'a>,
    },
    /// Waits until the disk has the contents of a staged file.
    SyncFile(&'a str),
    /// Gives a staged file or link its name. What had that name is gone.
    Rename {
        /// The staged one.
        from: &'a str,
        /// Its name from now on.
        to: &'a str,
    },
    /// Waits until the disk has the names in a folder.
    SyncFolder(&'a str),
    /// Removes a configuration file or link.
    RemoveConfig(&'a str),
    /// Makes a folder for configuration files.
    MakeFolder(&'a str),
    /// Removes such a folder if it is empty.
    RemoveFolder(&'a str),
    /// Makes systemd read its unit files again.
    ReloadUnits,
    /// Stops a unit of systemd, or keeps it from starting if it is about to.
    StopUnit(&'a str),
    /// Has systemd start a unit, and does not wait for it.
    StartUnit(&'a str),
    /// Starts a timer of systemd that runs `undo --unconfirmed`.
    Arm {
        /// When.
        seconds: u64,
        /// This program's file.
        program: &'a str,
        /// The folder of journals.
        state: &'a str,
    },
    /// Stops that timer.
    Disarm,
    /// Makes an empty journal.
    Begin(&'a str),
    /// Adds to a journal, and waits until the disk has it.
    Append {
        /// The journal.
        journal: &'a str,
        /// One line.
        line: &'a [u8],
    },
    /// Shortens a journal.
    Cut {
        /// The journal.
        journal: &'a str,
        /// What stays.
        length: u64,
    },
    /// Removes a journal.
    Forget(&'a str),
}

/// What is staged before it gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged<'a> {
    /// A file of root that everybody may read, or like the one that it replaces.
    File {
        /// Its contents.
        text: &'a str,
        /// The file whose mode, owner and context it gets.
        like: Option<&'a FileText>,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        to: &'a str,
    },
}

/// What stands by the name of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Config {
    Missing,
    File(FileText),
    Link(String),
    Folder,
    /// Neither, or a file that is not text; in words.
    Other(String),
}

/// What stands by a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    /// A plain file with one name, that is ours and that nobody else may write to.
    pub(crate) is_own_file: bool,
    pub(crate) size: u64,
}

/// Why a journal is not read.
#[derive(Debug)]
pub(crate) enum UnreadJournal {
    /// No file, but a folder, link, pipe or device: no run ever wrote there.
    NoFile(String),
    /// A file that somebody else can have written, or that cannot be read.
    Untrusted(String),
}

/// A swap area that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    /// Device or file, as the kernel spells it.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) used: Bytes,
    pub(crate) size: Bytes,
    /// What it can still take for certain: a zram device with a `mem_limit` takes less than its size.
    pub(crate) room: Bytes,
    /// Higher is filled first.
    pub(crate) priority: i32,
}

/// A memory cgroup, as far as switching swap off concerns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupCharge {
    /// Path below the root of the hierarchy.
    pub(crate) path: String,
    pub(crate) current: Bytes,
    pub(crate) swap: Bytes,
    /// `None` without a limit.
    pub(crate) max: Option<Bytes>,
    /// How much swap it may have; `None` without a limit.
    pub(crate) swap_max: Option<Bytes>,
    /// `memory.swappiness` of the group (version 1), or `vm.swappiness` (version 2): with 0, the kernel swaps nothing
    /// out when the group reaches its limit.
    pub(crate) swappiness: Option<u64>,
}

/// What decides whether the contents of a swap area fit elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryFacts {
    pub(crate) total: Bytes,
    pub(crate) available: Bytes,
    /// `vm.overcommit_memory` is 2: the whole size of the area must fit below the commit limit.
    pub(crate) is_strict: bool,
    pub(crate) committed: Bytes,
    pub(crate) commit_limit: Bytes,
    /// Every memory cgroup.
    pub(crate) groups: Vec<GroupCharge>,
    /// Groups that were not read, because there are too many.
    pub(crate) groups_left_out: u64,
}

/// Counters from before and after a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Strain {
    /// Time in which some task waited for memory, in microseconds; `None` without PSI.
    pub(crate) some_us: Option<u64>,
    /// The same for time in which all tasks waited.
    pub(crate) full_us: Option<u64>,
    /// The same over the last 10 s, in percent of the time.
    pub(crate) full_percent: u64,
    pub(crate) oom_kills: u64,
    /// Pages that were read again soon after they were reclaimed.
    pub(crate) refaults: u64,
}

/// The machine as far as a plan depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) machine: PlannedMachine,
    /// What kind of container this is.
    pub(crate) container: Option<String>,
    /// Whether systemd is PID 1.
    pub(crate) has_systemd: bool,
}

/// Another text after each boot.
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a machine lets us do.
pub(crate) trait HostOps {
    /// Changes the machine. When this returns, the change is made or it is not: nothing is put off.
    fn act(&mut self, deed: &HostChange<'_>) -> io::Result<()>;

    /// Makes a zram device by reading the file that makes one; answers its number.
    fn hot_add(&mut self) -> io::Result<u32>;

    /// A small file of the kernel as it is now, without white space around it.
    fn read(&self, path: &str) -> io::Result<String>;

    /// A journal, whatever is in it, where nobody else can have written it.
    fn journal(&self, path: &str) -> Result<Vec<u8>, UnreadJournal>;

    /// The names in a folder, sorted.
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Whether there is such a file or folder.
    fn exists(&self, path: &str) -> bool;

    /// A folder's path without links, as the kernel spells it.
    fn resolved(&self, folder: &Path) -> io::Result<String>;

    /// The number of a folder in its file system: it stays over a boot.
    fn inode(&self, folder: &str) -> io::Result<u64>;

    /// What stands by that name itself, links not followed.
    fn entry(&self, path: &str) -> io::Result<Entry>;

    /// Whether this folder is a cgroup: it lies in a file system of cgroups.
    fn is_group(&self, folder: &str) -> bool;

    /// When the kernel made the node of a zram device, in milliseconds of Unix time; `None` where
    /// the file system of `/dev` does not tell.
    fn made_at(&self, number: u32) -> Option<u64>;

    /// Milliseconds of Unix time.
    fn now(&self) -> u64;

    /// What more a folder's file system can hold.
    fn room(&self, folder: &str) -> io::Result<Bytes>;

    /// Swap that is switched on.
    fn swaps(&self) -> Vec<Area>;

    /// Memory that programs could still have; `None` where the kernel does not tell.
    fn available(&self) -> Option<Bytes>;

    /// What stands by the name of a configuration file; no link on the way there is followed.
    fn config(&self, path: &str) -> io::Result<Config>;

    /// Why nothing can be written in that folder, or in the one where it is to be made.
    fn may_write_config(&self, folder: &str) -> io::Result<()>;

    /// The machine as far as a plan depends on it.
    fn site(&self) -> Site;

    /// What decides whether the contents of a swap area fit elsewhere.
    fn memory_facts(&self) -> MemoryFacts;

    /// How short of memory programs were since the start.
    fn strain(&self) -> Strain;

    /// Where memory cgroups are mounted, and whether they are of version 2.
    fn groups(&self) -> Option<(String, bool)>;

    /// The file of this program.
    fn program(&self) -> io::Result<String>;

    /// Our own process.
    fn pid(&self) -> u32;

    /// Lets a while pass.
    fn pause(&self, time: Duration);

    /// The same machine, for another thread.
    fn for_thread(&self) -> io::Result<Box<dyn HostOps + Send>>;
}

/// How often something that is in use for a moment is tried again: for two seconds.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(20);

/// The folder that holds what this path names.
pub(crate) fn folder_of(path: &str) -> &str {
    let folder = path.rsplit_once('/').map(|(folder, _)| folder);
    folder.filter(|folder| !folder.is_empty()).unwrap_or("/")
}

/// Does it, again where it is in use only for a moment: udev opens each new device to look at it.
pub(crate) fn patiently(hands: &mut dyn HostOps, deed: &HostChange<'_>) -> io::Result<()> {
    let mut tried = 0;
    loop {
        match hands.act(deed) {
            Err(error) if is_passing(&error) && tried < TRIES => tried += 1,
            done => return done,
        }
        hands.pause(BETWEEN);
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}
