// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds up, page by page, what an estimate needs. Only sums are stored. The contents of a page are
//! not, except for a hash that distinguishes different contents, if duplicates were requested.

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

/// What to determine for each page: the kernel, the algorithms and the page sizes.
#[derive(Debug, Clone)]
pub struct Question {
    /// Page size in bytes, a power of two.
    pub page: usize,
    /// The kernel whose zram is imitated.
    pub kernel: Kernel,
    /// The compression algorithms to compare; sizes of duplicates are those of the first algorithm.
    pub algorithms: Vec<Algorithm>,
    /// Whether to find duplicates, which takes 8 bytes for each page.
    pub duplicates: bool,
    /// Number of pages in a huge page.
    pub pages_per_huge: u64,
}

/// Compresses pages and adds them to tallies; use one per thread.
#[derive(Debug)]
pub struct Engine {
    sizers: Vec<Sizer>,
    pool: Zsmalloc,
    page: usize,
    pages_per_huge: u64,
}

impl Engine {
    /// Creates an encoder for each algorithm of the question.
    #[must_use]
    pub fn new(question: &Question) -> Self {
        let sizer = |algorithm: &Algorithm| Sizer::new(*algorithm, question.kernel.zstd);
        Self {
            sizers: question.algorithms.iter().map(sizer).collect(),
            pool: question.kernel.pool_for_page_size(question.page),
            page: question.page,
            pages_per_huge: question.pages_per_huge,
        }
    }

    /// Compresses a page and adds it to a tally of the same question. The caller must pad a page
    /// that is too short, such as the last one of a file, with zeros.
    pub fn add(&mut self, page: &[u8], place: PagePosition, tally: &mut Tally) {
        tally.sized += 1;
        if self.tally_filled(page, place, tally) {
            tally.algorithms.iter_mut().for_each(|stores| stores.add_same_filled(place.share));
        } else {
            self.size(page, place, tally);
        }
    }

    /// Adds a page without compressing it, so that only duplicates and same-filled pages are
    /// counted.
    pub fn add_unsized(&mut self, page: &[u8], place: PagePosition, tally: &mut Tally) {
        let filled = self.tally_filled(page, place, tally);
        if let (false, Some(duplicates)) = (filled, &mut tally.duplicates) {
            duplicates.add(place.kind, page, None);
        }
    }

    /// Counts a page if it is same-filled, and returns whether it is.
    fn tally_filled(&self, page: &[u8], place: PagePosition, tally: &mut Tally) -> bool {
        debug_assert_eq!(page.len(), self.page);
        tally.sampled.add_share(1.0, place.share);
        let filled = same::fill_word(page);
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
            first.get_or_insert(self.pool.stored_size(size));
            stores.add(size, place.share, &self.pool);
        }
        if let Some(duplicates) = &mut tally.duplicates {
            duplicates.add(place.kind, page, Some(first.unwrap_or(0)));
        }
    }
}

/// Sums over the sampled pages of a source.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Number of places that were sampled, with their shares of pages.
    pub(crate) sampled: Sums,
    /// Number of sampled pages that were compressed.
    pub(crate) sized: u64,
    /// Number of zero-filled pages.
    pub(crate) zero: f64,
    pub(crate) same_filled: f64,
    pub(crate) algorithms: Vec<Stores>,
    pub(crate) duplicates: Option<Duplicates>,
    pub(crate) huge: Huge,
}

/// Sums for one compression algorithm.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    pub(crate) compressed: Sums,
    /// For each compressed page, the number of bytes of a zspage that it takes.
    pub(crate) memory: Sums,
    pub(crate) compressed_bytes: u64,
    /// Number of pages that zram stores uncompressed.
    pub(crate) huge: f64,
    pub(crate) stored: ClassPages,
}

impl Tally {
    /// Creates a tally without pages.
    #[must_use]
    pub fn new(question: &Question) -> Self {
        let pool = question.kernel.pool_for_page_size(question.page);
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

    /// Adds the counts of another thread for the same source and question.
    pub fn merge(&mut self, other: Self) {
        self.add_counts(&other);
        self.huge.merge(&other.huge);
        if let (Some(ours), Some(theirs)) = (&mut self.duplicates, other.duplicates) {
            ours.merge(theirs);
        }
    }

    /// Returns the sum of the tallies of several sources, without their duplicates.
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

    /// Number of pages for which eight bytes are stored.
    #[must_use]
    pub fn kept_contents(&self) -> usize {
        self.duplicates.as_ref().map_or(0, Duplicates::kept_hashes)
    }

    /// If duplicates are counted, keeps only the fraction 1 / 2^`halvings` of all contents.
    pub fn thin(&mut self, halvings: u32) {
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.thin(halvings);
        }
    }

    /// Number of places of the source that were sampled.
    #[must_use]
    pub fn sampled_pages(&self) -> u64 {
        self.sampled.count()
    }

    /// Number of same-filled pages in the sample.
    #[must_use]
    pub fn same_filled(&self) -> f64 {
        self.same_filled
    }

    /// Number of bytes that the sampled pages would add to zram's `compr_data_size` with the
    /// algorithm of this index.
    #[must_use]
    pub fn compressed_bytes(&self, algorithm: usize) -> u64 {
        self.algorithms.get(algorithm).map_or(0, |stores| stores.compressed_bytes)
    }

    /// Returns how many pages must be sampled in total, so that the relative error of each
    /// algorithm's compressed size is at most `error` in 95 of 100 samples.
    #[must_use]
    pub fn needed_sample(&self, error: f64, population: u64) -> u64 {
        let needed = |stores: &Stores| stores.compressed.needed_sample(error, population);
        self.algorithms.iter().map(needed).max().unwrap_or(self.sampled_pages())
    }
}

impl Stores {
    fn new(pool: &Zsmalloc) -> Self {
        Self {
            compressed: Sums::default(),
            memory: Sums::default(),
            compressed_bytes: 0,
            huge: 0.0,
            stored: pool.empty_class_pages(),
        }
    }

    fn add_same_filled(&mut self, share: f64) {
        self.compressed.add_share(0.0, share);
        self.memory.add_share(0.0, share);
    }

    fn add(&mut self, size: usize, share: f64, pool: &Zsmalloc) {
        let stored = pool.stored_size(size);
        self.compressed.add_share(stored as f64, share);
        self.memory.add_share(pool.share_of_zspage(size), share);
        self.compressed_bytes += stored as u64;
        self.huge += if size >= pool.huge_threshold() { share } else { 0.0 };
        self.stored.add_share(pool, size, share);
    }

    fn merge(&mut self, other: &Self) {
        self.compressed.merge(&other.compressed);
        self.memory.merge(&other.memory);
        self.compressed_bytes += other.compressed_bytes;
        self.huge += other.huge;
        self.stored.merge(&other.stored);
    }

    /// Returns the bytes for all places: the mean of the sample multiplied by the number of places.
    /// The result is exact if all places were sampled.
    pub(crate) fn total(sums: &Sums, places: u64) -> (u64, Ends<u64>) {
        let scale = |mean: f64| (mean * places as f64).round() as u64;
        (scale(sums.mean()), sums.mean_interval(places).map(scale))
    }
}
