// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions of a process's address space whose pages are in the same categories (PAGEMAP_SCAN).
//!
//! The kernel walks page tables and returns runs, so huge or untouched memory costs next to
//! nothing. Kernels before 6.7 have no such call, and some know fewer categories: both are probed.

use std::fs::File;
use std::io;

use crate::calls;

/// Categories of pages: bits of the kernel's PAGE_IS_… list.
pub mod category {
    /// It belongs to a file or to shared memory. For this the kernel reads the `struct page` of
    /// each page, which is ten times as slow.
    pub const FILE: u64 = 1 << 2;
    /// It is in RAM.
    pub const PRESENT: u64 = 1 << 3;
    /// It is in swap.
    pub const SWAPPED: u64 = 1 << 4;
    /// It is the shared zero page.
    pub const ZERO_PAGE: u64 = 1 << 5;
    /// It is part of a huge page that is mapped as one.
    pub const HUGE: u64 = 1 << 6;
    /// It is a guard page. Fewer kernels know this than the others.
    pub const GUARD: u64 = 1 << 8;
}

/// `struct page_region`: consecutive pages in the same categories. Addresses are in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Region {
    /// Address of the first page.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Those of the requested categories that they are in.
    pub categories: u64,
}

/// What to search. Addresses are in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Report pages that are in any of these categories.
    pub any_of: u64,
    /// Report these categories of the pages found.
    pub tell: u64,
    /// Stop after this many pages.
    pub most: u64,
}

/// Fills `regions`; returns how many, and the address at which it stopped.
///
/// # Errors
/// ENOTTY if the kernel has no such call, EINVAL if it does not know a category.
pub(crate) fn scan(
    pagemap: &File,
    search: Search,
    regions: &mut [Region],
) -> io::Result<(usize, u64)> {
    calls::pagemap_scan(pagemap, search, regions)
}
