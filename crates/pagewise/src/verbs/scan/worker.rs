// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread of a scan: receives pages, and keeps a tally for each part.
//!
//! To find duplicates, a thread keeps eight bytes (a hash) for each page. With `--duplicates` the
//! number of hashes is limited: whenever a thread has more, it drops those of one half of all
//! possible values, and from then on ignores pages with such hashes, in all its parts.

use pagewise_model::{Bytes, MemoryKind, Snapshot};
use pagewise_pages::huge::PagePosition;
use pagewise_pages::random_draw::RandomDraw;
use pagewise_pages::tally::{Engine, Question, Tally};
use pagewise_sample::{Origin, PageKind, Visit};
use pagewise_terminal::progress::PageBar;

use super::dump::Dump;

/// Parameters of the scan that are the same for all threads.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) question: &'a Question,
    pub(super) dump: Option<&'a Dump>,
    pub(super) shown: &'a PageBar,
    /// Selects at random the pages that are compressed; the others are only read.
    pub(super) lot: RandomDraw,
    /// Number of pages for which each thread may keep a hash of eight bytes.
    pub(super) most_kept: usize,
}

/// The state of one thread: its compressors, and a tally for each part.
pub(super) struct Worker<'a> {
    pub(super) rules: Rules<'a>,
    engine: Engine,
    pub(super) tallies: Vec<Tally>,
    kept: usize,
    halvings: u32,
}

impl<'a> Worker<'a> {
    pub(super) fn new(rules: Rules<'a>) -> Self {
        let engine = Engine::new(rules.question);
        Self { rules, engine, tallies: Vec::new(), kept: 0, halvings: 0 }
    }

    fn tally(&mut self, part: usize) -> &mut Tally {
        while self.tallies.len() <= part {
            let mut tally = Tally::new(self.rules.question);
            tally.thin(self.halvings);
            self.tallies.push(tally);
        }
        &mut self.tallies[part]
    }

    /// Drops half of the hashes of page contents until the rest fits, at most 32 times: if all
    /// pages are equal, dropping does not help.
    fn drop_hashes(&mut self) {
        while self.kept > self.rules.most_kept && self.halvings < 32 {
            self.halvings += 1;
            self.tallies.iter_mut().for_each(|tally| tally.thin(self.halvings));
            self.kept = self.tallies.iter().map(Tally::kept_contents).sum();
        }
    }
}

impl Visit for Worker<'_> {
    fn page(&mut self, origin: &Origin, page: &[u8]) {
        let kind = memory_kind(origin.kind);
        let place =
            PagePosition { number: origin.page, kind, huge: origin.huge, share: origin.share };
        let Rules { lot, dump, shown, .. } = self.rules;
        let before = self.tally(origin.part).kept_contents();
        let tally = &mut self.tallies[origin.part];
        if lot.draws(origin.part, origin.page) {
            self.engine.add(page, place, tally);
        } else {
            self.engine.add_unsized(page, place, tally);
        }
        self.kept += tally.kept_contents() - before;
        self.drop_hashes();
        if let Some(dump) = dump {
            dump.add_page(page);
        }
        shown.count_page();
    }
}

fn memory_kind(kind: PageKind) -> MemoryKind {
    match kind {
        PageKind::Anonymous => MemoryKind::Anonymous,
        PageKind::Shmem => MemoryKind::Shmem,
        PageKind::File => MemoryKind::File,
        PageKind::Stored => MemoryKind::Stored,
    }
}

/// Number of pages for which hashes of eight bytes fit into a quarter of the available memory less
/// 32 MiB, but at least 1,048,576.
pub(super) fn count_hashes_that_fit(snapshot: &Snapshot) -> usize {
    const LEAST: u64 = 1 << 20;
    const BESIDES: u64 = 32 << 20;
    let available = snapshot.memory.available.get().map_or(0, Bytes::get);
    let pages = (available / 4).saturating_sub(BESIDES) / 8;
    usize::try_from(pages.max(LEAST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use pagewise_pages::estimate::estimate;
    use pagewise_pages::kernel::KERNELS;

    use super::*;

    /// However many pages there are, the number of hashes stays within the limit, and the estimate
    /// made from them contains the true value.
    #[test]
    fn what_is_kept_is_bounded() {
        let question = Question {
            page: 4096,
            kernel: KERNELS[2],
            algorithms: Vec::new(),
            duplicates: true,
            pages_per_huge: 512,
        };
        let shown = PageBar::silent();
        let rules = Rules {
            question: &question,
            dump: None,
            shown: &shown,
            lot: RandomDraw::new(1, 0, 1),
            most_kept: 5000,
        };
        let mut worker = Worker::new(rules);
        for number in 0..40_000u64 {
            let mut page = vec![0u8; 4096];
            page[..8].copy_from_slice(&(number / 2 + 1).to_ne_bytes());
            let part = usize::from(number >= 10_000);
            let kind = PageKind::Anonymous;
            let origin =
                Origin { part, page: number, kind, exclusive: true, share: 1.0, huge: None };
            worker.page(&origin, &page);
            assert!(worker.tallies.iter().map(Tally::kept_contents).sum::<usize>() <= 5000);
        }
        assert_eq!(worker.halvings, 4);
        let origin = super::super::sampling::origin_for_tests(40_000);
        let found = estimate(&question, origin, &mut worker.tallies);
        assert!(!found.duplicate_pages_exact && found.most_repeated.is_none());
        let [low, high] = found.duplicate_pages_interval.expect("all were looked at");
        assert!(low <= 20_000 && 20_000 <= high && high - low < 3000, "{low} to {high}");
    }
}
