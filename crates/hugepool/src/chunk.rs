// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The division of a huge page into 32 spans, which form slabs of small blocks, and runs, each a
//! single block. This module handles offsets only, not memory.

use crate::Error;
use crate::size_class::SizeClass;
use crate::slab::Slab;

/// Number of spans in a huge page.
pub(crate) const SPANS: usize = 32;
const ALL_FREE: u32 = u32::MAX;

/// What begins at a span: a slab or a run.
#[derive(Debug)]
enum Part {
    Slab(Slab),
    /// A single block that takes this number of spans.
    Run(usize),
}

impl Part {
    fn spans(&self) -> usize {
        match self {
            Self::Slab(slab) => slab.spans,
            Self::Run(spans) => *spans,
        }
    }
}

/// What changed when a block was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Put {
    /// The size of the block in bytes.
    pub(crate) size: usize,
    /// The size class of the block; `None` if it was a run.
    pub(crate) class: Option<SizeClass>,
    /// The spans that became free: the first one and their number.
    pub(crate) freed: Option<(usize, usize)>,
}

/// How a huge page is divided into slabs and runs.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Size of a span in bytes.
    span: usize,
    /// Bitmap of the free spans: bit n is set if span n is free.
    free: u32,
    /// The slabs and runs, indexed by their first span.
    parts: [Option<Part>; SPANS],
}

impl Chunk {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { span: bytes / SPANS, free: ALL_FREE, parts: [const { None }; SPANS] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free == ALL_FREE
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free == 0
    }

    /// The first of `spans` consecutive free spans; `None` if there are not that many in a row.
    pub(crate) fn find_spans(&self, spans: usize) -> Option<usize> {
        let mask = mask(0, spans);
        (0..=SPANS - spans).find(|first| self.free >> first & mask == mask)
    }

    /// Makes a slab of free spans, starting with span `first`; returns its number of spans.
    pub(crate) fn add_slab(&mut self, first: usize, class: SizeClass) -> Result<usize, Error> {
        let slab = Slab::new(class, self.span)?;
        let spans = slab.spans;
        self.occupy(first, Part::Slab(slab));
        Ok(spans)
    }

    /// Makes a single block of free spans; returns its offset in the huge page in bytes.
    pub(crate) fn add_run(&mut self, first: usize, spans: usize) -> usize {
        self.occupy(first, Part::Run(spans));
        first * self.span
    }

    fn occupy(&mut self, first: usize, part: Part) {
        self.free &= !mask(first, part.spans());
        self.parts[first] = Some(part);
    }

    /// Takes blocks of a size class until `give` has received `most` offsets or no block is left;
    /// returns the number of blocks.
    pub(crate) fn take(
        &mut self,
        class: SizeClass,
        most: usize,
        give: &mut impl FnMut(usize),
    ) -> usize {
        let span = self.span;
        let mut taken = 0;
        for (first, part) in self.parts.iter_mut().enumerate() {
            let Some(Part::Slab(slab)) = part else { continue };
            while slab.class == class && taken < most {
                let Some(offset) = slab.take() else { break };
                give(first * span + offset);
                taken += 1;
            }
        }
        taken
    }

    /// Whether a slab of the size class has a free block.
    pub(crate) fn has_free(&self, class: SizeClass) -> bool {
        let mut parts = self.parts.iter().flatten();
        parts.any(|part| matches!(part, Part::Slab(slab) if slab.class == class && slab.has_free()))
    }

    /// The size in bytes of the block that begins at an offset, free or not; `None` if none begins
    /// there.
    pub(crate) fn size_at(&self, offset: usize) -> Option<usize> {
        let first = self.first_span_of(offset)?;
        let inside = offset - first * self.span;
        match self.parts[first].as_ref()? {
            Part::Slab(slab) => Some(slab.class.size()).filter(|size| inside % size == 0),
            Part::Run(spans) => Some(spans * self.span).filter(|_| inside == 0),
        }
    }

    /// Releases the block at an offset; a slab without blocks in use becomes free spans.
    ///
    /// # Errors
    /// The errors of [`Slab::put`]; also [`Error::DoubleRelease`] if the spans are free.
    pub(crate) fn put(&mut self, offset: usize) -> Result<Put, Error> {
        let first = self.first_span_of(offset).ok_or(Error::DoubleRelease)?;
        let inside = offset - first * self.span;
        let (size, class, is_empty) = match &mut self.parts[first] {
            Some(Part::Slab(slab)) => {
                slab.put(inside)?;
                (slab.class.size(), Some(slab.class), slab.is_empty())
            }
            Some(Part::Run(spans)) if inside == 0 => (*spans * self.span, None, true),
            _ => return Err(Error::WrongBlock),
        };
        let freed = if is_empty { self.remove_part(first) } else { None };
        Ok(Put { size, class, freed })
    }

    fn remove_part(&mut self, first: usize) -> Option<(usize, usize)> {
        let spans = self.parts[first].take()?.spans();
        self.free |= mask(first, spans);
        Some((first, spans))
    }

    /// The first span of the slab or run that contains an offset.
    fn first_span_of(&self, offset: usize) -> Option<usize> {
        let at = offset / self.span;
        let first = (0..=at).rev().find(|span| self.parts[*span].is_some())?;
        let spans = self.parts[first].as_ref()?.spans();
        Some(first).filter(|first| at < first + spans)
    }
}

/// A bitmap in which the bits of this many spans (at most all of them) are set, starting with
/// `first`.
fn mask(first: usize, spans: usize) -> u32 {
    let ones = u32::try_from((1u64 << spans) - 1).unwrap_or(u32::MAX);
    ones << first
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: usize = 64 << 10;

    #[test]
    fn parts_do_not_overlap_and_their_spans_come_back() {
        let mut chunk = Chunk::new(SPANS * SPAN);
        let class = SizeClass::for_size(40 << 10).unwrap();
        let first = chunk.find_spans(class.slab_spans(SPAN)).unwrap();
        let spans = chunk.add_slab(first, class).unwrap();
        let run = chunk.add_run(chunk.find_spans(3).unwrap(), 3);
        assert_eq!((first, run), (0, spans * SPAN));
        assert_eq!(chunk.find_spans(SPANS), None);
        let mut offsets = Vec::new();
        let taken = chunk.take(class, 1000, &mut |offset| offsets.push(offset));
        assert_eq!(taken, spans * SPAN / (40 << 10));
        assert!(!chunk.has_free(class));
        assert_eq!(chunk.put(run + 16), Err(Error::WrongBlock));
        let put = chunk.put(run).unwrap();
        assert_eq!((put.size, put.freed), (3 * SPAN, Some((spans, 3))));
        assert_eq!(chunk.put(run), Err(Error::DoubleRelease));
        for offset in &offsets {
            assert_eq!(chunk.size_at(*offset), Some(40 << 10));
            chunk.put(*offset).unwrap();
        }
        assert!(chunk.is_empty());
        assert_eq!(chunk.put(offsets[0]), Err(Error::DoubleRelease));
        assert_eq!(chunk.size_at(offsets[0]), None);
    }

    #[test]
    fn a_run_can_be_the_whole_page() {
        let mut chunk = Chunk::new(SPANS * SPAN);
        assert_eq!(chunk.add_run(0, SPANS), 0);
        assert!(chunk.is_full() && chunk.find_spans(1).is_none());
        assert_eq!(chunk.put(SPAN), Err(Error::WrongBlock));
        assert_eq!(chunk.put(0).unwrap().size, SPANS * SPAN);
        assert!(chunk.is_empty());
    }
}
