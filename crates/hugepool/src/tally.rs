// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts allocated and released blocks. Each thread has its own counters, which no other thread
//! writes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::size_class::{KEPT, SizeClass};

/// The number of blocks of each class that one thread allocated and released in one pool. Only that
/// thread writes; any thread may read.
#[derive(Debug)]
pub(crate) struct Tally {
    allocations: [AtomicU64; KEPT],
    releases: [AtomicU64; KEPT],
}

impl Default for Tally {
    fn default() -> Self {
        let zeros = || [const { AtomicU64::new(0) }; KEPT];
        Self { allocations: zeros(), releases: zeros() }
    }
}

/// Sums of the counters of threads. The size of a block is that of its class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tallied {
    pub(crate) allocations: u64,
    pub(crate) allocated: u64,
    pub(crate) releases: u64,
    pub(crate) released: u64,
}

impl Tallied {
    pub(crate) fn add(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.allocated += other.allocated;
        self.releases += other.releases;
        self.released += other.released;
    }

    pub(crate) fn allocate(&mut self, bytes: usize) {
        self.allocations += 1;
        self.allocated += bytes as u64;
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.releases += 1;
        self.released += bytes as u64;
    }
}

impl Tally {
    #[inline]
    pub(crate) fn allocate(&self, class: SizeClass) {
        count(&self.allocations[class.index()]);
    }

    #[inline]
    pub(crate) fn release(&self, class: SizeClass) {
        count(&self.releases[class.index()]);
    }

    pub(crate) fn read(&self) -> Tallied {
        let mut tallied = Tallied::default();
        let counts = self.allocations.iter().zip(&self.releases);
        for (class, (allocations, releases)) in SizeClass::all().zip(counts) {
            let allocations = allocations.load(Ordering::Relaxed);
            let releases = releases.load(Ordering::Relaxed);
            tallied.allocations += allocations;
            tallied.allocated += allocations * class.size() as u64;
            tallied.releases += releases;
            tallied.released += releases * class.size() as u64;
        }
        tallied
    }
}

/// Increments a counter that only this thread writes, without a locked instruction.
#[inline]
fn count(to: &AtomicU64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
