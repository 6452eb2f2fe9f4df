// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that have no safe wrapper: a mapping of our own that is filled, swapped out and touched,
//! a fork that keeps it shared, the count of our own page faults, and samples of where a thread is.
//!
//! A [`Region`] is the only memory that these calls work on. Nobody else knows its address, so what
//! is done to it touches no Rust value. Only a worker of `faults` and the workload `coldpages` fork:
//! each has one thread.
//!
//! This is the only module of the crate with `unsafe`.

#![expect(
    unsafe_code,
    reason = "mmap, madvise, mincore, fork, getrusage and perf_event_open have no safe wrapper"
)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::user::User;

/// What the kernel is told about a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
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
pub(crate) struct Region {
    start: NonNull<u8>,
    pages: usize,
    page: usize,
    writable: bool,
}

impl Region {
    /// Memory without a file; `shared` is shared memory, which a fork does not copy.
    pub(crate) fn memory(pages: usize, shared: bool) -> io::Result<Self> {
        let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        Self::map(pages, writable, kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// The first pages of a file, to read. Who touches a page behind the file's end is ended by
    /// SIGBUS: so the file is refused where it is shorter, and must be nobody else's to shorten.
    pub(crate) fn file(file: &File, pages: usize) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if pages.checked_mul(rustix::param::page_size()).is_none_or(|wanted| wanted > length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(pages, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Memory from the pool of huge pages of this size, which must have them free.
    pub(crate) fn pool(bytes: usize, huge: u64) -> io::Result<Self> {
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
    pub(crate) fn words(&self) -> &[u64] {
        assert!(self.writable, "memory");
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: exactly our mapping is named. A page is aligned for words, any bytes are one, and
        // memory that was never written holds zeros. Whoever writes borrows all of it mutably.
        unsafe { std::slice::from_raw_parts(words, self.length() / size_of::<u64>()) }
    }

    /// The same, to be written.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        assert!(self.writable, "memory");
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: as for `words`; it is borrowed for this alone.
        unsafe { std::slice::from_raw_parts_mut(words, self.length() / size_of::<u64>()) }
    }

    fn map(pages: usize, protection: i32, flags: i32, file: i32) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let length = pages.checked_mul(page).filter(|length| isize::try_from(*length).is_ok());
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: without an address (and without MAP_FIXED) the kernel chooses one where nothing is
        // mapped, so no memory of ours changes; a wrong length or file is an error.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
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
    fn at(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        self.start.as_ptr().wrapping_add(page * self.page)
    }

    /// Writes a page.
    pub(crate) fn fill(&mut self, page: usize, bytes: &[u8]) {
        assert!(self.writable && bytes.len() == self.page, "a whole page of memory");
        // SAFETY: `at` has checked that the page lies within the mapping, which may be written and is
        // borrowed for this alone; `bytes` is as long as a page, and elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(page), self.page) };
    }

    /// Reads a byte of a page: a fault where the page is not there.
    pub(crate) fn touch(&self, page: usize) -> u8 {
        // SAFETY: `at` has checked that the page lies within the mapping, which may be read. Volatile,
        // as the fault is what is wanted of it.
        unsafe { self.at(page).read_volatile() }
    }

    /// Changes a page and neither its length when compressed nor whether one word fills it: its first
    /// two words change places. Done twice, it is as it was.
    pub(crate) fn write(&mut self, page: usize) {
        assert!(self.writable, "memory");
        let words = self.at(page).cast::<[u64; 2]>();
        // SAFETY: `at` has checked that the page lies within the mapping, which may be written and is
        // borrowed for this alone; a page is aligned, and longer than two words. Volatile, as the
        // write is what is wanted.
        unsafe {
            let [first, second] = words.read_volatile();
            words.write_volatile([second, first]);
        }
    }

    /// Writes a page that was never written, without reading it before: one fault.
    pub(crate) fn write_first(&mut self, page: usize) {
        assert!(self.writable, "memory");
        // SAFETY: as for `write`.
        unsafe { self.at(page).cast::<u64>().write_volatile(1) };
    }

    /// Gives a page back: its next touch finds zeros.
    pub(crate) fn drop_page(&mut self, page: usize) -> io::Result<()> {
        let start = self.at(page).cast();
        // SAFETY: `at` has checked that the page lies within the mapping, which is borrowed for this
        // alone: nobody relies on what it held.
        let done = unsafe { libc::madvise(start, self.page, libc::MADV_DONTNEED) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Where a page lies, to find it in what the kernel tells of us.
    pub(crate) fn address(&self, page: usize) -> u64 {
        self.at(page).addr() as u64
    }

    /// Pages before the first whose address is a multiple of `alignment`.
    pub(crate) fn pages_to(&self, alignment: usize) -> usize {
        let start = self.start.as_ptr().addr();
        (start.next_multiple_of(alignment) - start) / self.page
    }

    /// Copies a page out.
    pub(crate) fn copy(&self, page: usize, to: &mut [u8]) {
        assert_eq!(to.len(), self.page, "a whole page");
        // SAFETY: as for `fill`, the other way; a file's page can be read as it is ours alone.
        unsafe { std::ptr::copy_nonoverlapping(self.at(page), to.as_mut_ptr(), self.page) };
    }

    pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
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
    pub(crate) fn resident(&self) -> io::Result<usize> {
        let mut pages = Vec::new();
        self.residence(&mut pages)?;
        Ok(pages.into_iter().filter(|is_there| *is_there).count())
    }

    /// Which of its pages are in memory, the swap cache included. Of a file's: in the page cache,
    /// whoever brought them there.
    pub(crate) fn residence(&self, to: &mut Vec<bool>) -> io::Result<()> {
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
pub(crate) struct Sleeper(Pid);

impl Sleeper {
    /// Only for a process of one thread: any other's locks could be held for ever in the child.
    pub(crate) fn fork() -> io::Result<Self> {
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

/// Makes the program end with the thread that starts it, however that ends. Needs no other program, as
/// a guest has hardly any; where the parent is gone before the child could ask, it starts nothing.
pub(crate) fn leash(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let is_ours = rustix::process::getppid() == Some(parent);
        if is_ours { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: `ask` runs between fork and exec. It makes two system calls, takes no memory and no
    // lock, and owns nothing but a number.
    unsafe { command.pre_exec(ask) };
}

/// The same, for a program that is also to have no rights: of the user, with no group but this one, and
/// with these files open under the numbers that they have here.
pub(crate) fn confine(command: &mut Command, user: User, group: Option<u32>, files: Vec<OwnedFd>) {
    let groups: Vec<libc::gid_t> = group.into_iter().collect();
    let restrict = move || {
        for file in &files {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
        }
        match user {
            User::Ourselves => {}
            User::BareRoot => drop_capabilities()?,
            User::Stranger(number) => {
                // What is dropped here the change of users takes away in any case.
                let _ = drop_capabilities();
                become_user(number, &groups)?;
            }
        }
        rustix::thread::set_no_new_privs(true).map_err(io::Error::from)
    };
    // SAFETY: `restrict` runs between fork and exec. It makes system calls only, takes no memory and no
    // lock, and what it owns was made before.
    unsafe { command.pre_exec(restrict) };
    leash(command);
}

/// So that a program that root starts gets none of them.
fn drop_capabilities() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: takes numbers only.
        let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        let error = io::Error::last_os_error();
        match (done, error.raw_os_error()) {
            (0, _) => {}
            // The kernel knows no more of them.
            (_, Some(libc::EINVAL)) if capability > 0 => return Ok(()),
            _ => return Err(error),
        }
    }
    Ok(())
}

/// Only between fork and exec: it changes the calling thread alone.
fn become_user(number: u32, groups: &[libc::gid_t]) -> io::Result<()> {
    let checked = |done: libc::c_long| {
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the pointer and the length are those of `groups`; the other calls take numbers only.
    unsafe {
        checked(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
        checked(libc::syscall(libc::SYS_setresgid, number, number, number))?;
        checked(libc::syscall(libc::SYS_setresuid, number, number, number))
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

/// Page faults so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Something had to be read.
    pub(crate) major: u64,
    /// Nothing had.
    pub(crate) minor: u64,
}

pub(crate) fn faults() -> Faults {
    faults_in(&usage(libc::RUSAGE_SELF))
}

fn faults_in(usage: &libc::rusage) -> Faults {
    let count = |count| u64::try_from(count).unwrap_or(0);
    Faults { major: count(usage.ru_majflt), minor: count(usage.ru_minflt) }
}

/// What all processes used that were children of ours, or of theirs, and were waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    /// Processor time, in the kernel and outside.
    pub(crate) cpu: Duration,
    /// Page faults.
    pub(crate) faults: Faults,
}

pub(crate) fn waited() -> Waited {
    let usage = usage(libc::RUSAGE_CHILDREN);
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds)
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    Waited { cpu: time(usage.ru_utime) + time(usage.ru_stime), faults: faults_in(&usage) }
}

fn usage(whose: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is ours and as large as the call expects; zeros are a valid rusage, so it may be
    // read even if the call failed, which it cannot with the two arguments that it is given here.
    unsafe {
        libc::getrusage(whose, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// The first form of `struct perf_event_attr` in `linux/perf_event.h`, which every kernel takes.
#[repr(C)]
#[derive(Debug, Default)]
struct Event {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    breakpoint_at: u64,
}

/// `PERF_TYPE_SOFTWARE`, and of its events `PERF_COUNT_SW_CPU_CLOCK`: a timer, for which no hardware is
/// needed.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// `PERF_SAMPLE_IP`: a sample is where the processor was.
const PLACE: u64 = 1;
/// The bit of `flags` by which `frequency` is one and no period.
const IS_FREQUENCY: u64 = 1 << 10;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;
/// Where the first page of the ring has `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Pages of samples: 32768 of 4 KiB pages.
const RING_PAGES: usize = 128;

/// Samples where a thread is, as often in each second of its processor time.
#[derive(Debug)]
pub(crate) struct Sampler {
    _event: OwnedFd,
    ring: Region,
}

impl Sampler {
    /// Of a thread of the kernel or of ours, from now on.
    pub(crate) fn of(thread: u32, per_second: u64) -> io::Result<Self> {
        let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
        let event = Event {
            kind: SOFTWARE,
            size: u32::try_from(size_of::<Event>()).map_err(io::Error::other)?,
            config: CPU_CLOCK,
            frequency: per_second,
            sample: PLACE,
            flags: IS_FREQUENCY,
            ..Event::default()
        };
        let (any_processor, no_group) = (-1, -1);
        // SAFETY: `event` is as large as its field `size` says, is laid out as that size of the struct is
        // in every kernel, and lives until the call is over, which only reads it.
        let answer = unsafe {
            let event = &raw const event;
            libc::syscall(
                libc::SYS_perf_event_open,
                event,
                thread,
                any_processor,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        let file = i32::try_from(answer).map_err(io::Error::other)?;
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this file for us, and nobody else knows of it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let ring = Region::map(1 + RING_PAGES, access, libc::MAP_SHARED, file.as_raw_fd())?;
        Ok(Self { _event: file, ring })
    }

    /// Where it was, in all samples since the last call. What does not fit between two calls is lost.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u64)) {
        let head = self.place(HEAD).load(Ordering::Acquire);
        let mut at = self.place(TAIL).load(Ordering::Relaxed);
        while at < head {
            let first = self.word(at).to_ne_bytes();
            let kind = u32::from_ne_bytes([first[0], first[1], first[2], first[3]]);
            let length = u64::from(u16::from_ne_bytes([first[6], first[7]]));
            if length < 8 {
                break;
            }
            if kind == SAMPLE {
                each(self.word(at + 8));
            }
            at += length;
        }
        // what was read may be overwritten
        self.place(TAIL).store(head, Ordering::Release);
    }

    /// A word of the first page that the kernel and we share.
    fn place(&self, offset: usize) -> &AtomicU64 {
        let word = self.ring.at(0).wrapping_add(offset).cast::<u64>();
        // SAFETY: the offset is one of two constants within the first page, which is mapped for as long
        // as `self` lives and whose words are aligned; kernel and we change it atomically only.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// A word of the samples: records are of whole words, and the ring is, too, so that none is torn.
    fn word(&self, at: u64) -> u64 {
        let length = RING_PAGES * self.ring.page;
        let offset = usize::try_from(at % length as u64).unwrap_or(0) & !7;
        let word = self.ring.at(1).wrapping_add(offset).cast::<u64>();
        // SAFETY: the offset is within the pages behind the first one, all of which are mapped, and
        // aligned. The kernel writes no word between tail and head, so nobody writes it meanwhile.
        unsafe { word.read_volatile() }
    }
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
    fn a_leashed_program_runs_while_its_parent_does() {
        let mut command = Command::new("echo");
        leash(&mut command);
        assert_eq!(command.arg("here").output().unwrap().stdout, b"here\n");
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

    #[test]
    fn faults_only_rise() {
        let before = faults();
        let mut region = Region::memory(16, false).unwrap();
        region.advise(Advice::Small).unwrap();
        (0..16).for_each(|page| region.fill(page, &vec![1; rustix::param::page_size()]));
        assert!(faults().minor >= before.minor + 16);
    }
}
