// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds [`Block`]s in runs of pages: the parts of address space that a huge page could back.
//!
//! Only blocks that are entirely in one private anonymous mapping are considered. If a program has
//! split a mapping in two (with mprotect or madvise), there are blocks on each side of the split,
//! but none across it.

use std::io;

use pagewise_model::{Blocks, Bytes, Coverage, MappingKind};

use super::memory::{LookError, Memory, error_for};
use super::walk::{PageState, Run};
use crate::maps::Mapping;

/// An aligned part of address space of the size of a huge page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    /// Address of the first byte of the block.
    pub address: u64,
    /// Number of pages of the block in RAM, without the zero page.
    pub present: u32,
    /// Number of pages of the block that are mapped to the zero page.
    pub zero: u32,
    /// Number of pages of the block in swap.
    pub swapped: u32,
    /// Whether the block is mapped as one huge page. If the kernel has no PAGEMAP_SCAN, this is not
    /// known and always false.
    pub huge: bool,
}

impl Block {
    /// Number of pages that a collapse of this block would have to allocate.
    pub fn missing(&self, pages: u32) -> u32 {
        pages.saturating_sub(self.present)
    }
}

/// How many pages of a block are mapped by this process only, and the state of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exclusive {
    /// Number of pages of the block in RAM.
    pub present: u32,
    /// Number of these pages that no other process maps.
    pub exclusive: u32,
    /// Number of pages of the block in swap.
    pub swapped: u32,
    /// Number of pages of the block that belong to files or shmem. If there are any, something else
    /// was mapped at these addresses since the block was found.
    pub of_file: u32,
}

/// The huge pages of one mapping, and its blocks.
#[derive(Debug, Default)]
pub(super) struct MappingSums {
    pub(super) coverage: Coverage,
    pub(super) blocks: Vec<Block>,
}

impl Memory {
    /// Returns all blocks of private anonymous memory that have at least one page, by address, and
    /// the sums over all memory.
    ///
    /// # Errors
    /// If the process has exited, or if we may not examine it.
    pub fn blocks(&self) -> Result<(Vec<Block>, Coverage), LookError> {
        let scans = self.can_scan();
        let mappings = self.mappings(!scans)?;
        let (mut blocks, mut coverage) = (Vec::new(), Coverage::default());
        self.for_each_mapping(&mappings, scans, |_, summed| {
            blocks.append(&mut summed.blocks);
            coverage = coverage.plus(summed.coverage);
        })?;
        Ok((blocks, coverage))
    }

    /// Checks whether the pages of a block are still mapped by this process only.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn exclusive(&self, address: u64) -> Result<Exclusive, LookError> {
        let most = usize::try_from(self.block / self.page).unwrap_or(usize::MAX);
        let mut entries = Vec::with_capacity(most);
        let read = self.entries(address, most, &mut entries);
        match read.map_err(|error| error_for(self.pid, "pagemap", error))? {
            read if read < most => return Err(LookError::Gone(self.pid)),
            _ => (),
        }
        let mut found = Exclusive::default();
        for entry in entries {
            found.present += u32::from(entry.is_present());
            found.exclusive += u32::from(entry.is_present() && entry.is_exclusive());
            found.swapped += u32::from(entry.is_swapped());
            found.of_file += u32::from(entry.is_present() && entry.is_of_file());
        }
        Ok(found)
    }

    /// Returns the current state of the block at this address.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn block_at(&self, address: u64, scans: bool) -> Result<Block, LookError> {
        let mut filler = Filler::new(self, [address, address.saturating_add(self.block)]);
        let range = filler.range;
        let walked = if scans {
            self.scan(range, MappingKind::Anonymous, |run| filler.run(run))
        } else {
            self.read(range, |run| filler.run(run))
        };
        walked.map_err(|error| error_for(self.pid, "pagemap", error))?;
        let empty = Block { address, ..Block::default() };
        Ok(filler.summed.blocks.first().copied().unwrap_or(empty))
    }

    /// Calls a function with each mapping and the sums over its pages.
    pub(super) fn for_each_mapping<'a>(
        &self,
        mappings: &'a [Mapping],
        scans: bool,
        mut see: impl FnMut(&'a Mapping, &mut MappingSums),
    ) -> Result<(), LookError> {
        let walked = if scans {
            self.scan_each_mapping(mappings, &mut see)
        } else {
            self.read_each_mapping(mappings, &mut see)
        };
        walked.map_err(|error| error_for(self.pid, "pagemap", error))
    }

    /// Scans the page tables of adjacent mappings of the same kind in one call.
    fn scan_each_mapping<'a>(
        &self,
        mappings: &'a [Mapping],
        see: &mut impl FnMut(&'a Mapping, &mut MappingSums),
    ) -> io::Result<()> {
        let user = mappings.iter().take_while(|mapping| mapping.end < 1 << 63).count();
        let mappings = mappings.get(..user).unwrap_or_default();
        let mut groups = mappings.chunk_by(|a, b| a.kind == b.kind);
        groups.try_for_each(|group| self.group(group, see))
    }

    /// Assigns runs of pages to the mappings that contain them; both are in order of address.
    fn group<'a>(
        &self,
        mappings: &'a [Mapping],
        see: &mut impl FnMut(&'a Mapping, &mut MappingSums),
    ) -> io::Result<()> {
        let (Some(first), Some(last)) = (mappings.first(), mappings.last()) else { return Ok(()) };
        let range = [first.start, last.end];
        let mut rest = mappings.iter();
        let mut open = rest.next().map(|mapping| (mapping, Filler::for_mapping(self, mapping)));
        self.scan(range, first.kind, |run| {
            let mut run = run;
            while let Some((mapping, filler)) = &mut open {
                if run.start < mapping.end {
                    // the run may continue in the next mapping
                    filler.run(Run { end: run.end.min(mapping.end), ..run });
                    run.start = run.end.min(mapping.end);
                    if run.start >= run.end {
                        return;
                    }
                }
                see(mapping, &mut filler.summed);
                open = rest.next().map(|mapping| (mapping, Filler::for_mapping(self, mapping)));
            }
        })?;
        while let Some((mapping, mut filler)) = open {
            see(mapping, &mut filler.summed);
            open = rest.next().map(|mapping| (mapping, Filler::for_mapping(self, mapping)));
        }
        Ok(())
    }

    /// Calls a function with each mapping and its sums, which are read from pagemap. Only mappings
    /// that contain memory according to smaps are read.
    fn read_each_mapping<'a>(
        &self,
        mappings: &'a [Mapping],
        see: &mut impl FnMut(&'a Mapping, &mut MappingSums),
    ) -> io::Result<()> {
        let nothing = Bytes::new(0);
        let holds = |mapping: &&Mapping| mapping.totals.held.is_none_or(|held| held > nothing);
        for mapping in mappings.iter().filter(holds) {
            let mut filler = Filler::for_mapping(self, mapping);
            self.read([mapping.start, mapping.end], |run| filler.run(run))?;
            filler.summed.coverage.anon_huge = mapping.totals.anon_huge.unwrap_or_default();
            filler.summed.coverage.file_huge = mapping.totals.file_huge.unwrap_or_default();
            if filler.summed.coverage.anon_huge.get() >= filler.aligned_bytes()
                && filler.aligned_bytes() > 0
            {
                filler.summed.blocks.iter_mut().for_each(|block| block.huge = true);
            }
            see(mapping, &mut filler.summed);
        }
        Ok(())
    }
}

/// Adds up the runs of pages of one mapping.
struct Filler {
    range: [u64; 2],
    page: u64,
    block: u64,
    /// Whether the mapping is private anonymous memory, in which blocks are counted.
    anonymous: bool,
    summed: MappingSums,
}

impl Filler {
    fn new(memory: &Memory, range: [u64; 2]) -> Self {
        let Memory { page, block, .. } = *memory;
        Self { range, page, block, anonymous: true, summed: MappingSums::default() }
    }

    fn for_mapping(memory: &Memory, mapping: &Mapping) -> Self {
        let anonymous = mapping.kind == MappingKind::Anonymous;
        Self { anonymous, ..Self::new(memory, [mapping.start, mapping.end]) }
    }

    /// Size of the mapping's complete blocks, in bytes.
    fn aligned_bytes(&self) -> u64 {
        let first = self.range[0].next_multiple_of(self.block);
        (self.range[1] / self.block * self.block).saturating_sub(first)
    }

    fn run(&mut self, run: Run) {
        let (start, end) = (run.start.max(self.range[0]), run.end.min(self.range[1]));
        if start >= end {
            return;
        }
        self.add_size(run.what, Bytes::new(end - start));
        if self.anonymous && !matches!(run.what, PageState::File { .. }) {
            self.add_blocks(start, end, run.what);
        }
    }

    fn add_size(&mut self, what: PageState, size: Bytes) {
        let Coverage { anon, anon_huge, file, file_huge, swapped, zero } =
            &mut self.summed.coverage;
        let (whole, part) = match what {
            PageState::Anonymous { huge } => (anon, huge.then_some(anon_huge)),
            PageState::File { huge } => (file, huge.then_some(file_huge)),
            PageState::Swapped => (swapped, None),
            PageState::Zero => (zero, None),
        };
        *whole = whole.saturating_add(size);
        if let Some(part) = part {
            *part = part.saturating_add(size);
        }
    }

    fn add_blocks(&mut self, start: u64, end: u64, what: PageState) {
        let mut at = start;
        while at < end {
            let address = at / self.block * self.block;
            let next = end.min(address + self.block);
            let whole = address >= self.range[0] && address + self.block <= self.range[1];
            if whole {
                let pages = u32::try_from((next - at) / self.page).unwrap_or(u32::MAX);
                self.add(address, pages, what);
            }
            at = next;
        }
    }

    fn add(&mut self, address: u64, pages: u32, what: PageState) {
        let blocks = &mut self.summed.blocks;
        if blocks.last().is_none_or(|last| last.address != address) {
            blocks.push(Block { address, ..Block::default() });
        }
        let Some(block) = blocks.last_mut() else { return };
        match what {
            PageState::Anonymous { huge } => {
                block.present += pages;
                block.huge |= huge;
            }
            PageState::Swapped => block.swapped += pages,
            PageState::Zero => block.zero += pages,
            PageState::File { .. } => (),
        }
    }
}

/// Counts blocks by how many of their pages are present.
pub(super) fn count_blocks(blocks: &[Block], pages: u32, page: u64) -> Blocks {
    let mut counted = Blocks::default();
    for block in blocks {
        let size = Bytes::new(u64::from(block.missing(pages)) * page);
        let held = block.present;
        if block.huge {
            counted.huge += 1;
        } else if held >= pages {
            counted.full += 1;
        } else if held >= pages / 2 {
            counted.half += 1;
        } else if held >= pages / 8 {
            counted.eighth += 1;
        } else if held > 0 {
            counted.sparse += 1;
        } else {
            continue;
        }
        if !block.huge && held >= pages / 2 {
            counted.growth_of_half = counted.growth_of_half.saturating_add(size);
        }
        if !block.huge {
            counted.growth_of_all = counted.growth_of_all.saturating_add(size);
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;
    const BLOCK: u64 = 8 * PAGE;

    fn filler(range: [u64; 2]) -> Filler {
        Filler { range, page: PAGE, block: BLOCK, anonymous: true, summed: MappingSums::default() }
    }

    /// Makes runs of these pages, in which each page is a run of its own or is joined with the next
    /// page.
    fn runs(pages: &[(u64, PageState)]) -> Vec<Run> {
        let one = |(at, what): &(u64, PageState)| Run {
            start: at * PAGE,
            end: (at + 1) * PAGE,
            what: *what,
        };
        let mut runs: Vec<Run> = Vec::new();
        for run in pages.iter().map(one) {
            match runs.last_mut() {
                Some(last) if last.end == run.start && last.what == run.what => last.end = run.end,
                _ => runs.push(run),
            }
        }
        runs
    }

    proptest! {
        /// Joined runs give the same blocks as counting page by page.
        #[test]
        fn blocks_hold_what_counting_pages_finds(
            kinds in prop::collection::vec(0u8..5, 1..60), from in 0u64..20, length in 1u64..60,
        ) {
            let range = [from * PAGE, (from + length) * PAGE];
            let what = [PageState::Anonymous { huge: false }, PageState::Swapped, PageState::Zero, PageState::File { huge: false }];
            let pages: Vec<(u64, PageState)> = kinds.iter().zip(0..)
                .filter_map(|(kind, at)| Some((at, *what.get(usize::from(*kind))?))).collect();
            let mut joined = filler(range);
            runs(&pages).into_iter().for_each(|run| joined.run(run));
            for first in (0..80).step_by(8) {
                let whole = first >= from && first + 8 <= from + length;
                let count = |state: PageState| pages.iter()
                    .filter(|(at, what)| whole && (first..first + 8).contains(at) && *what == state)
                    .count();
                let expected = (count(what[0]), count(what[1]), count(what[2]));
                let found = joined.summed.blocks.iter().find(|block| block.address == first * PAGE);
                let wide = |number: u32| usize::try_from(number).unwrap();
                let found = found.map_or((0, 0, 0), |b| (wide(b.present), wide(b.swapped), wide(b.zero)));
                prop_assert_eq!(found, expected);
            }
            let inside = |state: PageState| pages.iter()
                .filter(|(at, what)| (from..from + length).contains(at) && *what == state)
                .count() as u64 * PAGE;
            prop_assert_eq!(joined.summed.coverage.anon.get(), inside(what[0]));
            prop_assert_eq!(joined.summed.coverage.file.get(), inside(what[3]));
        }
    }

    #[test]
    fn blocks_are_sorted_by_how_full_they_are() {
        let block = |present, huge| Block { present, huge, ..Block::default() };
        let blocks = [
            block(512, true),
            block(512, false),
            block(300, false),
            block(64, false),
            block(1, false),
        ];
        let counted = count_blocks(&blocks, 512, PAGE);
        assert_eq!((counted.huge, counted.full, counted.half), (1, 1, 1));
        assert_eq!((counted.eighth, counted.sparse), (1, 1));
        assert_eq!(counted.growth_of_half, Bytes::new(212 * PAGE));
        assert_eq!(counted.growth_of_all, Bytes::new((212 + 448 + 511) * PAGE));
    }
}
