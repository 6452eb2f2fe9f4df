// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel with one cgroup whose pages are known, to test decisions over simulated days. A page here
//! is as large as a slice. Like multi-gen LRU it has four generations: an aging moves the pages that
//! were accessed since the last one into the youngest, and reclaim takes the oldest first.

use std::time::Duration;

use pagewise_model::Bytes;

use super::*;

/// Pages of the kernel in one page of the simulator.
const PAGES: u64 = SLICE.get() / 4096;
/// CPU time of one refault.
pub(super) const COST: Duration = Duration::from_micros(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Anon,
    File,
    Shmem,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    kind: Kind,
    is_there: bool,
    was_there: bool,
    generation: u64,
    is_accessed: bool,
}

/// The cgroup of a simulated kernel.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    pages: Vec<Page>,
    youngest: u64,
    /// When each generation was made.
    made: Vec<Duration>,
    pub(super) refaults: u64,
    pub(super) cpu: Duration,
    pub(super) has_ages: bool,
    pub(super) can_choose: bool,
    pub(super) swap: SwapRoom,
    random: fastrand::Rng,
}

impl Simulated {
    pub(super) fn new(kinds: &[(Kind, usize)], seed: u64) -> Self {
        let page = |kind| Page {
            kind,
            is_there: false,
            was_there: false,
            generation: 0,
            is_accessed: false,
        };
        let pages = kinds
            .iter()
            .flat_map(|(kind, count)| std::iter::repeat_n(page(*kind), *count))
            .collect();
        Self {
            pages,
            youngest: 3,
            made: vec![Duration::ZERO; 4],
            refaults: 0,
            cpu: Duration::ZERO,
            has_ages: true,
            can_choose: true,
            swap: SwapRoom::Ram(Bytes::new(1 << 40)),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    pub(super) fn access(&mut self, number: usize) {
        let page = &mut self.pages[number];
        if !page.is_there {
            if page.was_there {
                self.refaults += PAGES;
                self.cpu += COST * u32::try_from(PAGES).unwrap();
            }
            (page.is_there, page.was_there) = (true, true);
            page.generation = self.youngest;
        }
        page.is_accessed = true;
    }

    /// The program frees the page.
    pub(super) fn free(&mut self, number: usize) {
        (self.pages[number].is_there, self.pages[number].was_there) = (false, false);
    }

    pub(super) fn is_there(&self, number: usize) -> bool {
        self.pages[number].is_there
    }

    pub(super) fn resident(&self) -> u64 {
        self.pages.iter().filter(|page| page.is_there).count() as u64
    }

    pub(super) fn age(&mut self, now: Duration) {
        for page in &mut self.pages {
            if std::mem::take(&mut page.is_accessed) {
                page.generation = self.youngest;
            }
        }
        self.youngest += 1;
        self.made.push(now);
        for page in &mut self.pages {
            page.generation = page.generation.max(self.youngest - 3);
        }
    }

    /// What `GroupGenerations::idle` says.
    pub(super) fn idle(&self, at_least: Duration) -> IdleMemory {
        let last = self.made[usize::try_from(self.youngest).unwrap()];
        let is_proved = |page: &&Page| {
            let next = usize::try_from(page.generation).unwrap() + 1;
            page.is_there
                && self.made.get(next).is_some_and(|at| last.saturating_sub(*at) >= at_least)
        };
        let size = |is_file: bool| {
            let all = self.pages.iter().filter(is_proved);
            let count = all.filter(|page| (page.kind == Kind::File) == is_file).count();
            Bytes::new(count as u64 * SLICE.get())
        };
        IdleMemory { anon: size(false), file: size(true) }
    }

    fn size(&self, kind: Kind) -> Bytes {
        let count = self.pages.iter().filter(|page| page.is_there && page.kind == kind).count();
        Bytes::new(count as u64 * SLICE.get())
    }

    pub(super) fn reading(&self) -> ReclaimReading {
        ReclaimReading {
            current: Bytes::new(self.resident() * SLICE.get()),
            anon: self.size(Kind::Anon),
            file: self.size(Kind::File),
            mapped: Bytes::new(0),
            shmem: self.size(Kind::Shmem),
            unevictable: Bytes::new(0),
            protected: Bytes::new(0),
            refaults: self.refaults,
            cpu: self.cpu,
            stalled: Some(Duration::ZERO),
            swap: self.swap,
            refault_cost: COST,
            can_choose: self.can_choose,
        }
    }

    /// Takes the oldest pages, of equal ones any; an accessed one gets a second chance.
    pub(super) fn reclaim(&mut self, bytes: Bytes, kind: ReclaimKind) -> Bytes {
        let has_swap = self.swap != SwapRoom::None;
        let may = |page: &Page| match (kind, page.kind) {
            (ReclaimKind::File, Kind::File) | (ReclaimKind::Any, Kind::File) => true,
            (ReclaimKind::Anon | ReclaimKind::Any, Kind::Anon | Kind::Shmem) => has_swap,
            _ => false,
        };
        let mut order: Vec<usize> = (0..self.pages.len()).collect();
        self.random.shuffle(&mut order);
        order.retain(|number| self.pages[*number].is_there && may(&self.pages[*number]));
        order.sort_by_key(|number| {
            let page = &self.pages[*number];
            if page.is_accessed { self.youngest } else { page.generation }
        });
        let wanted = usize::try_from(bytes.get().div_ceil(SLICE.get())).unwrap();
        let taken: Vec<usize> = order.into_iter().take(wanted).collect();
        for number in &taken {
            self.pages[*number].is_there = false;
        }
        Bytes::new(taken.len() as u64 * SLICE.get())
    }
}
