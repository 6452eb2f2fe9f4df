// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the weight of a page at one of the places where it is mapped.
//!
//! After a fork, parent and child have the same private pages at the same addresses. Summed over
//! the processes, such a page would count once for each of them, although swap stores it once. So a
//! drawn place gets the weight 1/k if its page is at k places of the population.
//!
//! With frame numbers (root), the other processes of the target are searched for the same frame at
//! the same address. Processes outside the target are ignored, because swap stores the page once in
//! any case. `/proc/kpagecount` has the number of all mappings, so the search ends when that number
//! is found. A page that KSM merged may be at any address, so its weight is computed from that
//! number alone.
//!
//! Without frame numbers, `smaps` shows for each mapping how much of it is shared, and its
//! proportional size; from these follows the average weight of its shared pages. The sum of the
//! weights is correct if all processes that share a page are in the target; it is too small if
//! others are outside. To produce `smaps`, the kernel walks all pages. If that would take more than
//! a quarter of the time limit (as in the small sample of `report`), the weight is computed from
//! the number of processes that have any shared page at the same address.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pagewise_procmem::frames::Frames;
use pagewise_procmem::pagemap::{Entry, Pagemap};
use pagewise_procmem::smaps::{self, Proportions};

use crate::identity::Identity;
use crate::lock::lock;
use crate::spans::Spans;
use crate::{PageKind, Sharing};

/// Maximum number of processes that are checked for a page; if there are more, their number is
/// extrapolated from these.
const MOST_ASKED: usize = 64;
/// Maximum number of processes whose files are kept open.
const MOST_OPEN: usize = 256;

/// State by which all threads find out which processes share a page.
#[derive(Debug)]
pub(crate) struct Sharers<'a> {
    sharing: Sharing,
    identities: &'a [Identity],
    spans: &'a [Spans],
    kernel: &'a Frames,
    proportions: &'a Mutex<SmapsShares>,
    /// The time limit of sampling as a whole; `None` for no limit.
    budget: Option<Duration>,
}

/// Sharing of pages according to `smaps`, for the parts for which `smaps` was read.
#[derive(Debug, Default)]
pub(crate) struct SmapsShares {
    of_parts: HashMap<usize, Proportions>,
    /// Time that reading `smaps` took so far.
    spent: Duration,
}

/// The processes that one thread has open to compare frames; the key is the part.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    open: HashMap<usize, Option<Pagemap>>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Neighbours {
    fn entry(&mut self, part: usize, pid: u32, page: u64) -> Entry {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&part) {
            self.open.clear();
        }
        let pagemap = self.open.entry(part).or_insert_with(|| Pagemap::open(pid).ok());
        self.entries.clear();
        let read = pagemap
            .as_ref()
            .and_then(|pagemap| pagemap.read(page, 1, &mut self.entries, &mut self.bytes).ok());
        read.and(self.entries.first()).copied().unwrap_or_default()
    }
}

impl<'a> Sharers<'a> {
    pub(crate) fn new(
        sharing: Sharing,
        identities: &'a [Identity],
        spans: &'a [Spans],
        kernel: &'a Frames,
        (proportions, budget): (&'a Mutex<SmapsShares>, Option<Duration>),
    ) -> Self {
        Self { sharing, identities, spans, kernel, proportions, budget }
    }

    /// Weight of a private page that is not marked as exclusive to its process.
    pub(crate) fn share(
        &self,
        part: usize,
        page: u64,
        frame: Option<u64>,
        neighbours: &mut Neighbours,
    ) -> f64 {
        match (self.sharing, frame) {
            (Sharing::Weighed, Some(frame)) => {
                1.0 / self.places_of_frame(part, page, frame, neighbours).max(1.0)
            }
            (Sharing::Proportional, _) => self.average_share(part, page).unwrap_or_else(|| {
                let shared = |entry: Entry| {
                    entry.is_present() && !entry.is_of_file() && !entry.is_exclusive()
                };
                1.0 / (1.0 + self.count_others(part, page, u64::MAX, neighbours, shared).0)
            }),
            _ => 1.0,
        }
    }

    /// Number of places in the population that have this frame at this address.
    fn places_of_frame(
        &self,
        part: usize,
        page: u64,
        frame: u64,
        neighbours: &mut Neighbours,
    ) -> f64 {
        let mappings = self.kernel.mappings(frame);
        let most = mappings.unwrap_or(u64::MAX);
        let same = |entry: Entry| entry.frame() == Some(frame);
        let (others, all_found) = self.count_others(part, page, most - 1, neighbours, same);
        match mappings.filter(|_| !all_found && self.kernel.is_merged(frame)) {
            Some(mappings) => mappings as f64,
            None => (1.0 + others).min(most as f64),
        }
    }

    /// Number of other processes that have such a page at this address, and whether counting ended
    /// at [`MOST_ASKED`].
    fn count_others(
        &self,
        part: usize,
        page: u64,
        most: u64,
        neighbours: &mut Neighbours,
        is_such: impl Fn(Entry) -> bool,
    ) -> (f64, bool) {
        let holds = |other: &usize| {
            let spans = self.spans.get(*other).filter(|_| *other != part);
            spans.is_some_and(|spans| spans.may_hold(page, PageKind::Anonymous))
        };
        let candidates: Vec<usize> = (0..self.spans.len()).filter(holds).collect();
        let step = candidates.len().div_ceil(MOST_ASKED).max(1);
        let (mut found, mut asked) = (0u64, 0u64);
        for other in candidates.iter().step_by(step) {
            if found >= most {
                break;
            }
            let Some(identity) = self.identities.get(*other) else { continue };
            asked += 1;
            found += u64::from(is_such(neighbours.entry(*other, identity.pid, page)));
        }
        let of_asked = match step {
            1 => found as f64,
            _ => found as f64 * candidates.len() as f64 / asked.max(1) as f64,
        };
        (of_asked, found >= most)
    }

    /// Average weight of the shared pages in the mapping of a page; `None` if there is no time to
    /// read `smaps`.
    fn average_share(&self, part: usize, page: u64) -> Option<f64> {
        let identity = self.identities.get(part)?;
        let mut known = lock(self.proportions);
        if !known.of_parts.contains_key(&part) {
            let pages = self.spans.get(part).map_or(0, Spans::total);
            if self.budget.is_some_and(|budget| known.spent + reading_time(pages) > budget / 4) {
                return None;
            }
            let began = Instant::now();
            known.of_parts.insert(part, smaps::read_proportions(identity.pid));
            known.spent += began.elapsed();
        }
        known.of_parts.get(&part)?.of_page(page).or(Some(1.0))
    }
}

/// Estimated time for reading `smaps` of so many pages, as measured with pages of 4 KiB.
fn reading_time(pages: u64) -> Duration {
    const NANOS_PER_PAGE: u64 = 46;
    Duration::from_nanos(pages.saturating_mul(NANOS_PER_PAGE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pagewise_model::Name;
    use pagewise_testkit::Target;

    use super::*;
    use crate::Options;
    use crate::candidate::Candidate;
    use crate::find::{Finder, Method};
    use crate::gather::gather;
    use crate::pace::Pace;
    use pagewise_procmem::pagemap::{can_see_frames, find_zero_frame};

    const MIB: f64 = 256.0;

    /// Sum of the weights of all private pages of these processes.
    fn pages(pids: &[u32], sharing: Sharing, budget: Option<Duration>) -> f64 {
        let (method, zero_frame) = (Method::ScanWithGuards, find_zero_frame(4096));
        let kernel = Arc::default();
        let finder = Finder { method, page_size: 4096, file_backed: false, zero_frame, kernel };
        let candidate = |pid: &u32| Candidate { pid: *pid, name: Name::default(), cgroup: None };
        let candidates: Vec<Candidate> = pids.iter().map(candidate).collect();
        let found = gather(&candidates, &finder, &Pace::start(Options::default()));
        let (kernel, known) = (Frames::open(), Mutex::default());
        let sharers =
            Sharers::new(sharing, &found.identities, &found.spans, &kernel, (&known, budget));
        let (mut neighbours, mut own) = (Neighbours::default(), Neighbours::default());
        let mut sum = 0.0;
        for (part, (spans, pid)) in found.spans.iter().zip(pids).enumerate() {
            let spans = (0..spans.len()).filter_map(|at| spans.get(at));
            for page in spans.flat_map(|span| span.first..span.end()) {
                let entry = own.entry(part, *pid, page);
                let is_shared = !entry.is_exclusive() && !entry.is_of_file();
                sum += if is_shared {
                    sharers.share(part, page, entry.frame(), &mut neighbours)
                } else {
                    1.0
                };
            }
        }
        sum
    }

    /// Computes the sum by frames (if available), by proportional sizes, and by addresses (if there
    /// is no time for the others): a parent and five children share 4 MiB, of which each child has
    /// written a sixteenth. In addition, each has a little memory of its own.
    #[test]
    fn pages_that_a_family_shares_count_once() {
        let target = Target::start("family 4 5");
        let children = target.message.split(' ').map(|pid| pid.parse().unwrap());
        let pids: Vec<u32> = std::iter::once(target.pid()).chain(children).collect();
        let expected = (4.0 + 5.0 / 4.0) * MIB;
        let within = |pages: f64| expected <= pages + 2.0 && pages < expected + 6.0 * 80.0;
        let by_size = pages(&pids, Sharing::Proportional, None);
        assert!(within(by_size), "{by_size}, {expected} of the 4 MiB");
        let by_address = pages(&pids, Sharing::Proportional, Some(Duration::ZERO));
        assert!(within(by_address), "{by_address}, {expected} of the 4 MiB");
        if can_see_frames(4096) {
            let by_frame = pages(&pids, Sharing::Weighed, None);
            assert!(within(by_frame), "{by_frame}, {expected} of the 4 MiB");
            // if two of the six processes are the target, the other four have no effect
            let two = pages(&pids[1..3], Sharing::Weighed, None);
            assert!((4.25 * MIB - 2.0..4.25 * MIB + 160.0).contains(&two), "{two}");
        }
        let each = pages(&pids, Sharing::One, None);
        assert!(each > 24.0 * MIB, "{each}");
    }
}
