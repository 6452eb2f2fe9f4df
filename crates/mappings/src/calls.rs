// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls that have no safe wrapper: to map memory that is filled, swapped out and
//! touched, and to fork a process that shares it.
//!
//! These calls work only on the memory of a [`Region`]. No other code has its address, so that no
//! other Rust value is affected.
//!
//! This is the only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "mmap, madvise, mincore and fork have no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::process::{Pid, Signal};

/// Advice to the kernel about a region, for madvise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Do not use huge pages for the region.
    Small,
    /// Swap the pages out.
    PageOut,
    /// Do not read pages ahead.
    Random,
    /// Use huge pages for the region.
    Huge,
}

/// `MAP_HUGE_SHIFT`: position of the huge page size in the flags of a mapping.
const HUGE_SHIFT: u32 = 26;

/// A mapping that this process created. It is unmapped when this value is dropped.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    pages: usize,
    page: usize,
    writable: bool,
}

impl Region {
    /// Maps memory without a file. If `shared` is true it is shared memory, which a fork does not
    /// copy.
    pub fn map_memory(pages: usize, shared: bool) -> io::Result<Self> {
        let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        Self::map(pages, writable, kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// Maps the first pages of a file for reading. Touching a page after the file's end would raise
    /// SIGBUS. A shorter file is therefore refused, and no other process may be able to truncate
    /// the file.
    pub fn map_file(file: &File, pages: usize) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if pages.checked_mul(rustix::param::page_size()).is_none_or(|wanted| wanted > length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(pages, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Maps pages of a file from byte `offset` on, which must be a multiple of the page size. The
    /// last page may be partial. Other programs may truncate the file, so these pages may only be
    /// locked and never be touched.
    ///
    /// # Errors
    /// If the file is shorter than the pages, or if the kernel refuses.
    pub fn map_part_of_file(file: &File, offset: u64, pages: usize) -> io::Result<Self> {
        let page = rustix::param::page_size() as u64;
        let last = (pages as u64).saturating_sub(1).saturating_mul(page);
        if offset.saturating_add(last) >= file.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        Self::map_at(pages, libc::PROT_READ, libc::MAP_SHARED, (file.as_raw_fd(), offset))
    }

    /// Locks `pages` pages of the region from page `first` on into memory. The kernel reads those
    /// that are not in memory.
    ///
    /// # Errors
    /// ENOMEM if the limit on locked memory (`RLIMIT_MEMLOCK`) would be exceeded, EPERM if that
    /// limit is 0. Pages after the end of the region are refused.
    pub fn lock(&self, first: usize, pages: usize) -> io::Result<()> {
        if first.checked_add(pages).is_none_or(|end| end > self.pages) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is inside our mapping, and its contents are not accessed.
        let done = unsafe {
            libc::mlock(self.start.as_ptr().add(first * self.page).cast(), pages * self.page)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Maps memory from the hugetlb pool of the page size `huge`, which must have enough free
    /// pages.
    pub fn map_pool(bytes: usize, huge: u64) -> io::Result<Self> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let page = rustix::param::page_size();
        let huge = usize::try_from(huge).ok().filter(|huge| huge.is_power_of_two() && *huge > page);
        let huge = huge.ok_or_else(wrong)?;
        let length = bytes.checked_next_multiple_of(huge).ok_or_else(wrong)?;
        let size = i32::try_from(huge.trailing_zeros()).map_err(|_| wrong())?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        let flags = flags | size << HUGE_SHIFT;
        Self::map(length / page, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
    }

    /// Returns the contents of the region, which must be private memory.
    pub fn words(&self) -> &[u64] {
        assert!(self.writable, "memory");
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: the range is exactly our mapping. A page is aligned for words, any bytes are
        // valid words, and memory that was never written contains zeros. Writing requires a mutable
        // borrow of all of it.
        unsafe { std::slice::from_raw_parts(words, self.length() / size_of::<u64>()) }
    }

    /// Returns the contents of the region so that they can be changed.
    pub fn words_mut(&mut self) -> &mut [u64] {
        assert!(self.writable, "memory");
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: as for `words`; it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(words, self.length() / size_of::<u64>()) }
    }

    fn map(pages: usize, protection: i32, flags: i32, file: i32) -> io::Result<Self> {
        Self::map_at(pages, protection, flags, (file, 0))
    }

    fn map_at(
        pages: usize,
        protection: i32,
        flags: i32,
        (file, offset): (i32, i64),
    ) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let length = pages.checked_mul(page).filter(|length| isize::try_from(*length).is_ok());
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: without an address (and without MAP_FIXED) the kernel chooses unused addresses,
        // so no memory of ours changes; a wrong length or file is an error.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, pages, page, writable: protection & libc::PROT_WRITE != 0 })
    }

    fn length(&self) -> usize {
        self.pages * self.page
    }

    /// Returns the address of the first byte of a page, after checking that the page is in the
    /// region.
    fn page_address(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        self.start.as_ptr().wrapping_add(page * self.page)
    }

    /// Overwrites a page with these bytes.
    pub fn fill(&mut self, page: usize, bytes: &[u8]) {
        assert!(self.writable && bytes.len() == self.page, "a whole page of memory");
        // SAFETY: `page_address` has checked that the page is inside the mapping, which is writable
        // and borrowed mutably; `bytes` has the length of a page and does not overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.page_address(page), self.page);
        };
    }

    /// Reads a byte of a page, which causes a page fault if the page is not in memory.
    pub fn touch(&self, page: usize) -> u8 {
        // SAFETY: `page_address` has checked that the page is inside the mapping, which is
        // readable. Volatile, because the read is made for its page fault.
        unsafe { self.page_address(page).read_volatile() }
    }

    /// Changes a page by exchanging its first two words, so that neither its compressed size
    /// changes nor whether it is same-filled. Exchanging them twice restores the contents.
    pub fn write(&mut self, page: usize) {
        assert!(self.writable, "memory");
        let words = self.page_address(page).cast::<[u64; 2]>();
        // SAFETY: `page_address` has checked that the page is inside the mapping, which is writable
        // and borrowed mutably; a page is aligned, and longer than two words. Volatile, because the
        // write must not be optimized away.
        unsafe {
            let [first, second] = words.read_volatile();
            words.write_volatile([second, first]);
        }
    }

    /// Writes to a page that was never touched. The page is not read first, so that there is only
    /// one page fault.
    pub fn write_first(&mut self, page: usize) {
        assert!(self.writable, "memory");
        // SAFETY: as for `write`.
        unsafe { self.page_address(page).cast::<u64>().write_volatile(1) };
    }

    /// Frees a page of the region. The next access to it reads zeros.
    pub fn drop_page(&mut self, page: usize) -> io::Result<()> {
        let start = self.page_address(page).cast();
        // SAFETY: `page_address` has checked that the page is inside the mapping, which is borrowed
        // mutably, so nothing relies on its contents.
        let done = unsafe { libc::madvise(start, self.page, libc::MADV_DONTNEED) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the address of a page, by which the page can be found in the kernel's files about
    /// this process.
    pub fn address(&self, page: usize) -> u64 {
        self.page_address(page).addr() as u64
    }

    /// Number of pages of the region before the first one whose address is a multiple of
    /// `alignment`.
    pub fn count_pages_before(&self, alignment: usize) -> usize {
        let start = self.start.as_ptr().addr();
        (start.next_multiple_of(alignment) - start) / self.page
    }

    /// Copies the contents of a page to `to`.
    pub fn copy(&self, page: usize, to: &mut [u8]) {
        assert_eq!(to.len(), self.page, "a whole page");
        // SAFETY: as for `fill`, in the other direction; a page of a file can be read, because
        // nobody else can truncate the file.
        unsafe {
            std::ptr::copy_nonoverlapping(self.page_address(page), to.as_mut_ptr(), self.page);
        };
    }

    /// Advises the kernel about the whole region.
    ///
    /// # Errors
    /// The kernel's error: EINVAL if it does not know the advice.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Small => libc::MADV_NOHUGEPAGE,
            Advice::PageOut => libc::MADV_PAGEOUT,
            Advice::Random => libc::MADV_RANDOM,
            Advice::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range is exactly our mapping; none of the four changes its contents.
        let done = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length(), advice) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Number of pages of the region that are in memory, the swap cache included.
    pub fn count_resident(&self) -> io::Result<usize> {
        let mut pages = Vec::new();
        self.read_residence(&mut pages)?;
        Ok(pages.into_iter().filter(|is_there| *is_there).count())
    }

    /// Determines for each page of the region whether it is in memory, including the swap cache.
    /// For a region of a file: whether it is in the page cache, whichever process read it.
    pub fn read_residence(&self, to: &mut Vec<bool>) -> io::Result<()> {
        let mut pages = vec![0u8; self.pages];
        // SAFETY: the range is exactly our mapping, and `pages` has a byte for each page of it.
        let done =
            unsafe { libc::mincore(self.start.as_ptr().cast(), self.length(), pages.as_mut_ptr()) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        to.clear();
        to.extend(pages.iter().map(|page| page & 1 != 0));
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is exactly our mapping, and nothing can use it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length()) };
    }
}

/// A child process that shares this process's memory and sleeps. It is killed when this value is
/// dropped or when the thread that created it exits.
#[derive(Debug)]
pub struct Sleeper(Pid);

impl Sleeper {
    /// Forks a child process that sleeps. This process must have only one thread: in the child,
    /// locks that other threads hold would remain locked forever.
    pub fn fork() -> io::Result<Self> {
        let parent = rustix::process::getpid();
        // SAFETY: fork has no preconditions of its own. This process has one thread, and the child
        // only makes system calls and does not return, so none of our code runs twice.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            sleep_until_killed(parent);
        }
        let failure = io::Error::last_os_error();
        let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
        pid.map(Self).ok_or(failure)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty());
    }
}

/// Runs in the child process: sleeps until it is killed. If its parent exited before the child
/// could request to be killed with it, the child exits at once.
fn sleep_until_killed(parent: Pid) -> ! {
    let leashed = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    while leashed && rustix::process::getppid() == Some(parent) {
        // SAFETY: pause has no preconditions.
        unsafe { libc::pause() };
    }
    // SAFETY: _exit has no preconditions; it runs no exit handlers of the parent.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_holds_what_it_was_filled_with() {
        let page = rustix::param::page_size();
        for shared in [false, true] {
            let mut region = Region::map_memory(3, shared).unwrap();
            region.advise(Advice::Small).unwrap();
            assert_eq!(region.count_resident().unwrap(), 0);
            region.fill(1, &vec![7; page]);
            assert_eq!((region.touch(0), region.touch(1)), (0, 7));
            let mut copied = vec![0; page];
            region.copy(1, &mut copied);
            assert_eq!(copied, vec![7; page]);
            assert!(region.count_resident().unwrap() >= 1);
        }
    }

    #[test]
    fn a_page_that_is_written_holds_the_same_words() {
        let page = rustix::param::page_size();
        let mut region = Region::map_memory(2, false).unwrap();
        let numbers: Vec<u8> = (0..page).map(|at| u8::try_from(at % 251).unwrap()).collect();
        region.fill(1, &numbers);
        region.write(0);
        region.write(1);
        let mut copied = vec![0; page];
        region.copy(1, &mut copied);
        assert_eq!((&copied[..8], &copied[8..16]), (&numbers[8..16], &numbers[..8]));
        assert_eq!(copied[16..], numbers[16..]);
        region.copy(0, &mut copied);
        assert_eq!(copied, vec![0; page]);
        let mut there = Vec::new();
        region.read_residence(&mut there).unwrap();
        assert_eq!(there, [true, true]);
    }

    #[test]
    #[should_panic(expected = "page 3 of 3")]
    fn what_lies_behind_a_region_is_not_touched() {
        Region::map_memory(3, false).unwrap().touch(3);
    }

    #[test]
    fn a_file_that_is_too_short_is_not_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(Region::map_file(&file, 1).is_ok());
        let refused = Region::map_file(&file, 2).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
        assert!(
            Region::map_file(&file, usize::MAX).is_err()
                && Region::map_memory(usize::MAX, true).is_err()
        );
    }
}
