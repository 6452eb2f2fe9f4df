// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page after page → what an estimate is made from. Holds sums; of a page's contents nothing but,
//! where asked for, a number that tells it from others.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and sizes of pages are positive and far below 2^53"
)]

use pagewise_model::Ends;

use crate::codec::{Algorithm, Sizer};
use crate::duplicates::Duplicates;
use crate::huge::{Huge, PagePosition};
use crate::interval::Sums;
use crate::kernel::Kernel;
use crate::same;
use crate::zsmalloc::{ClassPages, Zsmalloc};

/// What is asked about each page.
#[derive(Debug, Clone)]
pub struct Question {
    /// Bytes of a page, a power of two.
    pub page: usize,
    /// The kernel to imitate.
    pub kernel: Kernel,
    /// The algorithms to compare; duplicates are weighed with the first.
    pub algorithms: Vec<Algorithm>,
    /// Whether pages are told from each other, which takes 8 bytes for each.
    pub duplicates: bool,
    /// Pages that make a huge one.
    pub pages_per_huge: u64,
}

/// Looks at pages; one per thread.
#[derive(Debug)]
pub struct Engine {
    sizers: Vec<Sizer>,
    pool: Zsmalloc,
    page: usize,
    pages_per_huge: u64,
}

impl Engine {
    /// Ready for the first page.
    #[must_use]
    pub fn new(question: &Question) -> Self {
        let sizer = |algorithm: &Algorithm| Sizer::new(*algorithm, question.kernel.zstd);
        Self {
            sizers: question.algorithms.iter().map(sizer).collect(),
            pool: question.kernel.pool(question.page),
            page: question.page,
            pages_per_huge: question.pages_per_huge,
        }
    }

    /// Adds a page to a tally of the same question, and compresses it. A page that is shorter than
    /// others, as at the end of a file, is filled up with zeros by the caller.
    pub fn add(&mut self, page: &[u8], place: PagePosition, tally: &mut Tally) {
        tally.sized += 1;
        if self.filled(page, place, tally) {
            tally.algorithms.iter_mut().for_each(|stores| stores.nothing(place.share));
        } else {
            self.size(page, place, tally);
        }
    }

    /// Adds a page without compressing it: it only counts for duplicates and what is same-filled.
    pub fn add_unsized(&mut self, page: &[u8], place: PagePosition, tally: &mut Tally) {
        let filled = self.filled(page, place, tally);
        if let (false, Some(duplicates)) = (filled, &mut tally.duplicates) {
            duplicates.add(place.kind, page, None);
        }
    }

    /// Whether one word fills it; then it is counted.
    fn filled(&self, page: &[u8], place: PagePosition, tally: &mut Tally) -> bool {
        debug_assert_eq!(page.len(), self.page);
        tally.sampled.add_share(1.0, place.share);
        let filled = same::filled(page);
        tally.huge.add(place, filled == Some(0), self.pages_per_huge);
        let Some(word) = filled else { return false };
        tally.same_filled += place.share;
        tally.zero += if word == 0 { place.share } else { 0.0 };
        if let Some(duplicates) = &mut tally.duplicates {
            duplicates.add_filled(place.kind, word);
        }
        true
    }

    fn size(&mut self, page: &[u8], place: PagePosition, tally: &mut Tally) {
        let mut first = None;
        for (sizer, stores) in self.sizers.iter_mut().zip(&mut tally.algorithms) {
            let size = sizer.size(page);
            first.get_or_insert(self.pool.stored(size));
            stores.add(size, place.share, &self.pool);
        }
        if let Some(duplicates) = &mut tally.duplicates {
            duplicates.add(place.kind, page, Some(first.unwrap_or(0)));
        }
    }
}

/// Sums over pages.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Places looked at, and the pages that they account for.
    pub(crate) sampled: Sums,
    /// Of those the ones that were compressed.
    pub(crate) sized: u64,
    /// Pages.
    pub(crate) zero: f64,
    pub(crate) same_filled: f64,
    pub(crate) algorithms: Vec<Stores>,
    pub(crate) duplicates: Option<Duplicates>,
    pub(crate) huge: Huge,
}

/// What an algorithm made of the pages so far.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    pub(crate) compressed: Sums,
    /// Each page's share of its zspage.
    pub(crate) memory: Sums,
    pub(crate) compressed_bytes: u64,
    /// Pages.
    pub(crate) huge: f64,
    pub(crate) stored: ClassPages,
}

impl Tally {
    /// Nothing looked at yet.
    #[must_use]
    pub fn new(question: &Question) -> Self {
        let pool = question.kernel.pool(question.page);
        let stores = |_: &Algorithm| Stores::new(&pool);
        Self {
            sampled: Sums::default(),
            sized: 0,
            zero: 0.0,
            same_filled: 0.0,
            algorithms: question.algorithms.iter().map(stores).collect(),
            duplicates: question.duplicates.then(|| Duplicates::new(question.page)),
            huge: Huge::default(),
        }
    }

    /// Takes over what another thread counted of the same source for the same question.
    pub fn merge(&mut self, other: Self) {
        self.add_counts(&other);
        self.huge.merge(&other.huge);
        if let (Some(ours), Some(theirs)) = (&mut self.duplicates, other.duplicates) {
            ours.merge(theirs);
        }
    }

    /// What several sources are together; duplicates are left with them.
    #[must_use]
    pub fn of_all<'a>(question: &Question, sources: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self { duplicates: None, ..Self::new(question) };
        for source in sources {
            all.add_counts(source);
            all.huge.add_source(&source.huge, question.pages_per_huge);
        }
        all
    }

    fn add_counts(&mut self, other: &Self) {
        self.sampled.merge(&other.sampled);
        self.sized += other.sized;
        self.zero += other.zero;
        self.same_filled += other.same_filled;
        for (ours, theirs) in self.algorithms.iter_mut().zip(&other.algorithms) {
            ours.merge(theirs);
        }
    }

    /// Eight bytes are kept for each of these pages.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.duplicates.as_ref().map_or(0, Duplicates::kept)
    }

    /// Keeps one in 2 to this power of all contents, where they are told apart.
    pub fn thin(&mut self, halvings: u32) {
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.thin(halvings);
        }
    }

    /// Places looked at.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.sampled.count()
    }

    /// Pages that one machine word fills.
    #[must_use]
    pub fn same_filled(&self) -> f64 {
        self.same_filled
    }

    /// What the pages looked at add to `compr_data_size`, with the algorithm of that index.
    #[must_use]
    pub fn compressed_bytes(&self, algorithm: usize) -> u64 {
        self.algorithms.get(algorithm).map_or(0, |stores| stores.compressed_bytes)
    }

    /// How many pages are to be looked at in all, for the compressed size of every algorithm to be
    /// within `error` in 95 of 100 samples.
    #[must_use]
    pub fn needed(&self, error: f64, population: u64) -> u64 {
        let needed = |stores: &Stores| stores.compressed.needed(error, population);
        self.algorithms.iter().map(needed).max().unwrap_or(self.sampled())
    }
}

impl Stores {
    fn new(pool: &Zsmalloc) -> Self {
        Self {
            compressed: Sums::default(),
            memory: Sums::default(),
            compressed_bytes: 0,
            huge: 0.0,
            stored: pool.nothing_stored(),
        }
    }

    fn nothing(&mut self, share: f64) {
        self.compressed.add_share(0.0, share);
        self.memory.add_share(0.0, share);
    }

    fn add(&mut self, size: usize, share: f64, pool: &Zsmalloc) {
        let stored = pool.stored(size);
        self.compressed.add_share(stored as f64, share);
        self.memory.add_share(pool.share_of_zspage(size), share);
        self.compressed_bytes += stored as u64;
        self.huge += if size >= pool.huge_from() { share } else { 0.0 };
        self.stored.add_share(pool, size, share);
    }

    fn merge(&mut self, other: &Self) {
        self.compressed.merge(&other.compressed);
        self.memory.merge(&other.memory);
        self.compressed_bytes += other.compressed_bytes;
        self.huge += other.huge;
        self.stored.merge(&other.stored);
    }

    /// Bytes for all places: their mean times as many; of all that is the sum.
    pub(crate) fn total(sums: &Sums, places: u64) -> (u64, Ends<u64>) {
        let scale = |mean: f64| (mean * places as f64).round() as u64;
        (scale(sums.mean()), sums.mean_interval(places).map(scale))
    }
}
