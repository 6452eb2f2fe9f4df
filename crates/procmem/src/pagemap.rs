// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/proc/PID/pagemap`, which has eight bytes for each page of the process's address space.
//!
//! The open file belongs to the memory that the process had when it was opened. Once this memory is
//! freed (by exit or exec), the file is empty, even if the process id was reused. For all users
//! except root, frame numbers are zero.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::open;
use crate::scan::{self, Region, Search};

/// The entry of one page in `/proc/PID/pagemap`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// Creates a pagemap entry from its 64 bits, as the kernel prints them.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether the page is in RAM.
    pub const fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    /// Whether the page is in swap. This is also true for a moment while the page is migrated
    /// within RAM.
    pub const fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 == 1 && !self.is_guard()
    }

    /// Whether the page belongs to a file or to shmem, and is not a private copy.
    pub const fn is_of_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }

    /// Whether the page is a guard page, which must not be touched (MADV_GUARD_INSTALL); older
    /// kernels report it as swapped.
    pub const fn is_guard(self) -> bool {
        self.0 >> 58 & 1 == 1
    }

    /// Whether no other process maps the page.
    pub const fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }

    /// Number of the page frame; `None` if the kernel hides it from this user.
    pub const fn frame(self) -> Option<u64> {
        match self.0 & ((1 << 55) - 1) {
            frame if frame != 0 && self.is_present() => Some(frame),
            _ => None,
        }
    }
}

/// The open pagemap of one process.
#[derive(Debug)]
pub struct Pagemap {
    pub(crate) file: File,
}

impl Pagemap {
    /// Opens the pagemap of a process, for the memory that the process has now.
    ///
    /// # Errors
    /// If the process has exited or the kernel refuses.
    pub fn open(pid: u32) -> io::Result<Self> {
        open::open_of_process(pid, "pagemap").map(|file| Self { file })
    }

    /// Reads at most `most` entries from page `first` on into `entries`. There are fewer at the end
    /// of the address space, and none if the memory was freed.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(
        &self,
        first: u64,
        most: usize,
        entries: &mut Vec<Entry>,
        bytes: &mut Vec<u8>,
    ) -> io::Result<usize> {
        bytes.resize(most.saturating_mul(8), 0);
        let read = self.file.read_at(bytes, first.saturating_mul(8))?;
        let whole = bytes.get(..read).unwrap_or_default().chunks_exact(8);
        let before = entries.len();
        entries.extend(
            whole.map(|entry| Entry(entry.try_into().map(u64::from_ne_bytes).unwrap_or_default())),
        );
        Ok(entries.len() - before)
    }

    /// Calls PAGEMAP_SCAN for this process, which writes to `regions`. Returns the number of
    /// regions, and the address at which the kernel stopped.
    ///
    /// # Errors
    /// ENOTTY if the kernel does not have this call, EINVAL if it does not know a category.
    pub fn scan(&self, search: Search, regions: &mut [Region]) -> io::Result<(usize, u64)> {
        scan::scan(&self.file, search, regions)
    }

    /// Whether the memory that this pagemap belongs to still exists.
    pub fn is_alive(&self) -> bool {
        matches!(self.file.read_at(&mut [0; 8], 0), Ok(8))
    }
}

/// Returns the number of the frame of the kernel's zero page, if we may see frame numbers. It is
/// found by reading memory of this process that was never written.
pub fn find_zero_frame(page_size: u64) -> Option<u64> {
    const PAGES: u64 = 16;
    let bytes = usize::try_from(page_size.checked_mul(PAGES)?).ok()?;
    let untouched = vec![0u8; bytes];
    let middle = untouched.get(bytes / 2).map(std::ptr::from_ref)?;
    std::hint::black_box(untouched.get(bytes / 2).copied());
    let (mut entries, mut buffer) = (Vec::new(), Vec::new());
    let page = middle as u64 / page_size;
    Pagemap::open(std::process::id()).ok()?.read(page, 1, &mut entries, &mut buffer).ok()?;
    entries.first().filter(|entry| !entry.is_exclusive()).and_then(|entry| entry.frame())
}

/// Whether we may see frame numbers, which is checked with this process's own stack.
pub fn can_see_frames(page_size: u64) -> bool {
    let here = 0u8;
    let page = (&raw const here) as u64 / page_size;
    let (mut entries, mut bytes) = (Vec::new(), Vec::new());
    let read = Pagemap::open(std::process::id())
        .and_then(|pagemap| pagemap.read(page, 1, &mut entries, &mut bytes));
    read.is_ok() && entries.first().is_some_and(|entry| entry.frame().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_the_kernel_has_them() {
        let anonymous = Entry::new(0x8100_0000_0001_2345);
        assert!(anonymous.is_present() && anonymous.is_exclusive() && !anonymous.is_of_file());
        assert_eq!(anonymous.frame(), Some(0x12345));
        let swapped = Entry::new(1 << 62 | 7);
        assert!(swapped.is_swapped() && !swapped.is_present());
        assert_eq!(swapped.frame(), None);
        assert!(Entry::new(1 << 61 | 1 << 63).is_of_file());
        assert!(!Entry::new(1 << 62 | 1 << 58).is_swapped(), "a guard");
    }

    #[test]
    fn our_own_pages_are_there() {
        let page_size = rustix::param::page_size() as u64;
        let written = vec![1u8; 8 * 4096];
        let pagemap = Pagemap::open(std::process::id()).unwrap();
        let (mut entries, mut bytes) = (Vec::new(), Vec::new());
        let page = (written.as_ptr() as u64 + page_size) / page_size;
        assert_eq!(pagemap.read(page, 3, &mut entries, &mut bytes).unwrap(), 3);
        assert!(entries.iter().all(|entry| entry.is_present() && !entry.is_of_file()));
        assert!(pagemap.is_alive());
    }
}
