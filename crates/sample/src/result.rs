// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which pages were looked at, which were not and why, and what looking disturbed.

use std::fmt;

use pagewise_model::{Bytes, Name, Pages, Problem};

use crate::Choice;

/// What is known of a page that is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Origin {
    /// Index of its [`Part`] in [`Sample::parts`].
    pub part: usize,
    /// Its number there: the address in a process or core, or the offset in a file or device,
    /// divided by the page size.
    pub page: u64,
    /// Whose it is.
    pub kind: PageKind,
    /// Whether the kernel said that nobody else maps it; `false` also where nobody can say.
    pub exclusive: bool,
    /// The part of the page that this place accounts for: 1 / number of places of the population that
    /// show the same page. Added up over the population, each page counts once. See [`Sharing`].
    pub share: f64,
    /// Whether it is mapped as part of a huge page, where the kernel tells: by PAGEMAP_SCAN, or
    /// to root by `/proc/kpageflags`.
    pub huge: Option<bool>,
}

/// What backs a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageKind {
    /// Private memory: swap takes it.
    Anonymous,
    /// Shared memory and tmpfs: swap takes it.
    Shmem,
    /// The page cache of a file: dropped and read again, never swapped.
    File,
    /// No memory of a process: a page-sized piece of a file or a device.
    Stored,
}

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// One process.
    Process,
    /// A regular file.
    File,
    /// A block device.
    Device,
    /// An ELF core.
    Core,
}

impl PartKind {
    /// As `--json` has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::File => "file",
            Self::Device => "device",
            Self::Core => "core",
        }
    }
}

/// One source: a process, or the one file.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// The command's name as the kernel keeps it, or the file's path.
    pub name: Name,
    /// Of a process.
    pub pid: Option<u32>,
    /// The memory cgroup of a process, where it was looked up (cgroup and host).
    pub cgroup: Option<Name>,
    /// The population: pages that could have been shown, when they were found.
    pub pages: Pages,
    /// Pages that were shown.
    pub sampled: Pages,
    /// Of the shown ones: pages that others map too (or nobody can say).
    pub sampled_shared: Pages,
    /// Anonymous pages in swap: counted, not read, not in the population. Shmem in swap is not
    /// seen: no process maps it then.
    pub swapped: Pages,
    /// Addresses that all show the kernel's one page of zeros, where that can be told: no memory.
    pub zero_page: Pages,
    /// Pages that were to be shown and were not.
    pub skipped: SkippedPages,
    /// That it ended before all was looked at.
    pub ended: Option<ProcessEnd>,
}

/// Pages that were found and could not be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedPages {
    /// Freed since they were found, or the source ended.
    pub gone: Pages,
    /// Swapped out since they were found.
    pub swapped: Pages,
    /// The kernel did not give them: a device's memory, secret memory, an I/O error.
    pub refused: Pages,
    /// A process that was looked at before shows the same page (exact, as root).
    pub duplicate: Pages,
    /// The file ends before them.
    pub truncated: Pages,
}

impl SkippedPages {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> Pages {
        [self.gone, self.swapped, self.refused, self.duplicate, self.truncated].into_iter().sum()
    }
}

/// How a process ended while it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited.
    Exited,
    /// It runs another program now (exec): its memory from before is gone.
    Replaced,
}

/// A process of which no page was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadProcess {
    /// Its id.
    pub pid: u32,
    /// Its name, where that could be read.
    pub name: Name,
    /// Why.
    pub why: WhyUnread,
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WhyUnread {
    /// There is none with this id, or it ended.
    Gone,
    /// It is one of the kernel's own threads.
    KernelThread,
    /// It has ended and waits for its parent: its memory is given back.
    Zombie,
    /// It belongs to another user, and nobody asked for those.
    OtherUser,
    /// The kernel refused: another user's, or it forbids being looked at (ptrace).
    Denied,
    /// It had not answered when it should long have: something holds its memory lock.
    Stuck,
    /// Time was up, or we were stopped, before its turn.
    NoTime,
}

impl WhyUnread {
    /// Whether it was refused for who we are, or for what was asked, and would be read otherwise.
    #[must_use]
    pub const fn is_refused(self) -> bool {
        matches!(self, Self::OtherUser | Self::Denied)
    }
}

impl fmt::Display for WhyUnread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "there is no such process (any more)",
            Self::KernelThread => "a thread of the kernel, which has no memory of its own",
            Self::Zombie => "it has ended; its memory is already given back",
            Self::OtherUser => "it belongs to another user, whose memory is read only on request",
            Self::Denied => {
                "the kernel refuses: it is another user's or forbids tracing (root may read it)"
            }
            Self::Stuck => "it does not answer: something holds its memory lock",
            Self::NoTime => "there was no time left for it",
        })
    }
}

/// How pages that several processes map were counted in [`Part::pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There is one source, or none of several processes.
    One,
    /// Shmem and file pages once, by their file; private pages that processes share since a fork, and
    /// pages that KSM merged, once for each place. [`Origin::share`] says what each place accounts
    /// for: of a page that k processes of the target show at the same address 1/k, found by its frame,
    /// whoever else outside the target maps it; of a page that KSM merged 1 / all its mappings.
    Weighed,
    /// As before, but we are not told frames: [`Origin::share`] is the mean that `smaps` has for
    /// shared pages of the same mapping (its proportional size). Processes outside the target take
    /// their part away.
    Proportional,
    /// Once for each place in [`Part::pages`]; but each page was *shown* once, by its frame, and
    /// [`SkippedPages::duplicate`] has the others.
    ByFrame,
}

/// What looking changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// Pages of processes that the kernel now takes for recently used.
    pub referenced_pages: Pages,
    /// At most so many pages were copied that were shared before. Pages are only read by the call
    /// that can do this where the kernel said that nobody shares them: this counts the races.
    pub unshared_pages: Pages,
    /// Page faults that our reads caused in their targets: a page moved between look and read.
    pub faults: u64,
}

/// Why a sample is not all that was asked for. Where several hold, the first of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Partial {
    /// The user stopped it.
    Stopped,
    /// The time was up.
    Budget,
    /// A source ended, or was replaced by another program.
    Ended,
    /// A process did not answer.
    Stuck,
    /// The core ends before the memory that its head lists.
    Truncated,
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Budget => "the time allowed was up",
            Self::Ended => "a process ended or was replaced meanwhile",
            Self::Stuck => "a process did not answer",
            Self::Truncated => "the core is truncated",
        })
    }
}

/// What was looked at.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What a page is here.
    pub page_size: Bytes,
    /// What was asked for.
    pub choice: Choice,
    /// Each source with pages, also where none was shown.
    pub parts: Vec<Part>,
    /// Processes that were not looked at.
    pub not_read: Vec<UnreadProcess>,
    /// How shared pages were counted.
    pub sharing: Sharing,
    /// What looking changed.
    pub disturbed: Disturbed,
    /// Why this is not all that was asked for.
    pub partial: Option<Partial>,
    /// What could not be understood.
    pub problems: Vec<Problem>,
}

impl Sample {
    /// The population of all parts.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.parts.iter().map(|part| part.pages).sum()
    }

    /// Pages shown, of all parts.
    #[must_use]
    pub fn sampled(&self) -> Pages {
        self.parts.iter().map(|part| part.sampled).sum()
    }

    /// Pages in swap, of all parts.
    #[must_use]
    pub fn swapped(&self) -> Pages {
        self.parts.iter().map(|part| part.swapped).sum()
    }
}
