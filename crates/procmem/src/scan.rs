// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds regions of a process's address space whose pages are in the same categories
//! (PAGEMAP_SCAN).
//!
//! The kernel walks the page tables and returns runs of pages, so that huge or untouched memory
//! takes nearly no time. Kernels before 6.7 do not have this call, and some kernels know fewer
//! categories; both is probed.

use std::fs::File;
use std::io;

use crate::calls;

/// Categories of pages for PAGEMAP_SCAN, as bits of the kernel's PAGE_IS_… list.
pub mod category {
    /// The page belongs to a file or to shared memory. To determine this, the kernel reads the
    /// `struct page` of each page, which is ten times as slow.
    pub const FILE: u64 = 1 << 2;
    /// The page is in RAM.
    pub const PRESENT: u64 = 1 << 3;
    /// The page is in swap.
    pub const SWAPPED: u64 = 1 << 4;
    /// The page is the shared zero page.
    pub const ZERO_PAGE: u64 = 1 << 5;
    /// The page is part of a huge page that is mapped as one.
    pub const HUGE: u64 = 1 << 6;
    /// The page is a guard page. Fewer kernels know this category than the others.
    pub const GUARD: u64 = 1 << 8;
}

/// `struct page_region` of the kernel: consecutive pages in the same categories. Addresses are in
/// bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Region {
    /// Address of the first page of the region.
    pub start: u64,
    /// First address after the region.
    pub end: u64,
    /// The requested categories that all pages of the region are in.
    pub categories: u64,
}

/// Which pages PAGEMAP_SCAN searches. Addresses are in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Address at which the searched range begins.
    pub start: u64,
    /// First address after the searched range.
    pub end: u64,
    /// The search reports pages that are in any of these categories.
    pub any_of: u64,
    /// For each region, the search reports which of these categories its pages are in.
    pub tell: u64,
    /// The search stops after this many pages.
    pub most: u64,
}

/// Calls PAGEMAP_SCAN, which writes to `regions`. Returns the number of regions, and the address at
/// which the kernel stopped.
///
/// # Errors
/// ENOTTY if the kernel does not have this call, EINVAL if it does not know a category.
pub(crate) fn scan(
    pagemap: &File,
    search: Search,
    regions: &mut [Region],
) -> io::Result<(usize, u64)> {
    calls::pagemap_scan(pagemap, search, regions)
}
