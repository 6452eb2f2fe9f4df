// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A worker thread: takes batches, reads their pages and passes them to the caller's [`Visit`].
//!
//! A worker has a buffer for one batch, and keeps the process of the last batch open. Page contents
//! are never kept longer than a batch: the next batch overwrites the buffer, and at the end the
//! buffer is wiped.

use std::sync::Mutex;

use pagewise_model::Pages;
use pagewise_procmem::pagemap::Entry;
use pagewise_sandbox::Buffer;

use crate::identity::Identity;
use crate::lock::lock;
use crate::pace::Pace;
use crate::plan::{BATCH, Batch, Plan};
use crate::process::{Judge, Opened, PageRequest, ReadEffects, ReadOutcome, Scratch, how_ended};
use crate::seen::SeenFrames;
use crate::share::{Neighbours, Sharers};
use crate::spans::Span;
use crate::stored::Stored;
use crate::{Disturbed, Origin, PageKind, Part, Partial, ProcessEnd, Visit};

/// Where the workers read the pages from.
#[derive(Debug)]
pub(crate) enum Sources {
    /// The processes to read, one for each part.
    Processes(Vec<Identity>),
    /// The file, device or core dump that is the only part.
    Stored(Stored),
}

/// Counts to which all workers add.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) parts: Vec<Part>,
    pub(crate) disturbed: Disturbed,
    pub(crate) partial: Option<Partial>,
    pub(crate) shown: u64,
}

/// State that all workers share.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) plan: Mutex<Plan<'a>>,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) judge: FrameJudge<'a>,
    pub(crate) sharers: Sharers<'a>,
    pub(crate) pace: &'a Pace,
    pub(crate) page_size: usize,
}

/// Recognises zero pages, and shared pages that were already passed to a worker, by their frames.
#[derive(Debug)]
pub(crate) struct FrameJudge<'a> {
    pub(crate) zero: Option<u64>,
    /// Frames of the pages that were passed to a worker; `None` unless a shared page is passed only
    /// once.
    pub(crate) seen: Option<&'a Mutex<SeenFrames>>,
}

impl Judge for FrameJudge<'_> {
    fn is_zero(&self, frame: u64) -> bool {
        self.zero == Some(frame)
    }

    fn is_duplicate(&self, frame: u64) -> bool {
        self.seen.is_some_and(|seen| !lock(seen).insert(frame))
    }
}

/// The state of one worker thread.
struct Worker<'a, 'b, V> {
    bench: &'a Bench<'b>,
    visit: &'a mut V,
    open: Option<(usize, Opened)>,
    /// The buffer for a batch; one page larger, so that the batch can be page-aligned.
    buffer: Buffer,
    scratch: Scratch,
    fates: Vec<ReadOutcome>,
    neighbours: Neighbours,
}

/// Takes batches and passes their pages to the caller, until no batch is left.
pub(crate) fn work<V: Visit>(bench: &Bench<'_>, visit: &mut V) {
    // the buffer is filled with bytes that are not zero, so that its pages are allocated now: page
    // faults of this thread would otherwise be counted as faults of the target
    let mut buffer = Buffer::new_zeroed((BATCH + 1) * bench.page_size);
    buffer.get_mut().fill(0xff);
    let (scratch, fates) = (Scratch::default(), Vec::with_capacity(BATCH));
    let neighbours = Neighbours::default();
    let mut worker = Worker { bench, visit, open: None, buffer, scratch, fates, neighbours };
    loop {
        let batch = lock(&bench.plan).next();
        let Some(batch) = batch else { break };
        worker.show_batch(batch);
        bench.pace.wait_for_cpu_limit();
    }
}

impl<V: Visit> Worker<'_, '_, V> {
    fn show_batch(&mut self, batch: Batch) {
        match batch {
            Batch::Pages(part, wanted) => self.show_pages(part, &wanted),
            Batch::Coarse(part, span, places) => {
                let requested = self.resolve(part, &span, places);
                requested.chunks(BATCH).for_each(|wanted| self.show_pages(part, wanted));
            }
        }
    }

    /// Finds out which pages of a coarse span exist now. A drawn place without a page counts as
    /// gone.
    fn resolve(&mut self, part: usize, span: &Span, places: Option<Vec<u64>>) -> Vec<PageRequest> {
        let held = match self.bench.sources {
            Sources::Stored(stored) => stored.pages_of(span),
            Sources::Processes(_) => self.pages_of(part, span),
        };
        let matches = |page: &u64| PageRequest { page: *page, kind: span.kind, huge: span.huge };
        let expected = places.as_ref().map_or(u64::from(span.held), |places| places.len() as u64);
        let found: Vec<PageRequest> = match places {
            None => held.iter().map(matches).collect(),
            Some(places) => {
                let at = |place: &u64| held.get(usize::try_from(*place).ok()?).map(matches);
                places.iter().filter_map(at).collect()
            }
        };
        let gone = expected.saturating_sub(found.len() as u64);
        if let Some(part) = lock(&self.bench.ledger).parts.get_mut(part) {
            part.skipped.gone = part.skipped.gone.saturating_add(Pages::new(gone));
        }
        found
    }

    fn pages_of(&mut self, part: usize, span: &Span) -> Vec<u64> {
        const ENTRIES: u64 = 1 << 14;
        let (mut pages, mut entries, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let Ok(opened) = self.open_part(part) else { return pages };
        let mut at = span.first;
        while at < span.end() {
            entries.clear();
            let most = usize::try_from(ENTRIES.min(span.end() - at)).unwrap_or(1);
            let read = opened.pagemap().read(at, most, &mut entries, &mut bytes).unwrap_or(0);
            let of_file = span.kind != PageKind::Anonymous;
            let holds = |entry: &Entry| entry.is_present() && entry.is_of_file() == of_file;
            let held = (at..).zip(&entries).filter(|(_, entry)| holds(entry));
            pages.extend(held.map(|(page, _)| page));
            if read == 0 {
                break;
            }
            at += read as u64;
        }
        pages
    }

    /// Opens the process of a part, or returns the open one.
    fn open_part(&mut self, part: usize) -> Result<&Opened, ProcessEnd> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != part) {
            self.open = None;
            let identity = match self.bench.sources {
                Sources::Processes(identities) => identities.get(part).ok_or(ProcessEnd::Exited)?,
                Sources::Stored(_) => return Err(ProcessEnd::Exited),
            };
            self.open = Some((part, Opened::open(identity, self.bench.page_size)?));
        }
        self.open.as_ref().map(|(_, opened)| opened).ok_or(ProcessEnd::Exited)
    }

    fn show_pages(&mut self, part: usize, requests: &[PageRequest]) {
        let read = match self.bench.sources {
            Sources::Stored(stored) => {
                let from = align_start(self.buffer.get(), self.bench.page_size);
                let buffer = self.buffer.get_mut().get_mut(from..).unwrap_or_default();
                stored.read(requests, buffer, &mut self.fates);
                Ok(ReadEffects::default())
            }
            Sources::Processes(identities) => {
                let gone = |identity| how_ended(identity);
                self.read_process(part, requests)
                    .map_err(|ended| ended.or_else(|| identities.get(part).map(gone)))
            }
        };
        match read {
            Ok(caused) => {
                self.show_read_pages(part, requests);
                self.note_effects(part, requests, caused);
            }
            Err(ended) => self.note_gone(part, requests, ended.unwrap_or(ProcessEnd::Exited)),
        }
    }

    /// Reads pages of a process; `Err(None)` if the process's memory was gone after the read.
    fn read_process(
        &mut self,
        part: usize,
        requests: &[PageRequest],
    ) -> Result<ReadEffects, Option<ProcessEnd>> {
        self.open_part(part).map_err(Some)?;
        let Self { bench, open, buffer, scratch, fates, .. } = self;
        let Some((_, opened)) = open else { return Err(None) };
        let from = align_start(buffer.get(), bench.page_size);
        let buffer = buffer.get_mut().get_mut(from..).unwrap_or_default();
        opened.read(requests, buffer, scratch, &bench.judge, fates).map_err(|_| None)
    }

    fn show_read_pages(&mut self, part: usize, requests: &[PageRequest]) {
        let from = align_start(self.buffer.get(), self.bench.page_size);
        let bytes = self.buffer.get().get(from..).unwrap_or_default();
        let pages = bytes.chunks_exact(self.bench.page_size);
        for ((wanted, fate), page) in requests.iter().zip(&self.fates).zip(pages) {
            if let ReadOutcome::Read { exclusive, frame } = *fate {
                let PageRequest { page: number, kind, huge } = *wanted;
                let share = if kind == PageKind::Anonymous && !exclusive {
                    self.bench.sharers.share(part, number, frame, &mut self.neighbours)
                } else {
                    1.0
                };
                let origin = Origin { part, page: number, kind, exclusive, share, huge };
                self.visit.page(&origin, page);
            }
        }
    }

    fn note_effects(&self, part: usize, requests: &[PageRequest], caused: ReadEffects) {
        let mut ledger = lock(&self.bench.ledger);
        let disturbed = &mut ledger.disturbed;
        add_to(&mut disturbed.referenced_pages, caused.referenced);
        add_to(&mut disturbed.unshared_pages, caused.unshared);
        disturbed.faults += caused.faults;
        let fates = self.fates.iter().take(requests.len());
        let read = fates.clone().filter(|fate| matches!(fate, ReadOutcome::Read { .. })).count();
        ledger.shown += read as u64;
        let Some(part) = ledger.parts.get_mut(part) else { return };
        fates.for_each(|fate| count_outcome(part, *fate));
        if part.kind == crate::PartKind::Core && part.skipped.truncated > Pages::new(0) {
            ledger.partial.get_or_insert(Partial::Truncated);
        }
    }

    fn note_gone(&mut self, part: usize, requests: &[PageRequest], ended: ProcessEnd) {
        self.open = None;
        let mut ledger = lock(&self.bench.ledger);
        ledger.partial.get_or_insert(Partial::Ended);
        if let Some(part) = ledger.parts.get_mut(part) {
            part.ended.get_or_insert(ended);
            add_to(&mut part.skipped.gone, requests.len() as u64);
        }
    }
}

fn add_to(pages: &mut Pages, more: u64) {
    *pages = pages.saturating_add(Pages::new(more));
}

fn count_outcome(part: &mut Part, fate: ReadOutcome) {
    let pages = match fate {
        ReadOutcome::Read { exclusive, .. } => {
            add_to(&mut part.sampled_shared, u64::from(!exclusive && part.pid.is_some()));
            &mut part.sampled
        }
        ReadOutcome::Gone => &mut part.skipped.gone,
        ReadOutcome::Swapped => &mut part.skipped.swapped,
        ReadOutcome::Refused => &mut part.skipped.refused,
        ReadOutcome::Duplicate => &mut part.skipped.duplicate,
        ReadOutcome::Truncated => &mut part.skipped.truncated,
    };
    add_to(pages, 1);
}

/// Offset of the first page boundary in a buffer: O_DIRECT needs aligned memory.
fn align_start(buffer: &[u8], page_size: usize) -> usize {
    buffer.as_ptr().align_offset(page_size).min(page_size)
}
