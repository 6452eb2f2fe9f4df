// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pages of a process by their numbers, without changing what the process has in memory.
//!
//! # Why there are two ways of reading
//!
//! `process_vm_readv` is fast, but it *pins* the pages that it copies, and the kernel first makes a
//! pinned private page exclusive: a page that is shared since a fork, or that KSM merged, is copied
//! and remains a copy. To sample a forked child with 64 MiB in this way would take another 64 MiB.
//! Reading `/proc/PID/mem` does not pin, and keeps the page shared. So pagemap is read again right
//! before each read, and only pages that no other process maps are read in the fast way.
//!
//! The same reading of pagemap shows which pages are now in swap: these are counted and not read,
//! because reading would swap them in. A page can still change between the reading of pagemap and
//! the read. That cannot be prevented, only counted: if the read had to swap in or copy a page,
//! that was a page fault of *our* thread.
//!
//! Both ways of reading mark the page as recently used.
//!
//! # Whose memory is read
//!
//! The open files belong to one address space, and read as empty once that is gone.
//! `process_vm_readv`, however, takes a pid. So after that call, and before any page is passed on,
//! the files are used to check that the address space still exists. If it does not, the pages that
//! were read are discarded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use pagewise_procmem::pagemap::{Entry, Pagemap};

use crate::calls::{self, Piece};
use crate::identity::{Identity, Stat};
use crate::{PageKind, ProcessEnd, open};

/// A process whose pages are read, with its open files in /proc.
#[derive(Debug)]
pub(crate) struct Opened {
    pid: u32,
    pagemap: Pagemap,
    memory: File,
    page_size: usize,
}

/// Which page of a process to read, and what kind of page is expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRequest {
    pub(crate) page: u64,
    pub(crate) kind: PageKind,
    pub(crate) huge: Option<bool>,
}

/// The result of reading one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// The contents of the page are in the buffer.
    Read {
        exclusive: bool,
        /// The frame of the page if other processes map it too and frame numbers are available.
        frame: Option<u64>,
    },
    Gone,
    Swapped,
    Refused,
    Duplicate,
    Truncated,
}

/// Side effects that reading a batch had on the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadEffects {
    pub(crate) referenced: u64,
    pub(crate) unshared: u64,
    pub(crate) faults: u64,
}

/// Buffers that are reused from batch to batch, to save allocations.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
    ways: Vec<Way>,
}

/// The way in which a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The page is read with process_vm_readv, which pins it.
    Pinning,
    /// The page is read through /proc/PID/mem, which leaves it shared.
    Sharing {
        exclusive: bool,
        frame: Option<u64>,
    },
    Done(ReadOutcome),
}

/// Answers questions about a page's frame.
pub(crate) trait Judge {
    /// Whether the frame is the kernel's zero page.
    fn is_zero(&self, frame: u64) -> bool;
    /// Whether the frame is a shared page that was already passed to a worker.
    fn is_duplicate(&self, frame: u64) -> bool;
}

impl Opened {
    /// Opens the process, if it still has the address space in which pages were found.
    pub(crate) fn open(found: &Identity, page_size: usize) -> Result<Self, ProcessEnd> {
        let pid = found.pid;
        // the files are opened before the identity is checked: if the process calls exec after
        // that, they refer to the old address space and read as empty
        let files = Pagemap::open(pid).and_then(|map| Ok((map, open::open_memory(pid)?)));
        let now = Stat::read(pid).map_err(|_| ProcessEnd::Exited)?;
        if now.identity != *found {
            let same = now.identity.is_same_process(found);
            return Err(if same && now.why_no_memory().is_none() {
                ProcessEnd::Replaced
            } else {
                ProcessEnd::Exited
            });
        }
        let (pagemap, memory) = files.map_err(|_| how_ended(found))?;
        Ok(Self { pid, pagemap, memory, page_size })
    }

    pub(crate) fn pagemap(&self) -> &Pagemap {
        &self.pagemap
    }

    /// Reads the requested pages, which must be in order, each to its place in `buffer`. `Err` if
    /// the memory of the process is gone: then nothing in the buffer may be passed on.
    pub(crate) fn read(
        &self,
        requests: &[PageRequest],
        buffer: &mut [u8],
        scratch: &mut Scratch,
        judge: &impl Judge,
        fates: &mut Vec<ReadOutcome>,
    ) -> Result<ReadEffects, MemoryGone> {
        self.read_pages(requests, scratch, judge).map_err(|_| MemoryGone)?;
        let pinning_faults = self.read_pinning(requests, buffer, scratch);
        let before = calls::faults();
        self.read_sharing(requests, buffer, scratch);
        let sharing_faults = calls::faults() - before;
        if !self.pagemap.is_alive() {
            return Err(MemoryGone);
        }
        fates.clear();
        fates.extend(scratch.ways.iter().map(|way| match way {
            Way::Done(fate) => *fate,
            Way::Pinning | Way::Sharing { .. } => ReadOutcome::Refused,
        }));
        let read = |fate: &&ReadOutcome| matches!(fate, ReadOutcome::Read { .. });
        Ok(ReadEffects {
            referenced: fates.iter().filter(read).count() as u64,
            unshared: pinning_faults,
            faults: pinning_faults + sharing_faults,
        })
    }

    /// Decides how to read each page, from the present contents of pagemap.
    fn read_pages(
        &self,
        requests: &[PageRequest],
        scratch: &mut Scratch,
        judge: &impl Judge,
    ) -> io::Result<()> {
        scratch.entries.clear();
        for run in requests.chunk_by(|a, b| a.page.checked_add(1) == Some(b.page)) {
            let first = run.first().map_or(0, |wanted| wanted.page);
            let Scratch { entries, bytes, .. } = scratch;
            let read = self.pagemap.read(first, run.len(), entries, bytes)?;
            entries.extend(std::iter::repeat_n(Entry::default(), run.len() - read));
        }
        let Scratch { entries, ways, .. } = scratch;
        ways.clear();
        ways.extend(
            requests.iter().zip(entries).map(|(wanted, entry)| choose_way(wanted, *entry, judge)),
        );
        Ok(())
    }

    /// Reads pages with process_vm_readv; returns the number of page faults that the call caused.
    fn read_pinning(
        &self,
        requests: &[PageRequest],
        buffer: &mut [u8],
        scratch: &mut Scratch,
    ) -> u64 {
        let Scratch { pieces, ways, .. } = scratch;
        let (mut from, mut faults) = (0, 0);
        while from < requests.len() {
            from = self.gather(requests, ways, from, pieces);
            if pieces.is_empty() {
                break;
            }
            let copied = calls::process_vm_readv(self.pid, buffer, pieces).unwrap_or_default();
            faults += copied.faults;
            if let Some(stopped) = self.mark_read(pieces, ways, copied.bytes / self.page_size) {
                from = stopped;
            }
        }
        faults
    }

    /// Collects the next pieces for one call of process_vm_readv, from index `from` on; returns the
    /// index after the last piece.
    fn gather(
        &self,
        requests: &[PageRequest],
        ways: &[Way],
        mut from: usize,
        pieces: &mut Vec<Piece>,
    ) -> usize {
        pieces.clear();
        while let (Some(page), Some(way)) = (requests.get(from), ways.get(from)) {
            if *way == Way::Pinning {
                let piece = self.piece(from, page.page);
                let full = pieces.len() == calls::MOST_PIECES;
                match pieces.last_mut().filter(|last| is_adjacent(last, &piece)) {
                    Some(last) => last.length += piece.length,
                    None if full => break,
                    None => pieces.push(piece),
                }
            }
            from += 1;
        }
        from
    }

    fn piece(&self, index: usize, page: u64) -> Piece {
        let address = page.saturating_mul(self.page_size as u64);
        Piece { address, at: index * self.page_size, length: self.page_size }
    }

    /// Marks the first `read` pages of these pieces as read. The page after them is marked to be
    /// read through /proc/PID/mem, which can also read pages that the program itself has no
    /// permission to read. Returns the index after that page.
    fn mark_read(&self, pieces: &[Piece], ways: &mut [Way], mut read: usize) -> Option<usize> {
        for piece in pieces {
            let first = piece.at / self.page_size;
            let pages = piece.length / self.page_size;
            let done = read.min(pages);
            let there = ways.get_mut(first..first + done).unwrap_or_default();
            there.fill(Way::Done(ReadOutcome::Read { exclusive: true, frame: None }));
            if done < pages {
                *ways.get_mut(first + done)? = Way::Sharing { exclusive: true, frame: None };
                return Some(first + done + 1);
            }
            read -= done;
        }
        None
    }

    fn read_sharing(&self, requests: &[PageRequest], buffer: &mut [u8], scratch: &mut Scratch) {
        let mut from = 0;
        while from < requests.len() {
            let length = count_sharing_run(requests, &scratch.ways, from);
            if length == 0 {
                from += 1;
                continue;
            }
            let piece = self.piece(from, requests.get(from).map_or(0, |wanted| wanted.page));
            let to = buffer.get_mut(piece.at..piece.at + length * self.page_size);
            let read = self.memory.read_at(to.unwrap_or_default(), piece.address).unwrap_or(0);
            let there = (read / self.page_size).min(length);
            for way in scratch.ways.get_mut(from..from + there).unwrap_or_default() {
                if let Way::Sharing { exclusive, frame } = *way {
                    *way = Way::Done(ReadOutcome::Read { exclusive, frame });
                }
            }
            from += there;
            if there < length {
                if let Some(way) = scratch.ways.get_mut(from) {
                    *way = Way::Done(ReadOutcome::Refused);
                }
                from += 1;
            }
        }
    }
}

/// Error: the address space is gone, because the process exited or called exec.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MemoryGone;

/// Whether a process whose memory is gone has exited or called exec.
pub(crate) fn how_ended(found: &Identity) -> ProcessEnd {
    match Stat::read(found.pid) {
        Ok(now) if now.identity.is_same_process(found) && now.why_no_memory().is_none() => {
            ProcessEnd::Replaced
        }
        _ => ProcessEnd::Exited,
    }
}

fn choose_way(request: &PageRequest, entry: Entry, judge: &impl Judge) -> Way {
    let exclusive = entry.is_exclusive();
    let frame = entry.frame();
    if entry.is_swapped() {
        Way::Done(ReadOutcome::Swapped)
    } else if !entry.is_present() || entry.is_guard() {
        Way::Done(ReadOutcome::Gone)
    } else if entry.is_of_file() != (request.kind != PageKind::Anonymous) {
        // the address now belongs to another mapping, or the page was replaced by a private copy
        Way::Done(ReadOutcome::Gone)
    } else if frame.is_some_and(|frame| judge.is_zero(frame)) {
        Way::Done(ReadOutcome::Gone)
    } else if exclusive {
        Way::Pinning
    } else if !entry.is_of_file() && frame.is_some_and(|frame| judge.is_duplicate(frame)) {
        Way::Done(ReadOutcome::Duplicate)
    } else {
        Way::Sharing { exclusive: false, frame }
    }
}

fn is_adjacent(last: &Piece, next: &Piece) -> bool {
    let length = last.length as u64;
    last.address.checked_add(length) == Some(next.address) && last.at + last.length == next.at
}

/// Number of consecutive pages from index `from` on that are read through /proc/PID/mem.
fn count_sharing_run(requests: &[PageRequest], ways: &[Way], from: usize) -> usize {
    let pages = requests.get(from..).unwrap_or_default();
    let ways = ways.get(from..).unwrap_or_default();
    let first = pages.first().map_or(0, |wanted| wanted.page);
    let together = pages.iter().zip(ways).zip(first..);
    together
        .take_while(|((wanted, way), page)| {
            wanted.page == *page && matches!(way, Way::Sharing { .. })
        })
        .count()
}
