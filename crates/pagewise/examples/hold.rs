// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that holds memory, for recordings: `hold MEBIBYTES text|random|sparse still|busy`.
//!
//! Text compresses to about a half, random bytes do not compress. Sparse writes one byte to every 2
//! MiB, so that each page needs a page table of its own. Busy writes one byte to every page, one
//! page after the other, for ever, so that pages are swapped in and out all the time. The program
//! maps all memory at once, fills it after reading a line (or the end of its input), and then
//! prints `held`. Built statically, it runs in guests.

use std::io::Write;

const PAGE: usize = 4096;

/// Bytes that one page table maps.
const TABLE: usize = 2 << 20;

type Fill = fn(&mut [u8], u64) -> u64;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((mebibytes, step, fill, busy)) = understood(&words) else {
        eprintln!("usage: hold MEBIBYTES text|random|sparse still|busy");
        std::process::exit(2);
    };
    let mut memory = vec![0; mebibytes << 20];
    // the kernel registers a process for khugepaged at its first page fault, not before
    memory.iter_mut().skip(mebibytes << 19).take(1).for_each(|byte| *byte = 1);
    let _ = std::io::stdin().read_line(&mut String::new());
    memory.chunks_mut(step).fold(1, |state, page| fill(page, state));
    println!("held");
    loop {
        if !busy {
            std::thread::park();
            continue;
        }
        memory.iter_mut().step_by(step).for_each(|byte| *byte = byte.wrapping_add(1));
    }
}

fn understood(words: &[String]) -> Option<(usize, usize, Fill, bool)> {
    let [mebibytes, kind, pace] = words else { return None };
    let fills = [("text", PAGE, text as Fill), ("random", PAGE, random), ("sparse", TABLE, sparse)];
    let (_, step, fill) = *fills.iter().find(|(name, ..)| name == kind)?;
    let busy = [("still", false), ("busy", true)].iter().find(|(name, _)| name == pace)?.1;
    Some((mebibytes.parse().ok()?, step, fill, busy))
}

/// Fills the page with numbered lines, each with a word that does not depend on the line before.
fn text(mut page: &mut [u8], first: u64) -> u64 {
    let mut line = first;
    let word = |line: u64| line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while writeln!(page, "line {line}: {:016x} is held in memory", word(line)).is_ok() {
        line += 1;
    }
    line
}

/// Fills the page with random bytes (xorshift).
fn random(page: &mut [u8], mut state: u64) -> u64 {
    for word in page.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    state
}

/// Writes a single byte.
fn sparse(page: &mut [u8], state: u64) -> u64 {
    page.iter_mut().take(1).for_each(|byte| *byte = 1);
    state
}
