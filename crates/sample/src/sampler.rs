// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the pages of a target, and passes a sample of them to the caller's [`Visit`].

use std::path::Path;
use std::sync::{Arc, Mutex};

use pagewise_model::{Bytes, Pages, Problem, Reading, Snapshot, Source};
use pagewise_observe::{HostRoot, Scope, snapshot};
use pagewise_procmem::frames::Frames;
use pagewise_procmem::pagemap::{can_see_frames, find_zero_frame};

use crate::candidate::Candidate;
use crate::find::{Finder, Method};
use crate::gather::{GatheredRuns, empty_part, gather};
use crate::lock::lock;
use crate::pace::Pace;
use crate::permute::Permutation;
use crate::plan::Plan;
use crate::seen::SeenFrames;
use crate::share::Sharers;
use crate::spans::Spans;
use crate::stored::{Flaws, Stored, display_name};
use crate::visit::Visit;
use crate::work::{Bench, FrameJudge, Ledger, Sources, work};
use crate::{
    Choice, Disturbed, OpenError, Options, Part, PartKind, Partial, Sample, Sharing, Target,
    exact_needs, share, who,
};

/// What one call of [`Sampler::draw`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// Number of pages that this call passed to the workers.
    pub shown: Pages,
    /// Number of pages of the population that are not drawn yet.
    pub left: Pages,
    /// Why fewer pages were drawn than requested; `None` if all were drawn.
    pub partial: Option<Partial>,
}

/// The pages of the target that were found, and the state of sampling.
#[derive(Debug)]
pub struct Sampler {
    sample: Sample,
    sources: Sources,
    spans: Vec<Spans>,
    pace: Pace,
    order: Permutation,
    /// Number of pages drawn so far.
    drawn: u64,
    /// Frame of the kernel's zero page, if frame numbers are available.
    zero: Option<u64>,
    /// Frames of the pages that were passed to a worker; `None` unless a shared page is passed only
    /// once.
    frames: Option<Mutex<SeenFrames>>,
    /// The kernel's information about page frames, if available.
    kernel: Arc<Frames>,
    /// Average weights of shared pages from `smaps`, for the parts for which `smaps` was read.
    proportions: Mutex<share::SmapsShares>,
}

/// Finds the pages of a target, without reading a page. From then on, this process is not dumpable.
///
/// # Errors
/// If there is nothing to sample: see [`OpenError`]. If the target is several processes, those that
/// cannot be read are no error; they are listed in [`Sample::not_read`].
pub fn open(host: &HostRoot, target: &Target, options: Options) -> Result<Sampler, OpenError> {
    if !host.is_live() {
        return Err(OpenError::NotLive(host.label().clone()));
    }
    // before the first page is read, so that no core dump of this process ever contains one
    pagewise_sandbox::forbid_dumps();
    let pace = Pace::start(options);
    let sampler = match target {
        Target::File(path) | Target::Device(path) | Target::Core(path) => {
            open_stored(target, path, pace)?
        }
        _ => open_processes(target, &who::find_candidates(host, target)?, pace)?,
    };
    sampler.check_memory(host)
}

fn open_processes(
    target: &Target,
    candidates: &[Candidate],
    pace: Pace,
) -> Result<Sampler, OpenError> {
    let page_size = rustix::param::page_size() as u64;
    let (zero, told) = (find_zero_frame(page_size), can_see_frames(page_size));
    let kernel = Arc::new(if told { Frames::open() } else { Frames::default() });
    let finder = Finder {
        method: Method::ScanWithGuards,
        page_size,
        file_backed: pace.options().file_backed,
        zero_frame: zero,
        kernel: Arc::clone(&kernel),
    };
    let gathered = gather(candidates, &finder, &pace);
    if let (Target::Process(pid), Some(unread)) = (target, gathered.not_read.first()) {
        return Err(OpenError::Process { pid: *pid, why: unread.why });
    }
    let exact = pace.options().choice == Choice::Exact;
    let frames = (exact && told).then(Mutex::default);
    let GatheredRuns { parts, identities, spans, not_read, partial, problems, .. } = gathered;
    let sharing = match (&frames, parts.len()) {
        (Some(_), _) => Sharing::ByFrame,
        // a page of a single process has a weight, too, because KSM may have merged it
        (None, _) if told => Sharing::Weighed,
        (None, ..=1) => Sharing::One,
        (None, _) => Sharing::Proportional,
    };
    let mut sample = empty(&pace, page_size);
    sample = Sample { parts, not_read, sharing, partial, problems, ..sample };
    let sampler = Sampler::new(sample, Sources::Processes(identities), spans, pace, frames);
    Ok(Sampler { zero, kernel, ..sampler })
}

fn open_stored(target: &Target, path: &Path, pace: Pace) -> Result<Sampler, OpenError> {
    let page_size = rustix::param::page_size() as u64;
    let (stored, kind, mut flaws) = match target {
        Target::Device(_) => (Stored::device(path, page_size)?, PartKind::Device, Flaws::default()),
        Target::Core(_) => {
            let (stored, flaws) = Stored::core(path, page_size)?;
            (stored, PartKind::Core, flaws)
        }
        _ => (Stored::file(path, page_size)?, PartKind::File, Flaws::default()),
    };
    let mut spans = Spans::new(1 << 17);
    flaws.truncated = stored.find(pace.options().file_backed, |run| spans.push(run));
    let mut part = empty_part(kind, display_name(path));
    part.pages = Pages::new(spans.total());
    part.skipped.truncated = Pages::new(flaws.truncated);
    let mut sample = empty(&pace, page_size);
    sample.parts = vec![part];
    sample.partial = (flaws.truncated > 0).then_some(Partial::Truncated);
    sample.problems.extend(problem_of_flaws(path, flaws));
    Ok(Sampler::new(sample, Sources::Stored(stored), vec![spans], pace, None))
}

fn problem_of_flaws(path: &Path, flaws: Flaws) -> Option<Problem> {
    let found = format!("{} that are not", flaws.garbled);
    let at = Source::file(display_name(path).as_str());
    (flaws.garbled > 0).then(|| {
        let expected = "segments of whole pages, apart from each other in memory and in the file, and at most \
                        16 MiB of notes";
        Problem::new(&at, expected, found.as_bytes())
    })
}

fn empty(pace: &Pace, page_size: u64) -> Sample {
    Sample {
        page_size: Bytes::new(page_size),
        choice: pace.options().choice,
        parts: Vec::new(),
        not_read: Vec::new(),
        sharing: Sharing::One,
        disturbed: Disturbed::default(),
        partial: None,
        problems: Vec::new(),
    }
}

impl Sampler {
    fn new(
        sample: Sample,
        sources: Sources,
        spans: Vec<Spans>,
        pace: Pace,
        frames: Option<Mutex<SeenFrames>>,
    ) -> Self {
        let order = Permutation::new(sample.pages().get(), pace.options().seed);
        let (proportions, kernel, zero) = (Mutex::default(), Arc::default(), None);
        Self { sample, sources, spans, pace, order, drawn: 0, zero, frames, kernel, proportions }
    }

    /// Returns an error if all pages are requested and the host has too little memory for that.
    fn check_memory(self, host: &HostRoot) -> Result<Self, OpenError> {
        if self.sample.choice != Choice::Exact || self.pace.options().bounded {
            return Ok(self);
        }
        let (pages, needs) = (self.pages(), exact_needs(self.pages()));
        let available = available_memory(&snapshot(host, &Scope::glance()));
        if needs.get() > available.get() / 4 {
            return Err(OpenError::TooLarge { pages, needs, available });
        }
        Ok(self)
    }

    /// Page size of the host, in bytes.
    #[must_use]
    pub fn page_size(&self) -> Bytes {
        self.sample.page_size
    }

    /// Number of pages that can be drawn: the population of the sample.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.sample.pages()
    }

    /// The sources of pages; [`Origin::part`](crate::Origin::part) is an index into these.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.sample.parts
    }

    /// The result so far, before and between draws.
    #[must_use]
    pub fn so_far(&self) -> &Sample {
        &self.sample
    }

    /// Passes the pages that [`Options::choice`] asks for to the workers.
    pub fn run<V: Visit>(&mut self, workers: &mut [V]) -> Drawn {
        let requested = self.sample.choice.pages_of(self.pages());
        self.draw(requested.get(), workers)
    }

    /// Draws up to `more` pages that were not drawn before, uniformly over all sources together, and
    /// passes them to the workers; if these are all pages, in order of address. Uses one thread for
    /// each worker; without workers, no page is drawn.
    pub fn draw<V: Visit>(&mut self, more: u64, workers: &mut [V]) -> Drawn {
        let (total, partial) = (self.pages().get(), None);
        let more = more.min(total - self.drawn);
        if workers.is_empty() || more == 0 {
            return Drawn { shown: Pages::new(0), left: Pages::new(total - self.drawn), partial };
        }
        let (ledger, partial, drawn) = self.run_plan(more, workers);
        self.drawn = drawn;
        self.sample.parts = ledger.parts;
        self.sample.disturbed = ledger.disturbed;
        self.sample.partial = [partial, ledger.partial].into_iter().flatten().min();
        Drawn { shown: Pages::new(ledger.shown), left: Pages::new(total - self.drawn), partial }
    }

    /// Runs the workers; returns their counts, why they ended early, and the total number of pages
    /// drawn so far.
    fn run_plan<V: Visit>(
        &mut self,
        more: u64,
        workers: &mut [V],
    ) -> (Ledger, Option<Partial>, u64) {
        let ledger = Ledger {
            parts: std::mem::take(&mut self.sample.parts),
            disturbed: self.sample.disturbed,
            partial: self.sample.partial,
            shown: 0,
        };
        let page_size = usize::try_from(self.sample.page_size.get()).unwrap_or(4096);
        let (plan, until) = self.plan(more);
        let identities = match &self.sources {
            Sources::Processes(identities) => identities.as_slice(),
            Sources::Stored(_) => &[],
        };
        let bench = Bench {
            sharers: Sharers::new(
                self.sample.sharing,
                identities,
                &self.spans,
                &self.kernel,
                (&self.proportions, self.pace.options().budget),
            ),
            sources: &self.sources,
            plan: Mutex::new(plan),
            ledger: Mutex::new(ledger),
            judge: FrameJudge { zero: self.zero, seen: self.frames.as_ref() },
            pace: &self.pace,
            page_size,
        };
        run_all(&bench, workers);
        let (partial, at) = {
            let plan = lock(&bench.plan);
            (plan.partial, plan.next_place())
        };
        let ledger = std::mem::take(&mut *lock(&bench.ledger));
        (ledger, partial, at.unwrap_or(until))
    }

    /// Plans a sweep in order of address if all pages are requested at once, otherwise a draw of
    /// the next pages of the permutation.
    fn plan(&self, more: u64) -> (Plan<'_>, u64) {
        let until = self.drawn + more;
        if self.drawn == 0 && until == self.pages_in_spans() {
            return (Plan::sweep(&self.spans, &self.pace), until);
        }
        (Plan::draw(&self.spans, &self.pace, self.order, self.drawn..until), until)
    }

    fn pages_in_spans(&self) -> u64 {
        self.spans.iter().map(Spans::total).sum()
    }

    /// Ends sampling and returns its result.
    #[must_use]
    pub fn finish(self) -> Sample {
        self.sample
    }
}

/// Runs the workers, the first on this thread, so that a single worker needs no other thread.
fn run_all<V: Visit>(bench: &Bench<'_>, workers: &mut [V]) {
    let Some((own, others)) = workers.split_first_mut() else { return };
    std::thread::scope(|scope| {
        for visit in others {
            scope.spawn(|| work(bench, visit));
        }
        work(bench, own);
    });
}

/// Available memory of the host in bytes; 0 if it cannot be read.
fn available_memory(snapshot: &Snapshot) -> Bytes {
    let memory = &snapshot.memory;
    let known = |reading: &Reading<Bytes>| reading.get();
    known(&memory.available).or_else(|| known(&memory.free)).unwrap_or_default()
}
