// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program whose memory the tests collapse: it allocates memory as its arguments say, prints
//! `ready` and waits until its input ends. Each further line of its input is a command, answered
//! with `done`.
//!
//! ```text
//! held map MIB OF EACH     MIB of memory, aligned to 2 MiB; of every EACH pages, OF are written
//! held huge MIB OF EACH    the same, in huge pages from the start
//! held heap MIB            memory from the allocator, in pieces of 64 KiB
//! held cut PIECES          PIECES adjacent mappings of one page each
//! held threads COUNT MIB   COUNT threads; one after the other allocates MIB in pieces of 1 KiB,
//!                          keeps one of 64 and frees the others; no thread exits
//! ```
//! Commands: `check` (prints `wrong` if contents changed), `fork` (a child shares all of the
//! memory; `done` is followed by its id), `reap` (the child exits), `write` (every 16th page is
//! written again with the same contents), `lock` (mlock), `off` and `on` (whether the process may
//! have huge pages at all).

#![expect(unsafe_code, reason = "arranges memory in ways that no safe wrapper offers")]
#![allow(clippy::disallowed_methods, reason = "a program of the tests, not of the product")]

use std::io::{BufRead, Write};
use std::sync::{Arc, Barrier, Mutex};

const PAGE: usize = 4096;
const BLOCK: usize = 2 << 20;

struct Held {
    memory: &'static mut [u8],
    of: usize,
    each: usize,
    child: libc::pid_t,
}

impl Held {
    fn map(mib: usize, of: usize, each: usize, huge: bool) -> Self {
        let length = mib << 20;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED the kernel chooses unused addresses, so no existing mapping is
        // replaced.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), length + BLOCK, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let offset = at.cast::<u8>().align_offset(BLOCK);
        // SAFETY: the mapping is `BLOCK` longer than the part that is used, is never unmapped, and
        // nothing else has a reference into it.
        let memory = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>().add(offset), length) };
        if huge {
            // SAFETY: the range is ours; this advice changes no contents.
            unsafe { libc::madvise(memory.as_mut_ptr().cast(), length, libc::MADV_HUGEPAGE) };
        }
        let mut held = Self { memory, of, each, child: 0 };
        held.write(1);
        held
    }

    fn is_written(&self, page: usize) -> bool {
        page % self.each < self.of
    }

    /// Writes every `step`th of its pages.
    fn write(&mut self, step: usize) {
        let (of, each) = (self.of, self.each);
        let pages = self.memory.chunks_exact_mut(PAGE).enumerate();
        for (page, bytes) in pages.filter(|(page, _)| page % each < of && page % step == 0) {
            bytes.fill(content(page));
        }
    }

    fn is_unchanged(&self) -> bool {
        let mut pages = self.memory.chunks_exact(PAGE).enumerate();
        pages.all(|(page, bytes)| {
            let expected = if self.is_written(page) { content(page) } else { 0 };
            bytes.iter().all(|byte| *byte == expected)
        })
    }

    fn fork(&mut self) -> libc::pid_t {
        // SAFETY: this process has one thread; the child only waits to be killed.
        self.child = unsafe { libc::fork() };
        if self.child == 0 {
            loop {
                // SAFETY: pause has no preconditions.
                unsafe { libc::pause() };
            }
        }
        self.child
    }

    fn reap(&mut self) {
        // SAFETY: the child is ours and was not waited for yet, so its id was not reused.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
    }

    fn lock(&self) {
        // SAFETY: the range is ours; locking changes no contents.
        let locked = unsafe { libc::mlock(self.memory.as_ptr().cast(), self.memory.len()) };
        assert_eq!(locked, 0, "mlock: {}", std::io::Error::last_os_error());
    }

    /// Makes every second one of the first pages unreadable, so that each page is a mapping of its
    /// own.
    fn cut(&self, pieces: usize) {
        for page in (0..pieces).step_by(2) {
            let at = self.memory.as_ptr().wrapping_add(page * PAGE).cast_mut().cast();
            // SAFETY: the page is ours, within `memory`, and is not accessed any more.
            let done = unsafe { libc::mprotect(at, PAGE, libc::PROT_NONE) };
            assert_eq!(done, 0, "mprotect: {}", std::io::Error::last_os_error());
        }
    }

    fn obey(&mut self, order: &str) -> String {
        match order {
            "check" if !self.is_unchanged() => return "wrong".to_owned(),
            "check" => (),
            "fork" => return format!("done {}", self.fork()),
            "reap" => self.reap(),
            "write" => self.write(16),
            "lock" => self.lock(),
            "off" => disable(1),
            "on" => disable(0),
            other => return format!("no order {other}"),
        }
        "done".to_owned()
    }
}

fn disable(disabled: libc::c_ulong) {
    let none: libc::c_ulong = 0;
    // SAFETY: this prctl takes four numbers and no pointer.
    let done = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disabled, none, none, none) };
    assert_eq!(done, 0, "prctl: {}", std::io::Error::last_os_error());
}

/// Each thread has an arena of its own, if the allocator has that many.
fn threads(count: usize, mib: usize) {
    let (turn, filled) = (Arc::new(Mutex::new(())), Arc::new(Barrier::new(count + 1)));
    for _ in 0..count {
        let (turn, filled) = (turn.clone(), filled.clone());
        std::thread::spawn(move || {
            let first = vec![1u8; 64];
            let mine = turn.lock().expect("nobody panics");
            let pieces: Vec<Vec<u8>> = (0..mib << 10).map(|_| vec![7u8; 1 << 10]).collect();
            let kept: Vec<Vec<u8>> = pieces.into_iter().step_by(64).collect();
            drop(mine);
            filled.wait();
            loop {
                std::thread::park();
                std::hint::black_box((&first, &kept));
            }
        });
    }
    filled.wait();
}

/// The byte that fills a page; never zero.
fn content(page: usize) -> u8 {
    u8::try_from(page % 251 + 1).unwrap_or(1)
}

fn number(words: &[String], at: usize) -> usize {
    words.get(at).and_then(|word| word.parse().ok()).expect("a number")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (mut held, mut heap) = (None, Vec::new());
    match words.first().map(String::as_str) {
        Some(kind @ ("map" | "huge")) => {
            let [mib, of, each] = [1, 2, 3].map(|at| number(&words, at));
            held = Some(Held::map(mib, of, each, kind == "huge"));
        }
        Some("cut") => {
            let mapped = Held::map(number(&words, 1) * 2 * PAGE / (1 << 20) + 2, 1, 1, false);
            mapped.cut(number(&words, 1));
        }
        Some("threads") => threads(number(&words, 1), number(&words, 2)),
        Some("heap") => heap = (0..number(&words, 1) * 16).map(|_| vec![7u8; 64 << 10]).collect(),
        _ => panic!(
            "held map MIB OF EACH, held heap MIB, held threads COUNT MIB, or held cut PIECES"
        ),
    }
    say("ready");
    for order in std::io::stdin().lock().lines().map_while(Result::ok) {
        say(&held.as_mut().map_or_else(|| "done".to_owned(), |held| held.obey(&order)));
    }
    drop(heap);
}

fn say(answer: &str) {
    println!("{answer}");
    std::io::stdout().flush().expect("somebody listens");
}
