// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of one pool: huge pages divided into slabs, and large blocks of whole huge pages.
//!
//! A new block comes from the oldest huge page with room, so that younger ones become empty. A huge
//! page without a block in use is returned to the kernel as a whole, except for what the pool
//! retains. A part of a huge page is never returned: that would split it into small pages.
//!
//! Memory for the arena's own records is reserved before anything is changed. If the kernel or the
//! allocator refuses memory, the arena stays as it was.

use std::ptr::NonNull;

use crate::Error;
use crate::bits::BitSet;
use crate::chunk::{Chunk, SPANS};
use crate::coverage::scan::Scanner;
use crate::index::{self, Owner};
use crate::machine::Switch;
use crate::options::Fork;
use crate::size_class::{COUNT, SizeClass};
use crate::sys::{Advice, Mapping};

/// How the kernel backed a mapping when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// The mapping is a huge page.
    Huge,
    /// The mapping has small pages, because huge pages are switched off or the kernel provided
    /// none.
    Small,
    /// Huge pages were requested with madvise(), and whether the kernel provided them was not
    /// checked; `Pool::coverage` reads that.
    Unchecked,
}

/// The options of a pool that its arena needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) switch: Switch,
    pub(crate) fork: Fork,
    /// Maximum number of bytes that the pool may map.
    pub(crate) limit: usize,
    /// Bytes of empty huge pages that the pool keeps mapped.
    pub(crate) retain: usize,
}

#[derive(Debug)]
struct Entry {
    mapping: Mapping,
    backing: Backing,
    /// How the huge page is divided into blocks; `None` if the mapping is a single block.
    chunk: Option<Chunk>,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.chunk.as_ref().is_some_and(Chunk::is_empty)
    }
}

/// Counters of the arena of one pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) mapped: usize,
    /// Bytes of empty huge pages, included in `mapped`.
    pub(crate) retained: usize,
    /// Mapped bytes in huge pages; `small` and `unchecked` count the bytes with the other backings.
    pub(crate) huge: usize,
    pub(crate) small: usize,
    pub(crate) unchecked: usize,
    /// Number of times that the kernel refused memory.
    pub(crate) out_of_memory: u64,
    /// Number of addresses that were released although no block was in use there; they are found
    /// when a thread's cache is returned to the pool.
    pub(crate) wrong_releases: u64,
    /// The last error number with which the kernel refused a huge page; 0 if it never did.
    pub(crate) huge_errno: i32,
}

impl Counts {
    fn bytes_of(&mut self, backing: Backing) -> &mut usize {
        match backing {
            Backing::Huge => &mut self.huge,
            Backing::Small => &mut self.small,
            Backing::Unchecked => &mut self.unchecked,
        }
    }
}

/// The memory of one pool: huge pages divided into slabs, and large blocks.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The number of the pool that the arena belongs to.
    pool: u32,
    chunk: usize,
    policy: Policy,
    entries: Vec<Option<Entry>>,
    /// Indices of `entries` that are `None`, for reuse. The capacity always suffices for the
    /// indices of all entries, so that an entry can be removed without allocating memory.
    vacant: Vec<u32>,
    /// For each size class, the chunks that have a free block of it.
    partial: Vec<BitSet>,
    /// Indices in `entries` of the chunks that have a free span.
    open: BitSet,
    /// The address next to the last mapping, so that the kernel can merge the next mapping with it.
    hint: usize,
    pub(crate) counts: Counts,
}

impl Arena {
    pub(crate) fn new(pool: u32, chunk: usize, policy: Policy) -> Result<Self, Error> {
        let mut partial = Vec::new();
        partial.try_reserve_exact(COUNT).map_err(|_| Error::RECORDS)?;
        partial.resize_with(COUNT, BitSet::default);
        Ok(Self {
            pool,
            chunk,
            policy,
            entries: Vec::new(),
            vacant: Vec::new(),
            partial,
            open: BitSet::default(),
            hint: 0,
            counts: Counts::default(),
        })
    }

    /// Takes at least one and up to `most` blocks of a size class.
    pub(crate) fn take(
        &mut self,
        class: SizeClass,
        most: usize,
        mut give: impl FnMut(NonNull<u8>),
    ) -> Result<usize, Error> {
        let mut taken = 0;
        while taken < most {
            if let Some(id) = self.partial[class.index()].smallest() {
                taken += self.take_from(id, class, most - taken, &mut give);
            } else if taken == 0 {
                self.add_slab(class)?;
            } else {
                break;
            }
        }
        Ok(taken)
    }

    fn take_from(
        &mut self,
        id: usize,
        class: SizeClass,
        most: usize,
        give: &mut impl FnMut(NonNull<u8>),
    ) -> usize {
        let Some((mapping, chunk)) = self.chunk_mut(id) else { return 0 };
        let taken = chunk.take(class, most, &mut |offset| give(mapping.pointer_at(offset)));
        if !chunk.has_free(class) {
            self.partial[class.index()].remove(id);
        }
        taken
    }

    fn add_slab(&mut self, class: SizeClass) -> Result<(), Error> {
        let (id, first) = self.find_spans(class.slab_spans(self.chunk / SPANS))?;
        let was_empty = self.is_empty(id);
        let Some((mapping, chunk)) = self.chunk_mut(id) else { return Err(Error::RECORDS) };
        let spans = chunk.add_slab(first, class)?;
        index::store_class(mapping.address(), mapping.bytes(), (first, spans), Some(class));
        self.partial[class.index()].insert(id);
        self.note_taken_spans(id, was_empty);
        Ok(())
    }

    /// Takes one block that is larger than any size class and at most as large as a huge page.
    pub(crate) fn take_run(&mut self, size: usize) -> Result<(NonNull<u8>, usize), Error> {
        let span = self.chunk / SPANS;
        let spans = size.div_ceil(span);
        let (id, first) = self.find_spans(spans)?;
        let was_empty = self.is_empty(id);
        let Some((mapping, chunk)) = self.chunk_mut(id) else { return Err(Error::RECORDS) };
        let block = mapping.pointer_at(chunk.add_run(first, spans));
        self.note_taken_spans(id, was_empty);
        Ok((block, spans * span))
    }

    /// Takes a block of whole huge pages; returns its address and its size in bytes.
    pub(crate) fn take_large(&mut self, size: usize) -> Result<(NonNull<u8>, usize), Error> {
        let bytes = size.checked_next_multiple_of(self.chunk).ok_or(Error::TooLarge)?;
        let (mapping, backing) = self.map(bytes)?;
        let base = mapping.base();
        self.add_entry(Entry { mapping, backing, chunk: None });
        Ok((base, bytes))
    }

    /// Finds a chunk with `spans` consecutive free spans, for a slab or a run; maps a new chunk if
    /// there is none. Returns the index of the chunk in `entries` and the number of the first of
    /// the spans.
    fn find_spans(&mut self, spans: usize) -> Result<(usize, usize), Error> {
        let chunk = |id: usize| self.entries[id].as_ref()?.chunk.as_ref();
        let found = self.open.iter().find_map(|id| Some((id, chunk(id)?.find_spans(spans)?)));
        if let Some(found) = found {
            return Ok(found);
        }
        let (mapping, backing) = self.map(self.chunk)?;
        self.counts.retained += self.chunk;
        let id = self.add_entry(Entry { mapping, backing, chunk: Some(Chunk::new(self.chunk)) });
        self.open.insert(id);
        Ok((id, 0))
    }

    fn chunk_mut(&mut self, id: usize) -> Option<(&Mapping, &mut Chunk)> {
        let entry = self.entries[id].as_mut()?;
        Some((&entry.mapping, entry.chunk.as_mut()?))
    }

    fn is_empty(&self, id: usize) -> bool {
        self.entries[id].as_ref().is_some_and(Entry::is_empty)
    }

    /// Updates the records after spans of a chunk were taken.
    fn note_taken_spans(&mut self, id: usize, was_empty: bool) {
        if was_empty {
            self.counts.retained -= self.chunk;
        }
        if self.chunk_mut(id).is_some_and(|(_, chunk)| chunk.is_full()) {
            self.open.remove(id);
        }
    }

    /// Maps this number of bytes within the pool's limit, after reserving all records that the
    /// entry needs.
    fn map(&mut self, bytes: usize) -> Result<(Mapping, Backing), Error> {
        let limit = self.policy.limit;
        self.counts
            .mapped
            .checked_add(bytes)
            .filter(|all| *all <= limit)
            .ok_or(Error::Limit { limit })?;
        self.reserve()?;
        let mapped = Mapping::new(bytes, self.chunk, self.hint);
        let mapping = mapped.map_err(|error| self.count_refusal(&error))?;
        let backing = self.request_huge_pages(&mapping)?;
        let owner = Owner { pool: self.pool, entry: self.next_entry()? };
        if !index::insert(mapping.address(), bytes, owner) {
            index::remove(mapping.address(), bytes);
            return Err(Error::RECORDS);
        }
        self.hint = mapping.address().saturating_sub(self.chunk);
        Ok((mapping, backing))
    }

    fn count_refusal(&mut self, error: &std::io::Error) -> Error {
        self.counts.out_of_memory += 1;
        match error.raw_os_error() {
            Some(libc::EOVERFLOW) => Error::TooLarge,
            errno => Error::OutOfMemory { errno: errno.unwrap_or(libc::ENOMEM) },
        }
    }

    fn reserve(&mut self) -> Result<(), Error> {
        let next = self.entries.len() + 1;
        self.entries.try_reserve(1).map_err(|_| Error::RECORDS)?;
        let more = next - self.vacant.len().min(next);
        self.vacant.try_reserve(more).map_err(|_| Error::RECORDS)?;
        self.open.reserve(next)?;
        self.partial.iter_mut().try_for_each(|set| set.reserve(next))
    }

    fn next_entry(&self) -> Result<u32, Error> {
        let new = || u32::try_from(self.entries.len()).map_err(|_| Error::RECORDS);
        self.vacant.last().copied().map_or_else(new, Ok)
    }

    /// Adds an entry for newly mapped memory; returns the number of the entry.
    fn add_entry(&mut self, entry: Entry) -> usize {
        let bytes = entry.mapping.bytes();
        self.counts.mapped += bytes;
        *self.counts.bytes_of(entry.backing) += bytes;
        match self.vacant.pop() {
            Some(id) => {
                let id = id as usize;
                self.entries[id] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    /// Requests huge pages for a new mapping, or small pages only, according to the pool's
    /// [`Switch`].
    fn request_huge_pages(&mut self, mapping: &Mapping) -> Result<Backing, Error> {
        if self.policy.fork == Fork::Exclude {
            mapping.advise(Advice::Exclude).map_err(|error| self.count_refusal(&error))?;
        }
        match self.policy.switch {
            Switch::Off => {
                // A kernel that refuses MADV_NOHUGEPAGE has no huge pages anyway.
                let _ = mapping.advise(Advice::Small);
                Ok(Backing::Small)
            }
            Switch::Advised => Ok(self.advise(mapping)),
            Switch::On if mapping.bytes() > self.chunk => Ok(self.advise(mapping)),
            Switch::On => self.populate(mapping),
        }
    }

    fn advise(&mut self, mapping: &Mapping) -> Backing {
        match mapping.advise(Advice::Huge) {
            Ok(()) => Backing::Unchecked,
            Err(error) => self.count_huge_refusal(&error),
        }
    }

    fn count_huge_refusal(&mut self, error: &std::io::Error) -> Backing {
        self.counts.huge_errno = error.raw_os_error().unwrap_or(libc::EIO);
        Backing::Small
    }

    /// Populates a mapping with the size of a huge page, and checks whether it is a huge page; if
    /// not, collapses it.
    fn populate(&mut self, mapping: &Mapping) -> Result<Backing, Error> {
        let advised = self.advise(mapping);
        match mapping.advise(Advice::Populate) {
            Ok(()) => {}
            // Linux before 5.14 has no MADV_POPULATE_WRITE; there the first page fault decides
            // whether the mapping becomes huge.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(advised),
            Err(error) => return Err(self.count_refusal(&error)),
        }
        if Scanner::open().and_then(|scanner| scanner.is_huge(mapping)).unwrap_or(false) {
            return Ok(Backing::Huge);
        }
        match mapping.advise(Advice::Collapse) {
            Ok(()) => Ok(Backing::Huge),
            Err(error) => Ok(self.count_huge_refusal(&error)),
        }
    }

    /// The size in bytes of the block at an address.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::WrongBlock`], and [`Error::DoubleRelease`] if the block does
    /// not exist any more.
    pub(crate) fn size_at(&self, address: usize) -> Result<usize, Error> {
        let entry = self.entries[self.entry(address)?].as_ref().ok_or(Error::Foreign)?;
        let offset = address - entry.mapping.address();
        let size = match &entry.chunk {
            Some(chunk) => chunk.size_at(offset),
            None => Some(entry.mapping.bytes()).filter(|_| offset == 0),
        };
        size.ok_or(Error::WrongBlock)
    }

    /// Releases a block; returns its size in bytes.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::WrongBlock`], [`Error::DoubleRelease`]. In these cases nothing
    /// was changed.
    pub(crate) fn put(&mut self, address: usize) -> Result<usize, Error> {
        let id = self.entry(address)?;
        let entry = self.entries[id].as_mut().ok_or(Error::Foreign)?;
        let offset = address - entry.mapping.address();
        let Some(chunk) = &mut entry.chunk else { return self.put_large(id, offset) };
        let put = chunk.put(offset)?;
        if let Some(class) = put.class {
            // Another slab of the class in this chunk is searched for only if this slab became free
            // spans.
            if put.freed.is_none() || chunk.has_free(class) {
                self.partial[class.index()].insert(id);
            } else {
                self.partial[class.index()].remove(id);
            }
        }
        if let Some(freed) = put.freed {
            index::store_class(entry.mapping.address(), entry.mapping.bytes(), freed, None);
            self.open.insert(id);
            self.retain_or_unmap(id);
        }
        Ok(put.size)
    }

    fn put_large(&mut self, id: usize, offset: usize) -> Result<usize, Error> {
        if offset != 0 {
            return Err(Error::WrongBlock);
        }
        Ok(self.unmap(id))
    }

    /// Finds the number of the entry whose memory contains an address.
    fn entry(&self, address: usize) -> Result<usize, Error> {
        let owner = index::find_owner(address).filter(|owner| owner.pool == self.pool);
        Ok(owner.ok_or(Error::Foreign)?.entry as usize)
    }

    /// If a chunk has become empty, keeps it mapped if the pool may retain that much, and otherwise
    /// returns it to the kernel.
    fn retain_or_unmap(&mut self, id: usize) {
        if !self.is_empty(id) {
            return;
        }
        self.counts.retained += self.chunk;
        if self.counts.retained > self.policy.retain {
            self.unmap(id);
        }
    }

    /// Unmaps the memory of an entry, which returns it to the kernel; returns its size in bytes.
    fn unmap(&mut self, id: usize) -> usize {
        let Some(entry) = self.entries[id].take() else { return 0 };
        let (address, bytes) = (entry.mapping.address(), entry.mapping.bytes());
        if entry.chunk.is_some() {
            self.counts.retained -= bytes;
            self.open.remove(id);
        }
        index::remove(address, bytes);
        self.counts.mapped -= bytes;
        *self.counts.bytes_of(entry.backing) -= bytes;
        self.hint = address;
        if let Ok(id) = u32::try_from(id) {
            self.vacant.push(id);
        }
        bytes
    }

    /// Returns all empty huge pages to the kernel; the result is their size in bytes.
    pub(crate) fn trim(&mut self) -> usize {
        let before = self.counts.mapped;
        for id in 0..self.entries.len() {
            if self.is_empty(id) {
                self.unmap(id);
            }
        }
        before - self.counts.mapped
    }

    /// Returns all memory to the kernel, including blocks in use.
    pub(crate) fn clear(&mut self) {
        for id in 0..self.entries.len() {
            if let Some(entry) = self.entries[id].take() {
                index::remove(entry.mapping.address(), entry.mapping.bytes());
            }
        }
        self.forget();
    }

    /// Drops all records of the arena without unmapping anything: for a child process that does not
    /// have the memory.
    pub(crate) fn forget(&mut self) {
        for entry in self.entries.drain(..).flatten() {
            entry.mapping.forget();
        }
        self.vacant.clear();
        self.open = BitSet::default();
        self.partial.iter_mut().for_each(|set| *set = BitSet::default());
        self.counts = Counts::default();
    }

    /// First address and length in bytes of each mapping of the pool.
    pub(crate) fn ranges(&self) -> Result<Vec<(u64, u64)>, Error> {
        let mut ranges = Vec::new();
        ranges.try_reserve(self.entries.len()).map_err(|_| Error::RECORDS)?;
        let mappings = self.entries.iter().flatten().map(|entry| &entry.mapping);
        ranges.extend(mappings.map(|mapping| (mapping.address() as u64, mapping.bytes() as u64)));
        Ok(ranges)
    }

    /// Asks the kernel to collapse all memory of the pool into huge pages. Returns the number of
    /// bytes that the kernel did not collapse.
    pub(crate) fn collapse(&mut self) -> usize {
        let mut refused = 0;
        for entry in self.entries.iter_mut().flatten() {
            let bytes = entry.mapping.bytes();
            let new = match entry.mapping.advise(Advice::Collapse) {
                Ok(()) => Backing::Huge,
                Err(error) => {
                    refused += bytes;
                    self.counts.huge_errno = error.raw_os_error().unwrap_or(libc::EIO);
                    // After a refusal, a part of a large block may still be in huge pages.
                    if entry.chunk.is_some() { Backing::Small } else { Backing::Unchecked }
                }
            };
            *self.counts.bytes_of(entry.backing) -= bytes;
            *self.counts.bytes_of(new) += bytes;
            entry.backing = new;
        }
        refused
    }
}
