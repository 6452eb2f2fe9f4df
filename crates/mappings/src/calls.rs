// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: a mapping of our own that is filled, swapped out and touched,
//! and a fork that keeps it shared.
//!
//! A [`Region`] is the only memory that these calls work on. Nobody else knows its address, so what
//! is done to it touches no Rust value.
//!
//! This is the only module of the crate with `unsafe`.

#![expect(unsafe_code, reason = "mmap, madvise, mincore and fork have no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::process::{Pid, Signal};

/// What the kernel is told about a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// No huge pages.
    Small,
    /// Swap it out.
    PageOut,
    /// Read nothing ahead.
    Random,
    /// Huge pages, please.
    Huge,
}

/// `MAP_HUGE_SHIFT`: where the flags of a mapping say how large its huge pages are.
const HUGE_SHIFT: u32 = 26;

/// Pages that are mapped for us alone, and unmapped with this.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    pages: usize,
    page: usize,
    writable: bool,
}

impl Region {
    /// Memory without a file; `shared` is shared memory, which a fork does not copy.
    pub fn memory(pages: usize, shared: bool) -> io::Result<Self> {
        let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        Self::map(pages, writable, kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// The first pages of a file, to read. Who touches a page behind the file's end is ended by
    /// SIGBUS: so the file is refused where it is shorter, and must be nobody else's to shorten.
    pub fn file(file: &File, pages: usize) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if pages.checked_mul(rustix::param::page_size()).is_none_or(|wanted| wanted > length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(pages, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Pages of a file from byte `offset` on, which is a multiple of the page size; the last page may be a part of one.
    /// Others may shorten the file: so these are for locking, and nobody touches them.
    ///
    /// # Errors
    /// Where the file is shorter, or the kernel refuses.
    pub fn part_of_file(file: &File, offset: u64, pages: usize) -> io::Result<Self> {
        let page = rustix::param::page_size() as u64;
        let last = (pages as u64).saturating_sub(1).saturating_mul(page);
        if offset.saturating_add(last) >= file.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        Self::map_at(pages, libc::PROT_READ, libc::MAP_SHARED, (file.as_raw_fd(), offset))
    }

    /// Keeps `pages` of its pages from page `first` on in memory, and reads those that are not there.
    ///
    /// # Errors
    /// ENOMEM beyond the limit of locked memory (`RLIMIT_MEMLOCK`), EPERM where that is 0; pages behind the end are
    /// refused.
    pub fn lock(&self, first: usize, pages: usize) -> io::Result<()> {
        if first.checked_add(pages).is_none_or(|end| end > self.pages) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is inside of our mapping, and its contents are not looked at.
        let done = unsafe {
            libc::mlock(self.start.as_ptr().add(first * self.page).cast(), pages * self.page)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Memory from the pool of huge pages of this size, which must have them free.
    pub fn pool(bytes: usize, huge: u64) -> io::Result<Self> {
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

    /// What it holds, where it is memory of ours alone.
    pub fn words(&self) -> &[u64] {
        assert!(self.writable, "memory");
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: exactly our mapping is named. A page is aligned for words, any bytes are one, and
        // memory that was never written holds zeros. Whoever writes borrows all of it mutably.
        unsafe { std::slice::from_raw_parts(words, self.length() / size_of::<u64>()) }
    }

    /// The same, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        assert!(self.writable, "memory");
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: as for `words`; it is borrowed for this alone.
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
        // SAFETY: without an address (and without MAP_FIXED) the kernel chooses one where nothing is
        // mapped, so no memory of ours changes; a wrong length or file is an error.
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

    /// The first byte of a page of ours.
    fn page_address(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        self.start.as_ptr().wrapping_add(page * self.page)
    }

    /// Writes a page.
    pub fn fill(&mut self, page: usize, bytes: &[u8]) {
        assert!(self.writable && bytes.len() == self.page, "a whole page of memory");
        // SAFETY: `at` has checked that the page lies within the mapping, which may be written and is
        // borrowed for this alone; `bytes` is as long as a page, and elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.page_address(page), self.page);
        };
    }

    /// Reads a byte of a page: a fault where the page is not there.
    pub fn touch(&self, page: usize) -> u8 {
        // SAFETY: `at` has checked that the page lies within the mapping, which may be read. Volatile,
        // as the fault is what is wanted of it.
        unsafe { self.page_address(page).read_volatile() }
    }

    /// Changes a page and neither its length when compressed nor whether one word fills it: its first
    /// two words change places. Done twice, it is as it was.
    pub fn write(&mut self, page: usize) {
        assert!(self.writable, "memory");
        let words = self.page_address(page).cast::<[u64; 2]>();
        // SAFETY: `at` has checked that the page lies within the mapping, which may be written and is
        // borrowed for this alone; a page is aligned, and longer than two words. Volatile, as the
        // write is what is wanted.
        unsafe {
            let [first, second] = words.read_volatile();
            words.write_volatile([second, first]);
        }
    }

    /// Writes a page that was never written, without reading it before: one fault.
    pub fn write_first(&mut self, page: usize) {
        assert!(self.writable, "memory");
        // SAFETY: as for `write`.
        unsafe { self.page_address(page).cast::<u64>().write_volatile(1) };
    }

    /// Gives a page back: its next touch finds zeros.
    pub fn drop_page(&mut self, page: usize) -> io::Result<()> {
        let start = self.page_address(page).cast();
        // SAFETY: `at` has checked that the page lies within the mapping, which is borrowed for this
        // alone: nobody relies on what it held.
        let done = unsafe { libc::madvise(start, self.page, libc::MADV_DONTNEED) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Where a page lies, to find it in what the kernel tells of us.
    pub fn address(&self, page: usize) -> u64 {
        self.page_address(page).addr() as u64
    }

    /// Pages before the first whose address is a multiple of `alignment`.
    pub fn pages_to(&self, alignment: usize) -> usize {
        let start = self.start.as_ptr().addr();
        (start.next_multiple_of(alignment) - start) / self.page
    }

    /// Copies a page out.
    pub fn copy(&self, page: usize, to: &mut [u8]) {
        assert_eq!(to.len(), self.page, "a whole page");
        // SAFETY: as for `fill`, the other way; a file's page can be read as it is ours alone.
        unsafe {
            std::ptr::copy_nonoverlapping(self.page_address(page), to.as_mut_ptr(), self.page);
        };
    }

    /// Advises the kernel about all of it.
    ///
    /// # Errors
    /// What the kernel answers: EINVAL where it does not know the advice.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Small => libc::MADV_NOHUGEPAGE,
            Advice::PageOut => libc::MADV_PAGEOUT,
            Advice::Random => libc::MADV_RANDOM,
            Advice::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: exactly our mapping is named; none of the four changes what it holds.
        let done = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length(), advice) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// How many of its pages are in memory, the swap cache included.
    pub fn resident(&self) -> io::Result<usize> {
        let mut pages = Vec::new();
        self.residence(&mut pages)?;
        Ok(pages.into_iter().filter(|is_there| *is_there).count())
    }

    /// Which of its pages are in memory, the swap cache included. Of a file's: in the page cache,
    /// whoever brought them there.
    pub fn residence(&self, to: &mut Vec<bool>) -> io::Result<()> {
        let mut pages = vec![0u8; self.pages];
        // SAFETY: exactly our mapping is named, and `pages` has a byte for each page of it.
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
        // SAFETY: exactly our mapping is named, and nobody can use it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length()) };
    }
}

/// A child that shares our memory, does nothing, and ends with this or with our thread.
#[derive(Debug)]
pub struct Sleeper(Pid);

impl Sleeper {
    /// Only for a process of one thread: any other's locks could be held for ever in the child.
    pub fn fork() -> io::Result<Self> {
        let parent = rustix::process::getpid();
        // SAFETY: fork has no preconditions of its own. This process has one thread, and the child
        // makes system calls only and does not return, so nothing of ours runs twice.
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

/// The child's life. Where its parent died before it could ask to die with it, it ends at once.
fn sleep_until_killed(parent: Pid) -> ! {
    let leashed = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    while leashed && rustix::process::getppid() == Some(parent) {
        // SAFETY: pause has no preconditions.
        unsafe { libc::pause() };
    }
    // SAFETY: _exit has no preconditions; it runs no handler of the parent's.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_holds_what_it_was_filled_with() {
        let page = rustix::param::page_size();
        for shared in [false, true] {
            let mut region = Region::memory(3, shared).unwrap();
            region.advise(Advice::Small).unwrap();
            assert_eq!(region.resident().unwrap(), 0);
            region.fill(1, &vec![7; page]);
            assert_eq!((region.touch(0), region.touch(1)), (0, 7));
            let mut copied = vec![0; page];
            region.copy(1, &mut copied);
            assert_eq!(copied, vec![7; page]);
            assert!(region.resident().unwrap() >= 1);
        }
    }

    #[test]
    fn a_page_that_is_written_holds_the_same_words() {
        let page = rustix::param::page_size();
        let mut region = Region::memory(2, false).unwrap();
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
        region.residence(&mut there).unwrap();
        assert_eq!(there, [true, true]);
    }

    #[test]
    #[should_panic(expected = "page 3 of 3")]
    fn what_lies_behind_a_region_is_not_touched() {
        Region::memory(3, false).unwrap().touch(3);
    }

    #[test]
    fn a_file_that_is_too_short_is_not_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(Region::file(&file, 1).is_ok());
        let refused = Region::file(&file, 2).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
        assert!(
            Region::file(&file, usize::MAX).is_err() && Region::memory(usize::MAX, true).is_err()
        );
    }
}
