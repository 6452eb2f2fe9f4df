// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines how many pages are duplicates, how much memory storing each content only once would
//! save, and which contents are most frequent.
//!
//! For each page, eight bytes are stored (a *mark*): 51 bits of a hash, and the compressed size if
//! the page was compressed. Among 16 million pages (64 GiB), the probability that any two different
//! pages are considered equal is 1 in 16. Random sampling cannot estimate the number of duplicates:
//! in a measurement in which half of all pages were in pairs, a sample of 5,000 pages contained 5.6
//! %. Therefore every page is read, and:
//!
//! - duplicates are counted. If eight bytes per page are too many, only contents whose hash is in a
//!   certain fraction of all hashes are kept, with all their copies, and the fraction is halved as
//!   often as necessary. The number of *different* contents is then estimated, in which each
//!   content counts once. The number of kept copies is not used, because it depends on whether a
//!   very frequent content is among those that are kept.
//! - the savings are counted if all pages were compressed. Otherwise a random sample was
//!   compressed. Each compressed page with c copies represents (c−1)/c duplicates, so that frequent
//!   contents are sampled in proportion to their frequency. `saved.rs` contains the estimates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::hash::Hasher;

use pagewise_model::{Contents, MemoryKind, Repeated};

use crate::interval::Sums;
use crate::saved::{DrawCounts, ValueRange};

/// Number of bits in a mark for the compressed size, below those of the hash. The size is in bytes
/// for pages up to 4 KiB, and in 4096 steps for larger pages.
const SIZE_BITS: u32 = 13;
const STEPS: usize = 4096;
/// Value in place of a size in a mark: the page is same-filled.
const SAME_FILLED: u64 = (1 << SIZE_BITS) - 2;
/// Value in place of a size in a mark: the page was not compressed. It is the largest value, so
/// that copies with a size come first when marks are sorted.
const NOT_SIZED: u64 = (1 << SIZE_BITS) - 1;
/// Maximum number of repeated contents that are reported.
const NAMED: usize = 5;

/// The marks and counts of all pages that were read from a source.
#[derive(Debug, Clone)]
pub struct Duplicates {
    streams: Vec<Stream>,
    page: usize,
    /// Determines the fraction of hashes that are kept: it is 1 / 2^`halvings`.
    halvings: u32,
}

/// The marks and counts of pages of one kind of memory.
#[derive(Debug, Clone)]
struct Stream {
    kind: MemoryKind,
    marks: Vec<u64>,
    /// Number of zero-filled pages, for which no mark is stored.
    zeros: u64,
    /// Number of same-filled pages other than zero-filled ones.
    same_filled: u64,
    /// Number of pages that are not same-filled, whether or not their mark is kept.
    pages: u64,
    /// Sizes of compressed pages whose mark is not kept.
    left_out: Sums,
}

/// The result of counting duplicates among the pages of one or several sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Number of pages that are equal to an earlier one.
    pub pages: ValueRange,
    /// Number of bytes that the duplicate pages take when they are stored compressed.
    pub bytes: ValueRange,
    /// Number of pages that KSM would free. KSM ignores shmem and file pages, and merges
    /// same-filled pages.
    pub ksm_pages: u64,
    /// Whether the hashes of all pages were kept. If so, duplicates are counted and not estimated.
    pub is_exact: bool,
    /// The contents with the most copies, among those whose hashes were kept.
    pub repeated: Vec<Repeated>,
}

impl Duplicates {
    /// Creates an empty set, for pages of this size in bytes.
    #[must_use]
    pub fn new(page: usize) -> Self {
        Self { streams: Vec::new(), page: page.max(1), halvings: 0 }
    }

    /// Adds a page, with its compressed size if the page was compressed.
    pub(crate) fn add(&mut self, kind: MemoryKind, page: &[u8], size: Option<usize>) {
        self.mark(kind, hash(page), size);
    }

    /// Adds a page whose hash is known, with its compressed size if it was compressed.
    pub fn mark(&mut self, kind: MemoryKind, hash: u64, size: Option<usize>) {
        let (page, halvings) = (self.page, self.halvings);
        let stream = self.stream(kind);
        stream.pages += 1;
        let steps = size.map_or(NOT_SIZED, |size| steps_of(size, page));
        stream.push(hash << SIZE_BITS | steps, page, halvings);
    }

    /// Adds a same-filled page: one that repeats `word`.
    pub(crate) fn add_filled(&mut self, kind: MemoryKind, word: u64) {
        let halvings = self.halvings;
        let stream = self.stream(kind);
        if word == 0 {
            stream.zeros += 1;
            return;
        }
        stream.same_filled += 1;
        stream.push(hash(&word.to_ne_bytes()) << SIZE_BITS | SAME_FILLED, 1, halvings);
    }

    fn stream(&mut self, kind: MemoryKind) -> &mut Stream {
        let known = self.streams.iter().position(|stream| stream.kind == kind);
        let at = known.unwrap_or_else(|| {
            self.streams.push(Stream::new(kind));
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }

    /// Adds the pages that another thread read from the same source.
    pub(crate) fn merge(&mut self, other: Self) {
        self.halvings = self.halvings.max(other.halvings);
        self.streams.extend(other.streams);
    }

    /// Number of marks that are stored, each of which takes eight bytes.
    pub(crate) fn kept_hashes(&self) -> usize {
        self.streams.iter().map(|stream| stream.marks.len()).sum()
    }

    /// Keeps only the fraction 1 / 2^`halvings` of all contents.
    pub fn thin(&mut self, halvings: u32) {
        self.halvings = self.halvings.max(halvings);
        for stream in &mut self.streams {
            stream.thin(self.page, self.halvings);
        }
    }
}

impl Stream {
    fn new(kind: MemoryKind) -> Self {
        let (marks, left_out) = (Vec::new(), Sums::default());
        Self { kind, marks, zeros: 0, same_filled: 0, pages: 0, left_out }
    }

    fn push(&mut self, mark: u64, page: usize, halvings: u32) {
        if is_kept(mark, halvings) {
            self.marks.push(mark);
        } else {
            add_left_out(&mut self.left_out, mark, page);
        }
    }

    fn thin(&mut self, page: usize, halvings: u32) {
        let Self { marks, left_out, .. } = self;
        marks.retain(|mark| {
            let kept = is_kept(*mark, halvings);
            if !kept {
                add_left_out(left_out, *mark, page);
            }
            kept
        });
        marks.shrink_to_fit();
    }
}

/// Whether the mark of a content is kept: the highest bits of its hash are zero.
fn is_kept(mark: u64, halvings: u32) -> bool {
    mark.leading_zeros() >= halvings
}

fn add_left_out(sums: &mut Sums, mark: u64, page: usize) {
    if let Some(size) = size_of(mark, page) {
        sums.add(size as f64);
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = rapidhash::fast::RapidHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

fn steps_of(size: usize, page: usize) -> u64 {
    (size * STEPS).div_ceil(page).min(STEPS) as u64
}

/// Returns the compressed size in a mark, in bytes; `None` if the page was not compressed.
fn size_of(mark: u64, page: usize) -> Option<u64> {
    let steps = mark & ((1 << SIZE_BITS) - 1);
    (steps < SAME_FILLED).then(|| (steps * page as u64).div_ceil(STEPS as u64))
}

/// A content, with all pages that have it.
#[derive(Debug, Clone, Copy)]
struct Content {
    what: Contents,
    copies: u64,
    /// Number of copies whose compressed size is known, and that size in bytes.
    sized: u64,
    size: u64,
    /// Number of copies that KSM could merge.
    private: u64,
    sources: u64,
    /// The kinds of memory in which the content occurs: one bit for each kind.
    kinds: u8,
}

impl Content {
    fn new(what: Contents) -> Self {
        Self { what, copies: 0, sized: 0, size: 0, private: 0, sources: 0, kinds: 0 }
    }

    fn add(&mut self, kind: MemoryKind, copies: u64) {
        self.copies += copies;
        // the kind of memory of a page in a core dump is not known, so it counts as private
        let private = matches!(kind, MemoryKind::Anonymous | MemoryKind::Stored);
        self.private += if private { copies } else { 0 };
        self.kinds |= bit(kind);
    }

    /// Counts the marks of this content in one stream; marks with a size come first.
    fn count_marks(&mut self, marks: &[u64], page: usize) {
        let Some(first) = marks.first() else { return };
        if first & NOT_SIZED == SAME_FILLED {
            self.what = Contents::SameFilled;
        }
        if let Some(size) = size_of(*first, page) {
            let is_sized = |mark: &&u64| size_of(**mark, page).is_some();
            self.sized += marks.iter().take_while(is_sized).count() as u64;
            self.size = size;
        }
    }

    fn most_repeated(&self) -> Repeated {
        let all = [MemoryKind::Anonymous, MemoryKind::Shmem, MemoryKind::File, MemoryKind::Stored];
        let kinds = all.into_iter().filter(|kind| self.kinds & bit(*kind) != 0).collect();
        Repeated { contents: self.what, kinds, copies: self.copies, sources: self.sources }
    }
}

fn bit(kind: MemoryKind) -> u8 {
    1 << kind as u8
}

/// Counts the duplicates over all sources. For this it sorts the marks of the sources in place.
#[must_use]
pub fn count_found(sources: &mut [&mut Duplicates]) -> Found {
    let halvings = sources.iter().map(|source| source.halvings).max().unwrap_or(0);
    for source in &mut *sources {
        if halvings > 0 {
            source.thin(halvings);
        }
        source.streams.iter_mut().for_each(|stream| stream.marks.sort_unstable());
    }
    let page = sources.iter().map(|source| source.page).max().unwrap_or(0);
    let mut count = Count::new(page, halvings);
    sources.iter().for_each(|source| count.source(source));
    each_content(sources, page, |content| count.content(content));
    count.count_found()
}

/// Calls `take` with each content whose hash was kept. The streams must be sorted.
fn each_content(sources: &[&mut Duplicates], page: usize, mut take: impl FnMut(Content)) {
    let mut rest: Vec<(usize, MemoryKind, &[u64])> = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let streams = source.streams.iter();
        rest.extend(streams.map(|stream| (at, stream.kind, stream.marks.as_slice())));
    }
    let head = |(at, (_, _, marks)): (usize, &(usize, MemoryKind, &[u64]))| {
        marks.first().map(|mark| Reverse((mark >> SIZE_BITS, at)))
    };
    let mut heads: BinaryHeap<_> = rest.iter().enumerate().filter_map(head).collect();
    while let Some(Reverse((hash, _))) = heads.peek().copied() {
        let mut content = Content::new(Contents::Other);
        let mut last = None;
        while let Some(mut head) = heads.peek_mut().filter(|head| head.0.0 == hash) {
            let (source, kind, marks) = &mut rest[head.0.1];
            let copies = marks.iter().take_while(|mark| *mark >> SIZE_BITS == hash).count();
            let (are_equivalent, others) = marks.split_at(copies);
            content.add(*kind, copies as u64);
            content.sources += u64::from(last.replace(*source) != Some(*source));
            content.count_marks(are_equivalent, page);
            *marks = others;
            match others.first() {
                Some(next) => head.0.0 = next >> SIZE_BITS,
                None => _ = PeekMut::pop(head),
            }
        }
        take(content);
    }
}

/// Sums over all contents that were passed so far.
struct Count {
    seen: DrawCounts,
    zeros: Content,
    private: u64,
    different_private: u64,
    most: Vec<Content>,
}

impl Count {
    fn new(page: usize, halvings: u32) -> Self {
        Self {
            seen: DrawCounts::new(page, halvings),
            zeros: Content::new(Contents::Zeros),
            private: 0,
            different_private: 0,
            most: Vec::new(),
        }
    }

    fn source(&mut self, source: &Duplicates) {
        let before = self.zeros.copies;
        for stream in &source.streams {
            self.seen.pages += stream.pages;
            self.seen.left_out.merge(&stream.left_out);
            let mut all = Content::new(Contents::Other);
            all.add(stream.kind, stream.pages + stream.same_filled + stream.zeros);
            self.private += all.private;
            if stream.zeros > 0 {
                self.zeros.add(stream.kind, stream.zeros);
            }
        }
        self.zeros.sources += u64::from(self.zeros.copies > before);
    }

    fn content(&mut self, content: Content) {
        self.different_private += u64::from(content.private > 0);
        if content.what == Contents::Other {
            self.seen.content(content.copies, content.sized, content.size);
        }
        self.note(content);
    }

    /// Keeps the content if it is one of the most frequent contents so far.
    fn note(&mut self, content: Content) {
        let least = self.most.last().map_or(0, |least| least.copies);
        if content.copies < 2 || self.most.len() == NAMED && content.copies <= least {
            return;
        }
        let at = self.most.partition_point(|other| other.copies >= content.copies);
        self.most.insert(at, content);
        self.most.truncate(NAMED);
    }

    fn count_found(mut self) -> Found {
        self.note(self.zeros);
        let zeros = u64::from(self.zeros.private > 0);
        let different = self.seen.of_all(self.different_private) + zeros;
        Found {
            pages: self.seen.duplicates(),
            bytes: self.seen.saved_bytes(),
            ksm_pages: self.private.saturating_sub(different),
            is_exact: self.seen.has_all(),
            repeated: self.most.iter().map(Content::most_repeated).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const KINDS: [MemoryKind; 3] = [MemoryKind::Anonymous, MemoryKind::Shmem, MemoryKind::File];

    /// An independent implementation with a table of all pages: counts duplicates, savings, pages
    /// that KSM would free, and the most frequent contents with their numbers of copies and
    /// sources.
    fn oracle(pages: &[(usize, usize, u8)]) -> (u64, u64, u64, Vec<(u64, u64)>) {
        let mut table: BTreeMap<u8, (u64, u64, BTreeSet<usize>)> = BTreeMap::new();
        for (source, kind, content) in pages {
            let (copies, private, sources) = table.entry(*content).or_default();
            *copies += 1;
            *private += u64::from(*kind == 0);
            sources.insert(*source);
        }
        let ksm = table.values().map(|(_, private, _)| private.saturating_sub(1)).sum();
        let others = || table.iter().filter(|(content, _)| **content > 1);
        let pages = others().map(|(_, (copies, ..))| copies - 1).sum();
        let bytes = others().map(|(content, (copies, ..))| (copies - 1) * size(*content) as u64);
        let mut most: Vec<(u64, u64)> = table
            .values()
            .filter(|(copies, ..)| *copies > 1)
            .map(|(copies, _, sources)| (*copies, sources.len() as u64))
            .collect();
        most.sort_by_key(|(copies, _)| Reverse(*copies));
        (pages, bytes.sum(), ksm, most)
    }

    fn size(content: u8) -> usize {
        usize::from(content) * 100 + 1
    }

    proptest! {
        /// The counts equal those of the independent implementation. Contents 0 and 1 are
        /// zero-filled and same-filled pages.
        #[test]
        fn duplicates_are_counted(
            pages in prop::collection::vec((0usize..3, 0usize..3, 0u8..20), 1..200),
            cut in 0usize..200,
        ) {
            let mut sources = vec![[Duplicates::new(4096), Duplicates::new(4096)]; 3];
            for (at, (source, kind, content)) in pages.iter().enumerate() {
                let half = &mut sources[*source][usize::from(at < cut)];
                match content {
                    0 | 1 => half.add_filled(KINDS[*kind], u64::from(*content)),
                    _ => half.add(KINDS[*kind], &[*content; 4096], Some(size(*content))),
                }
            }
            let mut sources: Vec<Duplicates> = sources.into_iter().map(|[mut one, other]| {
                one.merge(other);
                one
            }).collect();
            let found = count_found(&mut sources.iter_mut().collect::<Vec<_>>());
            let (pages, bytes, ksm, most) = oracle(&pages);
            prop_assert_eq!(found.pages, ValueRange { value: pages, ends: [pages, pages] });
            prop_assert_eq!(found.bytes, ValueRange { value: bytes, ends: [bytes, bytes] });
            prop_assert_eq!((found.ksm_pages, found.is_exact), (ksm, true));
            let copies = |named: &Repeated| named.copies;
            let expected: Vec<u64> = most.iter().take(NAMED).map(|(copies, _)| *copies).collect();
            prop_assert_eq!(found.repeated.iter().map(copies).collect::<Vec<_>>(), expected);
            for named in &found.repeated {
                prop_assert!(most.contains(&(named.copies, named.sources)), "{:?}", named);
            }
        }
    }

    #[test]
    fn what_is_named_is_told_by_kind_alone() {
        let mut one = Duplicates::new(4096);
        let mut other = Duplicates::new(4096);
        (0..9).for_each(|_| one.add_filled(MemoryKind::Anonymous, 0));
        (0..7).for_each(|_| other.add_filled(MemoryKind::Anonymous, 7));
        (0..5).for_each(|_| one.add(MemoryKind::Shmem, &[1; 4096], None));
        other.add(MemoryKind::Anonymous, &[1; 4096], Some(100));
        let found = count_found(&mut [&mut one, &mut other]);
        let named = |contents, kinds: &[MemoryKind], copies, sources| {
            let kinds = kinds.to_vec();
            Repeated { contents, kinds, copies, sources }
        };
        assert_eq!(
            found.repeated,
            [
                named(Contents::Zeros, &[MemoryKind::Anonymous], 9, 1),
                named(Contents::SameFilled, &[MemoryKind::Anonymous], 7, 1),
                named(Contents::Other, &[MemoryKind::Anonymous, MemoryKind::Shmem], 6, 2),
            ]
        );
        assert_eq!(found.ksm_pages, 8 + 6, "shmem is not merged");
    }

    /// For each content, either all copies are kept or none.
    #[test]
    fn a_share_of_the_contents_keeps_whole_contents() {
        let mut all = Duplicates::new(4096);
        for content in 0..4000u64 {
            let hash = hash(&content.to_ne_bytes());
            (0..3).for_each(|_| all.mark(MemoryKind::Stored, hash, Some(100)));
        }
        all.thin(3);
        let kept = all.kept_hashes();
        assert!(kept % 3 == 0 && (1200..1800).contains(&kept), "{kept} of 12,000");
        // more pages with the same contents are added, both contents that are kept and others
        for content in 0..4000u64 {
            all.mark(MemoryKind::Stored, hash(&content.to_ne_bytes()), None);
        }
        assert_eq!(all.kept_hashes(), kept / 3 * 4);
        let found = count_found(&mut [&mut all]);
        assert!(!found.is_exact);
        let [low, high] = found.pages.ends;
        assert!(low <= 12_000 && 12_000 <= high && high - low < 2000, "{:?}", found.pages);
        let [low, high] = found.bytes.ends;
        assert!(low <= 1_200_000 && 1_200_000 <= high, "{:?}", found.bytes);
    }

    #[test]
    fn of_nothing_nothing_is_found() {
        assert_eq!(count_found(&mut []), Found { is_exact: true, ..Found::default() });
        let mut empty = Duplicates::new(4096);
        empty.thin(7);
        assert_eq!(count_found(&mut [&mut empty]).pages, ValueRange::default());
    }
}
