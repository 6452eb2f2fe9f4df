// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of sampling: which pages were sampled, which were not and why, and what sampling
//! disturbed.

use std::fmt;

use pagewise_model::{Bytes, Name, Pages, Problem};

use crate::Choice;

/// Where a page is and how it is mapped; passed to the caller together with the page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Origin {
    /// Index of the page's source: its [`Part`] in [`Sample::parts`].
    pub part: usize,
    /// Page number in the source: the address in a process or core, or the offset in a file or
    /// device, divided by the page size.
    pub page: u64,
    /// The kind of memory that the page belongs to.
    pub kind: PageKind,
    /// Whether the kernel marks the page as mapped by no other process; `false` also if unknown.
    pub exclusive: bool,
    /// Weight of the page: 1 divided by the number of places in the population that show the same
    /// page. The sum of the weights over the population counts each page once. See [`Sharing`].
    pub share: f64,
    /// Whether the page is mapped as part of a huge page, from PAGEMAP_SCAN or, for root, from
    /// `/proc/kpageflags`; `None` if unknown.
    pub huge: Option<bool>,
}

/// The kind of memory that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageKind {
    /// Private memory of a process, which can be swapped.
    Anonymous,
    /// A page of shared memory or tmpfs, which can be swapped.
    Shmem,
    /// A page of a file in the page cache, which is dropped and read again, never swapped.
    File,
    /// Not memory of a process, but a page-sized piece of a file or a device.
    Stored,
}

/// The kind of a source of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The memory of one process.
    Process,
    /// The contents of a regular file.
    File,
    /// The contents of a block device.
    Device,
    /// The memory in an ELF core dump.
    Core,
}

impl PartKind {
    /// The word that stands for the kind in the output of `--json`.
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

/// One source of pages: a process, or the one file, device or core dump.
#[derive(Debug, Clone)]
pub struct Part {
    /// The kind of source.
    pub kind: PartKind,
    /// Name of the process's command (`comm`), or path of the file.
    pub name: Name,
    /// The pid if the source is a process.
    pub pid: Option<u32>,
    /// The memory cgroup of a process; `None` if it was not read: it is read only if the target is
    /// a cgroup or the host.
    pub cgroup: Option<Name>,
    /// Number of pages that were found, and from which the sample is drawn (the population).
    pub pages: Pages,
    /// Number of pages that were passed to the caller.
    pub sampled: Pages,
    /// Number of pages passed to the caller that other processes map, too, or for which this is
    /// unknown.
    pub sampled_shared: Pages,
    /// Number of anonymous pages in swap: they are counted, not read, and not part of the
    /// population. Shmem in swap is not counted, as it is not mapped by any process.
    pub swapped: Pages,
    /// Number of mapped pages that are the kernel's zero page, which take no memory; 0 if they
    /// cannot be recognised.
    pub zero_page: Pages,
    /// Number of pages that were drawn but could not be passed to the caller, by the reason.
    pub skipped: SkippedPages,
    /// How the process ended; `None` if it did not end before all its drawn pages were read.
    pub ended: Option<ProcessEnd>,
}

/// Number of pages that were drawn but could not be passed to the caller, for each reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedPages {
    /// Pages that were freed after they were found, or whose source ended.
    pub gone: Pages,
    /// Pages that were swapped out after they were found.
    pub swapped: Pages,
    /// Pages that the kernel refused to read: device memory, secret memory, an I/O error.
    pub refused: Pages,
    /// Pages that were already passed to the caller for another process (only with
    /// [`Choice::Exact`], as root).
    pub duplicate: Pages,
    /// Pages that are after the end of the file.
    pub truncated: Pages,
}

impl SkippedPages {
    /// Number of skipped pages, over all reasons.
    #[must_use]
    pub fn sum(&self) -> Pages {
        [self.gone, self.swapped, self.refused, self.duplicate, self.truncated].into_iter().sum()
    }
}

/// How a process ended while it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// The process exited.
    Exited,
    /// The process called exec: its former memory is gone.
    Replaced,
}

/// A process of which no page was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the process's command, if it could be read.
    pub name: Name,
    /// Why the process was not read.
    pub why: WhyUnread,
}

/// Why a process was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WhyUnread {
    /// The process does not exist, or has ended.
    Gone,
    /// The process is one of the kernel's own threads.
    KernelThread,
    /// The process has ended and has not been reaped: its memory is already freed.
    Zombie,
    /// The process belongs to another user, and reading such processes was not requested.
    OtherUser,
    /// The kernel refused access (ptrace access check): the process belongs to another user or is
    /// not dumpable.
    Denied,
    /// The process did not answer in time: something holds its mmap lock.
    Stuck,
    /// The time was up, or sampling was stopped, before the process had its turn.
    NoTime,
}

impl WhyUnread {
    /// Whether another user could read the process, or whether this program could if it was allowed
    /// to read processes of other users.
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

/// How pages that several processes map are counted in [`Part::pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There is only one source, so nothing is shared between sources.
    One,
    /// Shmem and file pages count once, identified by their file. Private pages that processes
    /// share since a fork, and pages that KSM merged, count once for each place; the weight of a
    /// place is [`Origin::share`]. For a page that k processes of the target have at the same
    /// address (found by its frame), the weight is 1/k, regardless of processes outside the target.
    /// For a page that KSM merged, it is 1 divided by the number of all its mappings.
    Weighed,
    /// Shared pages have weights as with [`Self::Weighed`], but frame numbers are not available. So
    /// [`Origin::share`] is the average for the shared pages of the same mapping, computed from its
    /// proportional size in `smaps`. It is lower if processes outside the target share the pages.
    Proportional,
    /// Each page counts once for each place in [`Part::pages`], but it was passed to the caller
    /// only once, identified by its frame. Its other places are counted in
    /// [`SkippedPages::duplicate`].
    ByFrame,
}

/// What sampling changed in the processes that it read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// Number of pages of processes that are now marked as recently used.
    pub referenced_pages: Pages,
    /// Maximum number of pages that were shared before and may have been copied by the read. The
    /// call that can copy a page is made only for pages that the kernel reported as unshared, so
    /// this counts pages that became shared in between.
    pub unshared_pages: Pages,
    /// Number of page faults that reading caused in the targets: a page changed between the reading
    /// of pagemap and the read.
    pub faults: u64,
}

/// Why a sample is incomplete. If several reasons apply, the first of this list is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Partial {
    /// The user stopped sampling.
    Stopped,
    /// The time limit of sampling was reached.
    Budget,
    /// A process ended, or called exec.
    Ended,
    /// A process did not answer in time.
    Stuck,
    /// The core dump ends before the memory that its headers list.
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

/// The result of sampling.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Page size of the host, in bytes.
    pub page_size: Bytes,
    /// The requested number of pages.
    pub choice: Choice,
    /// Each source that has pages, even if none of them was passed to the caller.
    pub parts: Vec<Part>,
    /// Processes that were to be sampled and could not be read.
    pub not_read: Vec<UnreadProcess>,
    /// How pages that several processes share were counted.
    pub sharing: Sharing,
    /// What sampling changed in the processes that it read.
    pub disturbed: Disturbed,
    /// Why the sample is incomplete; `None` if it is complete.
    pub partial: Option<Partial>,
    /// Files of the host that could not be understood.
    pub problems: Vec<Problem>,
}

impl Sample {
    /// Number of pages of all sources: the population of the sample.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.parts.iter().map(|part| part.pages).sum()
    }

    /// Number of pages that were passed to the caller, over all sources.
    #[must_use]
    pub fn sampled_pages(&self) -> Pages {
        self.parts.iter().map(|part| part.sampled).sum()
    }

    /// Number of pages in swap, over all sources.
    #[must_use]
    pub fn swapped_pages(&self) -> Pages {
        self.parts.iter().map(|part| part.swapped).sum()
    }
}
