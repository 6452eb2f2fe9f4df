// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of a process's address space → regions of pages of which the same is true (PAGEMAP_SCAN).
//!
//! The kernel walks page tables and tells runs, so that huge or untouched memory costs next to nothing.
//! Kernels before 6.7 have no such call, and some know fewer categories: both are found out by asking.

use std::fs::File;
use std::io;

use crate::calls;

/// What may be true of a page: bits of the kernel's PAGE_IS_… list.
pub mod category {
    /// It belongs to a file, or to shared memory. To tell it the kernel looks at each page's own
    /// record: ten times as slow.
    pub const FILE: u64 = 1 << 2;
    /// It is in RAM.
    pub const PRESENT: u64 = 1 << 3;
    /// It is in swap.
    pub const SWAPPED: u64 = 1 << 4;
    /// It is the page of zeros that everybody maps.
    pub const ZERO_PAGE: u64 = 1 << 5;
    /// It is a part of a huge page that is mapped as one.
    pub const HUGE: u64 = 1 << 6;
    /// Touching it is an error. Known to fewer kernels than the others.
    pub const GUARD: u64 = 1 << 8;
}

/// `struct page_region`: pages one after the other of which the same is true. Addresses in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Region {
    /// Address of the first page.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Those of the categories asked for that are true of them.
    pub categories: u64,
}

/// What to look for, in bytes of address.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// From here.
    pub start: u64,
    /// Up to here.
    pub end: u64,
    /// Pages in any of these categories.
    pub any_of: u64,
    /// Which categories to tell of them.
    pub tell: u64,
    /// Pages after which to come back.
    pub most: u64,
}

/// Fills `regions`; answers how many, and the address where it stopped.
///
/// # Errors
/// ENOTTY where the kernel has no such call, EINVAL where it does not know a category.
pub(crate) fn scan(
    pagemap: &File,
    search: Search,
    regions: &mut [Region],
) -> io::Result<(usize, u64)> {
    calls::pagemap_scan(pagemap, search, regions)
}
