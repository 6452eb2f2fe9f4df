// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program for the tests to sample: it arranges its memory as its arguments say, prints `ready`
//! and waits until its input ends. Each line of input is an order, answered by `done`.
//!
//! ```text
//! target fork MIB          a child shares all of it; the child's id follows "ready"
//! target family MIB COUNT  COUNT children share pages of different kinds, and each has written a
//!                          sixteenth of them; their ids follow "ready"
//! target hold MIB          distinct pages, two of each
//! target marked MIB TEXT   distinct pages of noise, with this text at every 256 bytes
//! target shmem MIB         a memfd mapped three times, and a private page of the file changed
//! target reserve TIB PAGES TIB of address space, PROT_NONE, of which PAGES pages are touched
//! target sparse TIB PAGES  like reserve, but readable and writable: no mapping of it is empty
//! target merge MIB         equal pages, given to KSM
//! target scatter PAGES     every second page touched
//! target huge MIB          MIB each in huge pages, in small pages, and in memory only read from
//! target sealed MIB        pages written and then made unreadable
//! target secretive MIB     distinct pages, two of each; it forbids being traced
//! target storm SECONDS     forks as fast as it can, 64 at one time and 2,000,000 at most; each
//!                          child writes to a shared page and ends; an order ends it sooner. All
//!                          processes are named storm-ID, with the pid of the first
//! ```
//! Orders: `exec` (become `sleep`), `exit`, `drop` (unmap what was arranged).

#![expect(unsafe_code, reason = "arranges memory in ways that no safe wrapper offers")]
#![allow(clippy::disallowed_methods, reason = "a program of the tests, not of the product")]

use std::ffi::c_void;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;

const PAGE: usize = 4096;

/// A mapping of this program.
struct Memory {
    at: *mut c_void,
    length: usize,
}

impl Memory {
    fn map(length: usize, protection: i32, flags: i32, file: i32) -> Self {
        // SAFETY: without MAP_FIXED a new place is chosen, so nothing that is used is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
        assert_ne!(at, libc::MAP_FAILED, "mmap of {length}: {}", std::io::Error::last_os_error());
        Self { at, length }
    }

    fn anonymous(length: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let memory = Self::map(length, libc::PROT_READ | libc::PROT_WRITE, flags, -1);
        memory.advise(libc::MADV_NOHUGEPAGE);
        memory
    }

    fn advise(&self, advice: i32) {
        // SAFETY: the range is ours; none of the advice that is given here changes contents.
        unsafe { libc::madvise(self.at, self.length, advice) };
    }

    fn protect(&self, offset: usize, length: usize, protection: i32) {
        assert!(offset + length <= self.length);
        // SAFETY: the range is ours and nobody holds a reference into it.
        let result = unsafe { libc::mprotect(self.at.byte_add(offset), length, protection) };
        assert_eq!(result, 0, "mprotect");
    }

    /// Writes a page that depends on the number only, so that equal numbers give equal pages.
    fn write(&self, page: usize, number: u64) {
        let word = |place: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (place % 64);
        let words: Vec<u64> = (0..PAGE as u64 / 8).map(word).collect();
        self.write_words(page, &words);
    }

    fn write_words(&self, page: usize, contents: &[u64]) {
        assert!((page + 1) * PAGE <= self.length);
        // SAFETY: the page is within the mapping, which is writable, aligned and used by nobody
        // else.
        let words = unsafe {
            let begin = self.at.byte_add(page * PAGE).cast::<u64>();
            std::slice::from_raw_parts_mut(begin, PAGE / 8)
        };
        words.copy_from_slice(contents);
    }

    fn unmap(&self) {
        // SAFETY: the range was mapped here, and is not used after this.
        unsafe { libc::munmap(self.at, self.length) };
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> usize {
        arguments.get(index).and_then(|word| word.parse().ok()).expect("a number")
    };
    let pages = |mib: usize| (mib << 20) / PAGE;
    let (arranged, said) = match arguments.first().map(String::as_str) {
        Some("hold") => (vec![written(pages(number(1)), |page| page / 2)], String::new()),
        Some("marked") => (vec![marked(pages(number(1)), arguments[2].as_bytes())], String::new()),
        Some("fork") => fork(pages(number(1))),
        Some("family") => family(pages(number(1)), number(2)),
        Some("shmem") => (shmem(pages(number(1))), String::new()),
        Some("reserve") => (reserve(number(1), number(2), libc::PROT_NONE), String::new()),
        Some("sparse") => {
            (reserve(number(1), number(2), libc::PROT_READ | libc::PROT_WRITE), String::new())
        }
        Some("merge") => (vec![merge(pages(number(1)))], String::new()),
        Some("scatter") => (vec![scatter(number(1))], String::new()),
        Some("huge") => (huge(pages(number(1))), String::new()),
        Some("secretive") => (vec![secretive(pages(number(1)))], String::new()),
        Some("storm") => {
            rename(&format!("storm-{}", std::process::id()));
            say("ready");
            return storm(number(1));
        }
        Some("sealed") => (vec![sealed(pages(number(1)))], String::new()),
        other => panic!("{other:?}"),
    };
    say(&format!("ready {said}"));
    for order in std::io::stdin().lock().lines() {
        obey(&order.expect("a line"), &arranged);
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("standard output");
}

fn obey(order: &str, arranged: &[Memory]) {
    match order {
        "exec" => {
            let error = std::process::Command::new("sleep").arg("60").exec();
            panic!("sleep: {error}");
        }
        "exit" => std::process::exit(0),
        "drop" => arranged.iter().for_each(Memory::unmap),
        other => panic!("{other:?}"),
    }
    say("done");
}

fn written(pages: usize, number: impl Fn(usize) -> usize) -> Memory {
    let memory = Memory::anonymous(pages * PAGE);
    (0..pages).for_each(|page| memory.write(page, number(page) as u64 + 1));
    memory
}

fn fork(pages: usize) -> (Vec<Memory>, String) {
    let memory = written(pages, |page| page);
    // SAFETY: there are no other threads, so the child may go on as any program.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1, "fork");
    if child == 0 {
        // the child inherits standard input and so ends with its parent
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {}
        std::process::exit(0);
    }
    (vec![memory], child.to_string())
}

/// Distinct pages that contain a text to search for.
fn marked(pages: usize, text: &[u8]) -> Memory {
    const STEP: usize = 256;
    let memory = Memory::anonymous(pages * PAGE);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for page in 0..pages {
        let mut words = vec![0u64; PAGE / 8];
        for word in &mut words {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state & 0xff_ffff;
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.chunks_mut(STEP).for_each(|piece| piece[..text.len()].copy_from_slice(text));
        let words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_ne_bytes));
        memory.write_words(page, &words.map(|word| word.expect("8 bytes")).collect::<Vec<_>>());
    }
    memory
}

/// A page with a random amount of noise, then few distinct words; every eighth page is filled with
/// one word.
fn write_mixed(memory: &Memory, page: usize, writer: usize) {
    let mut state = ((page as u64) << 16 | writer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    };
    let noise = (next() % 512) as usize;
    let words: Vec<u64> = match page % 8 {
        0 => vec![7; PAGE / 8],
        _ => (0..PAGE / 8).map(|at| if at < noise { next() } else { next() % 64 }).collect(),
    };
    memory.write_words(page, &words);
}

fn family(pages: usize, children: usize) -> (Vec<Memory>, String) {
    let memory = Memory::anonymous(pages * PAGE);
    (0..pages).for_each(|page| write_mixed(&memory, page, 0));
    let mut output = Vec::new();
    for number in 1..=children {
        let mut written = [0; 2];
        // SAFETY: the array has room for the two ends.
        assert_eq!(unsafe { libc::pipe(written.as_mut_ptr()) }, 0, "pipe");
        // SAFETY: there are no other threads, so the child may go on as any program.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "fork");
        if child == 0 {
            let own = (0..pages).filter(|page| page % 16 == number % 16);
            own.for_each(|page| write_mixed(&memory, page, number));
            // SAFETY: one byte of our own; the descriptor is open.
            unsafe { libc::write(written[1], b"x".as_ptr().cast(), 1) };
            let mut line = String::new();
            while std::io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {}
            std::process::exit(0);
        }
        let mut byte = [0u8];
        // SAFETY: room for one byte; the descriptor is open.
        let read = unsafe { libc::read(written[0], byte.as_mut_ptr().cast(), 1) };
        assert_eq!(read, 1, "the child has written");
        output.push(child.to_string());
    }
    (vec![memory], output.join(" "))
}

fn shmem(pages: usize) -> Vec<Memory> {
    // SAFETY: the name is a string that ends with a zero.
    let file = unsafe { libc::memfd_create(c"shared".as_ptr(), 0) };
    let length = i64::try_from(pages * PAGE).expect("a length");
    // SAFETY: the descriptor is the one made above.
    assert_eq!(unsafe { libc::ftruncate(file, length) }, 0);
    let (read, write) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
    let first = Memory::map(pages * PAGE, write, libc::MAP_SHARED, file);
    let second = Memory::map(pages * PAGE, read, libc::MAP_SHARED, file);
    let private = Memory::map(pages * PAGE, write, libc::MAP_PRIVATE, file);
    (0..pages).for_each(|page| first.write(page, page as u64));
    for memory in [&second, &private] {
        for page in 0..pages {
            // SAFETY: within the mapping, which may be read; nobody writes meanwhile.
            unsafe { std::ptr::read_volatile(memory.at.byte_add(page * PAGE).cast::<u8>()) };
        }
    }
    private.write(0, 7_000_000);
    vec![first, second, private]
}

/// Maps one huge page more than needed, so that an aligned range fits.
fn huge(pages: usize) -> Vec<Memory> {
    const HUGE: usize = 2 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let map = || {
        let memory =
            Memory::map(pages * PAGE + HUGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1);
        memory.advise(libc::MADV_HUGEPAGE);
        let first = memory.at.align_offset(HUGE) / PAGE;
        (memory, first..first + pages)
    };
    let (filled, places) = map();
    places.for_each(|page| filled.write(page, page as u64 + 1));
    let (read, places) = map();
    for page in places {
        // SAFETY: within the mapping, which may be read; nobody writes meanwhile.
        unsafe { std::ptr::read_volatile(read.at.byte_add(page * PAGE).cast::<u8>()) };
    }
    vec![filled, read, written(pages, |page| page)]
}

/// Reserves address space in pieces, as no free range is that long.
fn reserve(tebibytes: usize, pages: usize, protection: i32) -> Vec<Memory> {
    const PIECE: usize = 4 << 40;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let count = (tebibytes << 40) / PIECE;
    let piece = |_| Memory::map(PIECE, protection, flags, -1);
    let pieces: Vec<Memory> = (0..count).map(piece).collect();
    for page in 0..pages {
        let (memory, place) = (&pieces[page % count], page / count * 1_000_003);
        memory.protect(place * PAGE, PAGE, libc::PROT_READ | libc::PROT_WRITE);
        memory.write(place, page as u64);
    }
    pieces
}

fn merge(pages: usize) -> Memory {
    let memory = written(pages, |_| 0);
    memory.advise(libc::MADV_MERGEABLE);
    memory
}

fn scatter(pages: usize) -> Memory {
    let memory = Memory::anonymous(2 * pages * PAGE);
    (0..pages).for_each(|page| memory.write(2 * page, page as u64));
    memory
}

fn sealed(pages: usize) -> Memory {
    let memory = written(pages, |page| page);
    memory.protect(0, memory.length, libc::PROT_NONE);
    memory
}

fn secretive(pages: usize) -> Memory {
    // SAFETY: a plain number, about this process alone.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
    written(pages, |page| page / 2)
}

fn rename(name: &str) {
    let name = std::ffi::CString::new(name).expect("no zero in it");
    // SAFETY: a string that ends with a zero, of which the kernel copies 15 bytes at most.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
}

/// Ends by itself, whatever happens to the test: after its time, its number of forks, or at the end
/// of its input.
fn storm(seconds: usize) {
    const AT_ONCE: usize = 64;
    const FORKS: usize = 2_000_000;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds as u64);
    let memory = written(256, |page| page);
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let listed = over.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        listed.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for child in 0..FORKS {
        if over.load(std::sync::atomic::Ordering::Relaxed) || std::time::Instant::now() > end {
            break;
        }
        // SAFETY: the child writes to memory that was mapped before and ends at once, without
        // running anything that another thread may have been in the middle of.
        match unsafe { libc::fork() } {
            0 => {
                memory.write(child % 256, child as u64);
                // SAFETY: waits for a moment, so that it can be met alive, and ends this process.
                unsafe {
                    libc::usleep(20_000);
                    libc::_exit(0)
                }
            }
            // SAFETY: no status is asked for; the oldest child has had its time.
            _ if child >= AT_ONCE => unsafe { _ = libc::wait(std::ptr::null_mut()) },
            _ => (),
        }
    }
}
