// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of a pool: its state and counters.

use std::fmt;

use crate::arena::Counts;
use crate::machine::{Availability, Switch};
use crate::tally::Tallied;

/// The state and counters of a pool; sizes are in bytes. Blocks count with the size of their class,
/// not with the requested size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// How the pool requests huge pages.
    pub switch: Switch,
    /// The machine's setting when the pool was created.
    pub machine: Availability,
    /// The unit that the pool maps and returns: the size of a huge page.
    pub huge_page: usize,
    /// Bytes of address space that the pool has mapped.
    pub mapped: usize,
    /// The part of `mapped` in empty huge pages.
    pub retained: usize,
    /// The part of `mapped` that was in huge pages when it was mapped or collapsed.
    pub huge: usize,
    /// The part of `mapped` in small pages, because the kernel provided no huge page or huge pages
    /// are switched off.
    pub small: usize,
    /// The part of `mapped` that was advised and not checked: large blocks, and everything with
    /// [`Switch::Advised`]. See `Pool::coverage`.
    pub unchecked: usize,
    /// Error number with which the kernel last refused a huge page, as in `errno.h`; `None` if it
    /// never did.
    pub huge_errno: Option<i32>,
    /// Number of blocks in use.
    pub live_blocks: u64,
    /// Bytes of blocks in use.
    pub live: u64,
    /// Number of blocks allocated since the pool was created.
    pub allocations: u64,
    /// Number of blocks released since the pool was created.
    pub releases: u64,
    /// Number of times that the kernel refused memory.
    pub out_of_memory: u64,
    /// Number of unchecked releases whose address was no block in use: bugs in the program.
    pub wrong_releases: u64,
}

impl Statistics {
    pub(crate) fn new(
        (switch, machine, huge_page): (Switch, Availability, usize),
        counts: &Counts,
        tallied: Tallied,
    ) -> Self {
        Self {
            switch,
            machine,
            huge_page,
            mapped: counts.mapped,
            retained: counts.retained,
            huge: counts.huge,
            small: counts.small,
            unchecked: counts.unchecked,
            huge_errno: Some(counts.huge_errno).filter(|errno| *errno != 0),
            // Other threads continue meanwhile: a release may be counted before its allocation.
            live_blocks: tallied.allocations.saturating_sub(tallied.releases),
            live: tallied.allocated.saturating_sub(tallied.released),
            allocations: tallied.allocations,
            releases: tallied.releases,
            out_of_memory: counts.out_of_memory,
            wrong_releases: counts.wrong_releases,
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "{:.1} MiB mapped: {:.1} huge, {:.1} small, {:.1} not checked; {:.1} empty",
            mib(self.mapped),
            mib(self.huge),
            mib(self.small),
            mib(self.unchecked),
            mib(self.retained),
        )?;
        let live = self.live as f64 / f64::from(1 << 20);
        write!(f, "{} blocks in use, {live:.1} MiB", self.live_blocks)?;
        write!(f, "; PAGEWISE_THP {}, machine {}", self.switch.word(), self.machine.word())?;
        if let Some(errno) = self.huge_errno {
            let error = std::io::Error::from_raw_os_error(errno);
            write!(f, "\nthe kernel refused a huge page: {error}")?;
        }
        Ok(())
    }
}
