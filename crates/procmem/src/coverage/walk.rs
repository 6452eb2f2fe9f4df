// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the runs of pages in a range of addresses that are in RAM or in swap, in order.
//!
//! With PAGEMAP_SCAN, the kernel returns runs. Without it, each entry of pagemap is read and
//! decoded; entries do not show which pages are huge or the zero page.

use std::io;

use pagewise_model::MappingKind;
use rustix::io::Errno;

use super::memory::Memory;
use crate::pagemap::Entry;
use crate::scan::{Region, Search, category};

/// Number of regions that one PAGEMAP_SCAN call requests.
const REGIONS: usize = 512;
/// Number of pages after which the kernel releases the mmap lock. With base pages it holds the lock
/// for less than a millisecond.
const MOST_AT_ONCE: u64 = 1 << 14;
/// Number of entries of pagemap that are read at one time.
const ENTRIES: usize = 1 << 12;

/// Consecutive pages of a process in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) what: PageState,
}

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageState {
    Anonymous { huge: bool },
    File { huge: bool },
    Swapped,
    Zero,
}

/// Creates a search for pages in RAM or in swap, with their categories. Requesting the categories
/// in `more` makes the search slower.
fn search_in_use(start: u64, end: u64, more: u64) -> Search {
    use category::{HUGE, PRESENT, SWAPPED, ZERO_PAGE};
    let any_of = PRESENT | SWAPPED;
    Search { start, end, any_of, tell: any_of | ZERO_PAGE | HUGE | more, most: MOST_AT_ONCE }
}

impl Memory {
    /// Whether this kernel has PAGEMAP_SCAN.
    pub fn can_scan(&self) -> bool {
        let mut region = [Region::default()];
        let asked = self.pagemap.scan(search_in_use(0, self.page, 0), &mut region);
        !matches!(asked, Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTTY))
    }

    /// Calls `see` with each run between two addresses, using PAGEMAP_SCAN. If a mapping's kind
    /// already says that all of its pages are file pages, or that none are, the kernel is not asked
    /// for this category, because that would be slow.
    pub(super) fn scan(
        &self,
        [start, end]: [u64; 2],
        kind: MappingKind,
        mut see: impl FnMut(Run),
    ) -> io::Result<()> {
        let of_file = matches!(kind, MappingKind::PrivateFile | MappingKind::Special);
        let files = if of_file { category::FILE } else { 0 };
        let all = if kind == MappingKind::Shared { category::FILE } else { 0 };
        let mut regions = [Region::default(); REGIONS];
        let mut at = start;
        while at < end {
            let (found, stopped) =
                self.pagemap.scan(search_in_use(at, end, files), &mut regions)?;
            for region in regions.get(..found).unwrap_or_default() {
                see(Run {
                    start: region.start,
                    end: region.end,
                    what: page_state(region.categories | all),
                });
            }
            // if the kernel made no progress, this loop would never end
            if stopped <= at {
                break;
            }
            at = stopped;
        }
        Ok(())
    }

    /// Calls `see` with each run of pages in the same state, by reading pagemap entry by entry.
    pub(super) fn read(&self, [start, end]: [u64; 2], mut see: impl FnMut(Run)) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut at = start;
        while at < end {
            let most = usize::try_from((end - at) / self.page).unwrap_or(ENTRIES).min(ENTRIES);
            if self.entries(at, most, &mut entries)? == 0 {
                break;
            }
            for alike in entries.chunk_by(|a, b| decode_entry(*a) == decode_entry(*b)) {
                let next = at + alike.len() as u64 * self.page;
                if let Some(what) = alike.first().and_then(|entry| decode_entry(*entry)) {
                    see(Run { start: at, end: next, what });
                }
                at = next;
            }
        }
        Ok(())
    }

    /// Reads at most `most` entries of pagemap, from the page at `address` on.
    pub(super) fn entries(
        &self,
        address: u64,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> io::Result<usize> {
        entries.clear();
        self.pagemap.read(address / self.page, most, entries, &mut Vec::new())
    }
}

fn page_state(categories: u64) -> PageState {
    let is = |category| categories & category != 0;
    let huge = is(category::HUGE);
    if !is(category::PRESENT) {
        PageState::Swapped
    } else if is(category::ZERO_PAGE) {
        PageState::Zero
    } else if is(category::FILE) {
        PageState::File { huge }
    } else {
        PageState::Anonymous { huge }
    }
}

/// Decodes an entry of pagemap; `None` for a page that is neither in RAM nor in swap.
pub(super) fn decode_entry(entry: Entry) -> Option<PageState> {
    if entry.is_present() && entry.is_of_file() {
        Some(PageState::File { huge: false })
    } else if entry.is_present() {
        Some(PageState::Anonymous { huge: false })
    } else if entry.is_swapped() {
        Some(PageState::Swapped)
    } else {
        None
    }
}
