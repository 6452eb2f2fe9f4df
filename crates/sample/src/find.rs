// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds which pages of a process are in RAM, as runs of pages, without reading any page.
//!
//! If the kernel has PAGEMAP_SCAN, the kernel walks only the populated page tables, so reserved
//! address space costs nothing, however large it is. On other kernels, eight bytes of pagemap are
//! read for each page of address space, touched or not. So if a process has much address space,
//! `smaps` is read first for the resident size of each mapping: a mapping without resident pages is
//! skipped, and the search of a mapping ends when all its pages are found. At most [`MOST_PLAIN`]
//! pages are searched; if that limit is reached, a problem is reported. pagemap does not show which
//! pages are part of a huge page; root reads that from `/proc/kpageflags`, once for each huge page.
//!
//! All of these take the process's mmap lock for reading, for short times; [`crate::gather`]
//! handles processes whose lock is held for long.
//!
//! On kernels that have guard pages but do not report them (6.13, 6.14), guard pages look like
//! swapped pages.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use pagewise_procmem::backing::{Backing, Mapping};
use pagewise_procmem::frames::{Frames, Huge};
use pagewise_procmem::pagemap::{Entry, Pagemap};
use pagewise_procmem::scan::{Region, Search, category};
use pagewise_procmem::smaps;

use crate::PageKind;

use crate::spans::Run;

/// Number of regions per call of PAGEMAP_SCAN: the kernel collects as many before it copies them to
/// user space.
const REGIONS: usize = 512;
/// Maximum number of pages per call, after which the kernel releases the mmap lock: well under a
/// millisecond at 75 ns per page.
const MOST_AT_ONCE: u64 = 1 << 13;
/// Number of pagemap entries that are read at once.
const ENTRIES: usize = 1 << 14;
/// Without PAGEMAP_SCAN, this many pages of address space are searched before smaps is read.
const FEW_PLAIN: u64 = 1 << 20;
/// Without PAGEMAP_SCAN, at most this many pages of address space are searched: 256 GiB of small
/// pages.
const MOST_PLAIN: u64 = 1 << 26;
/// Maximum length of a line of `maps`: a path has at most 4096 bytes.
const MOST_LINE: u64 = 1 << 14;

/// A run of consecutive pages, and the file that it maps if it maps one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundRun {
    pub(crate) run: Run,
    /// Device, inode and page in the file, for shmem and file pages.
    pub(crate) of_file: Option<FilePage>,
}

/// A page of a file, by the file and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePage {
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) page: u64,
}

/// Counts of what a search of one process found or left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SearchCounts {
    pub(crate) swapped: u64,
    pub(crate) zero_page: u64,
    /// Number of pages of address space that were not searched, because the limit was reached.
    pub(crate) not_searched: u64,
    /// Number of lines of `maps` that could not be parsed.
    pub(crate) garbled: u64,
    /// Number of calls or reads, on which the time of the search depends.
    pub(crate) asked: u64,
}

/// Receives the runs that a search finds; ends the search by returning `false`.
pub(crate) trait RunSink {
    fn runs(&mut self, runs: &mut Vec<FoundRun>) -> bool;
}

/// How pages are found on this kernel, determined by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Calls PAGEMAP_SCAN of a kernel that also reports guard pages.
    ScanWithGuards,
    /// Calls PAGEMAP_SCAN of an older kernel, which does not report guard pages.
    Scan,
    /// Reads `/proc/PID/pagemap`, for kernels without PAGEMAP_SCAN.
    Plain,
}

/// What the search of every process needs: the method, and facts about the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Finder {
    pub(crate) method: Method,
    pub(crate) page_size: u64,
    pub(crate) file_backed: bool,
    /// Frame of the kernel's zero page, if frame numbers are available.
    pub(crate) zero_frame: Option<u64>,
    /// Page flags of the kernel, which show huge pages if PAGEMAP_SCAN is missing.
    pub(crate) kernel: Arc<Frames>,
}

/// The search of one process.
pub(crate) struct ProcessSearch<'a, T> {
    finder: &'a mut Finder,
    pid: u32,
    pagemap: &'a Pagemap,
    take: &'a mut T,
    runs: Vec<FoundRun>,
    counted: SearchCounts,
    plain: PagemapSearch,
}

/// State of a search without PAGEMAP_SCAN.
#[derive(Debug, Default)]
struct PagemapSearch {
    searched: u64,
    resident: Option<smaps::Resident>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

/// The mapping that is being searched, and what backs its pages.
#[derive(Debug, Clone, Copy)]
struct SearchPlace {
    mapping: Mapping,
    backing: Backing,
    /// Whether no run of this mapping was found yet.
    untouched: bool,
}

/// Why a search ended early.
#[derive(Debug)]
pub(crate) enum SearchEnd {
    /// The receiver of the runs wants no more.
    NotWanted,
    /// The kernel refused a call, with this error.
    Refused(io::Error),
}

impl From<io::Error> for SearchEnd {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

impl<'a, T: RunSink> ProcessSearch<'a, T> {
    pub(crate) fn new(
        finder: &'a mut Finder,
        pid: u32,
        pagemap: &'a Pagemap,
        take: &'a mut T,
    ) -> Self {
        let (runs, counted) = (Vec::with_capacity(REGIONS), SearchCounts::default());
        Self { finder, pid, pagemap, take, runs, counted, plain: PagemapSearch::default() }
    }

    /// Searches every mapping that `backing` classifies as memory.
    pub(crate) fn search(
        mut self,
        maps: File,
        mut backing: impl FnMut(&Mapping) -> Backing,
    ) -> Result<SearchCounts, SearchEnd> {
        let mut maps = BufReader::with_capacity(1 << 16, maps);
        let mut line = Vec::new();
        loop {
            line.clear();
            if maps.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            match Mapping::parse(line.trim_ascii_end()) {
                Some(mapping) => self.search_mapping(mapping, backing(&mapping))?,
                None => self.counted.garbled += 1,
            }
        }
        self.flush()?;
        Ok(self.counted)
    }

    fn search_mapping(&mut self, mapping: Mapping, backing: Backing) -> Result<(), SearchEnd> {
        if backing == Backing::Other {
            return Ok(());
        }
        let mut place = SearchPlace { mapping, backing, untouched: true };
        while self.finder.method != Method::Plain {
            match self.scan(&mut place) {
                Err(SearchEnd::Refused(error)) if self.can_fall_back(&error) => (),
                // the kernel refuses to scan a mapping that was removed in the meantime: it has no
                // pages
                Err(SearchEnd::Refused(_)) => return Ok(()),
                other => return other,
            }
        }
        self.search_pagemap(&mut place)
    }

    /// If the error shows that this kernel lacks the method, switches to a method that more kernels
    /// support. Returns whether it switched.
    fn can_fall_back(&mut self, error: &io::Error) -> bool {
        let lesser = match (self.finder.method, error.raw_os_error()) {
            (Method::ScanWithGuards, Some(libc::EINVAL)) => Method::Scan,
            (_, Some(libc::ENOTTY | libc::EINVAL | libc::ENOSYS)) => Method::Plain,
            _ => return false,
        };
        self.finder.method = lesser;
        true
    }

    fn scan(&mut self, place: &mut SearchPlace) -> Result<(), SearchEnd> {
        let mut regions = [Region::default(); REGIONS];
        let guards = if self.finder.method == Method::ScanWithGuards { category::GUARD } else { 0 };
        let known = category::FILE | category::ZERO_PAGE | category::HUGE | guards;
        let any_of = category::PRESENT | category::SWAPPED;
        let (mut start, end) = (place.mapping.start, place.mapping.end);
        while start < end {
            let search = Search { start, end, any_of, tell: any_of | known, most: MOST_AT_ONCE };
            self.counted.asked += 1;
            let (found, stopped) = self.pagemap.scan(search, &mut regions)?;
            let found = regions.get(..found).unwrap_or_default();
            for region in found {
                self.add_region(region, place)?;
            }
            // if the kernel reaches the end in its second pass, it still reports the place where
            // the first pass stopped; without this correction, the pages from there on would be
            // found twice
            let stopped = found.last().map_or(stopped, |last| stopped.max(last.end));
            // without progress this loop would never end
            if stopped <= start {
                break;
            }
            start = stopped;
        }
        Ok(())
    }

    fn add_region(&mut self, region: &Region, place: &mut SearchPlace) -> Result<(), SearchEnd> {
        let has = |category| region.categories & category != 0;
        let first = region.start / self.finder.page_size;
        let length = region.end.saturating_sub(region.start) / self.finder.page_size;
        if has(category::GUARD) {
            return Ok(());
        }
        if has(category::ZERO_PAGE) {
            self.counted.zero_page += length;
        } else if has(category::PRESENT) {
            let kind = self.page_kind(place.backing, has(category::FILE));
            self.add(place, first, length, kind, Some(has(category::HUGE)))?;
        } else {
            self.counted.swapped += length;
        }
        Ok(())
    }

    /// The kind of a page; `None` if pages of this kind are not sampled.
    fn page_kind(&self, backing: Backing, of_file: bool) -> Option<PageKind> {
        match (backing, of_file) {
            (Backing::Other, _) => None,
            (Backing::Anonymous, _) | (_, false) => Some(PageKind::Anonymous),
            (Backing::Shmem, true) => Some(PageKind::Shmem),
            (Backing::File, true) => self.finder.file_backed.then_some(PageKind::File),
        }
    }

    fn add(
        &mut self,
        place: &mut SearchPlace,
        first: u64,
        length: u64,
        kind: Option<PageKind>,
        huge: Option<bool>,
    ) -> Result<(), SearchEnd> {
        let Some(kind) = kind else { return Ok(()) };
        let run = Run { first, length, kind, huge, apart: place.untouched };
        place.untouched = false;
        let Mapping { device, inode, .. } = place.mapping;
        let address = first.saturating_mul(self.finder.page_size);
        let page = place.mapping.page_of_file(address, self.finder.page_size);
        let of_file = (kind != PageKind::Anonymous).then_some(FilePage { device, inode, page });
        self.runs.push(FoundRun { run, of_file });
        if self.runs.len() >= REGIONS { self.flush() } else { Ok(()) }
    }

    /// Passes on the runs that were found so far. Each call also shows the receiver that this
    /// thread is not stuck.
    fn flush(&mut self) -> Result<(), SearchEnd> {
        let requested = self.take.runs(&mut self.runs);
        self.runs.clear();
        if requested { Ok(()) } else { Err(SearchEnd::NotWanted) }
    }

    /// Searches a mapping by reading pagemap, for kernels without PAGEMAP_SCAN.
    fn search_pagemap(&mut self, place: &mut SearchPlace) -> Result<(), SearchEnd> {
        let (first, end) = (
            place.mapping.start / self.finder.page_size,
            place.mapping.end / self.finder.page_size,
        );
        let length = end.saturating_sub(first);
        let resident = self.read_resident(place.mapping.start, length);
        if resident == Some(0) {
            return Ok(());
        }
        self.plain.searched = self.plain.searched.saturating_add(length);
        if self.plain.searched > MOST_PLAIN {
            self.counted.not_searched = self.counted.not_searched.saturating_add(length);
            return Ok(());
        }
        let (mut at, mut open) = (first, resident.unwrap_or(u64::MAX));
        while at < end && open > 0 {
            // reads are aligned, so that no huge page is split between two reads
            let whole = ENTRIES as u64 - at % self.finder.pages_of_huge();
            let most = usize::try_from(whole.min(end - at)).unwrap_or(ENTRIES);
            let mut entries = std::mem::take(&mut self.plain.entries);
            entries.clear();
            let read = self.pagemap.read(at, most, &mut entries, &mut self.plain.bytes);
            self.counted.asked += 1;
            let done = self.add_entries(place, at, &entries);
            open = open.saturating_sub(count_certain(&entries));
            self.plain.entries = entries;
            done?;
            match read? {
                0 => break,
                read => at += read as u64,
            }
        }
        Ok(())
    }

    /// Number of pages of a mapping that are resident or in swap, from smaps; `None` if too little
    /// was searched so far to make reading smaps worthwhile.
    fn read_resident(&mut self, start: u64, length: u64) -> Option<u64> {
        if self.plain.searched.saturating_add(length) <= FEW_PLAIN {
            return None;
        }
        let (pid, page_size) = (self.pid, self.finder.page_size);
        let known = self.plain.resident.get_or_insert_with(|| smaps::read_resident(pid, page_size));
        known.get(&start).copied()
    }

    fn add_entries(
        &mut self,
        place: &mut SearchPlace,
        first: u64,
        entries: &[Entry],
    ) -> Result<(), SearchEnd> {
        let (mut at, zero) = (first, self.finder.zero_frame);
        for alike in entries.chunk_by(|a, b| sort_of_entry(*a, zero) == sort_of_entry(*b, zero)) {
            let length = alike.len() as u64;
            match alike.first().map(|entry| sort_of_entry(*entry, zero)) {
                Some(Sort::Present { of_file }) => {
                    let kind = self.page_kind(place.backing, of_file);
                    self.add_present(place, at, alike, kind)?;
                }
                Some(Sort::Swapped) => self.counted.swapped += length,
                Some(Sort::Zero) => self.counted.zero_page += length,
                Some(Sort::Nothing) | None => (),
            }
            at += length;
        }
        self.flush()
    }

    /// Adds consecutive present pages, in aligned parts, so that each huge page lies within one
    /// part.
    fn add_present(
        &mut self,
        place: &mut SearchPlace,
        first: u64,
        entries: &[Entry],
        kind: Option<PageKind>,
    ) -> Result<(), SearchEnd> {
        if kind.is_none() {
            return Ok(());
        }
        let (mut at, mut rest, block) = (first, entries, self.finder.pages_of_huge());
        while !rest.is_empty() {
            let most = usize::try_from(block - at % block).unwrap_or(usize::MAX);
            let (part, after) = rest.split_at(most.min(rest.len()));
            let length = part.len() as u64;
            match self.finder.mapping_kind(part) {
                MappedAs::HugeZero => self.counted.zero_page += length,
                MappedAs::Huge => self.add(place, at, length, kind, Some(true))?,
                MappedAs::Small => self.add(place, at, length, kind, Some(false))?,
                MappedAs::Untold => self.add(place, at, length, kind, None)?,
            }
            (at, rest) = (at + length, after);
        }
        Ok(())
    }
}

/// How an aligned range of pages is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MappedAs {
    Huge,
    /// A part of the kernel's huge zero page.
    HugeZero,
    Small,
    /// It is unknown whether the range is a huge page, because frame numbers or page flags are not
    /// available.
    Untold,
}

impl Finder {
    /// Number of small pages per huge page: the number of eight-byte entries in a page table.
    fn pages_of_huge(&self) -> u64 {
        (self.page_size / 8).max(1)
    }

    /// How an aligned range of pages is mapped. Only if all its pages are present, in consecutive
    /// frames of one aligned range, it can be a huge page; only then the kernel's page flags are
    /// read.
    fn mapping_kind(&self, part: &[Entry]) -> MappedAs {
        let block = self.pages_of_huge();
        let Some(head) = part.first().and_then(|entry| entry.frame()) else {
            return MappedAs::Untold;
        };
        let in_order = || part.iter().zip(head..).all(|(entry, at)| entry.frame() == Some(at));
        if !self.kernel.can_read_flags() {
            MappedAs::Untold
        } else if part.len() as u64 != block || head % block != 0 || !in_order() {
            MappedAs::Small
        } else {
            match self.kernel.huge(head) {
                Some(Huge { of_zeros: true }) => MappedAs::HugeZero,
                Some(Huge { of_zeros: false }) => MappedAs::Huge,
                None => MappedAs::Small,
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Present { of_file: bool },
    Swapped,
    Zero,
    Nothing,
}

fn sort_of_entry(entry: Entry, zero_frame: Option<u64>) -> Sort {
    if entry.is_present() {
        match entry.frame() {
            Some(frame) if Some(frame) == zero_frame => Sort::Zero,
            _ => Sort::Present { of_file: entry.is_of_file() },
        }
    } else if entry.is_swapped() {
        Sort::Swapped
    } else {
        Sort::Nothing
    }
}

/// Number of pages in these pagemap entries, resident or in swap, that smaps surely counts, too.
/// The zero page is not one of them; it is never marked as exclusive.
fn count_certain(entries: &[Entry]) -> u64 {
    let counts = |entry: &&Entry| {
        entry.is_swapped() || (entry.is_present() && (entry.is_exclusive() || entry.is_of_file()))
    };
    entries.iter().filter(counts).count() as u64
}
