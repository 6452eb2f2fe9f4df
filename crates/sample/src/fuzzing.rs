// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fuzz target: the headers and notes of a core dump.

use std::hint::black_box;
use std::io;

use crate::elf::{Bytes, Core};

const PAGE: u64 = 4096;

/// A core in memory.
struct InMemory<'a>(&'a [u8]);

impl Bytes for InMemory<'_> {
    fn read_some(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let rest = self.0.get(from..).unwrap_or_default();
        let length = buffer.len().min(rest.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// Parses the input as a core. Must return without a panic, whatever it contains.
///
/// # Panics
/// If two segments share an address or a byte of the file.
pub fn run(input: &[u8]) {
    let Ok(core) = Core::parse(&InMemory(input), PAGE) else { return };
    assert_apart(core.segments.iter().map(|it| (it.address, it.length)).collect());
    assert_apart(core.segments.iter().map(|it| (it.offset, it.length)).collect());
    black_box(core);
}

/// Asserts that no two ranges, each with its begin and length, overlap.
fn assert_apart(mut ranges: Vec<(u64, u64)>) {
    ranges.sort_unstable();
    let is_apart = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 <= pair[1].0;
    assert!(ranges.windows(2).all(is_apart), "{ranges:?}");
}

/// A core with two segments of memory and one of notes, which names a mapped file; for each word
/// size.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    vec![seed(true), seed(false)]
}

fn seed(is_wide: bool) -> Vec<u8> {
    let word = if is_wide { 8 } else { 4 };
    let mut file = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(is_wide), 1, 1];
    file.resize(16, 0);
    let mut put = |size: usize, number: u64| file.extend(&number.to_le_bytes()[..size]);
    let (head, entry) = if is_wide { (64, 56) } else { (52, 32) };
    for (size, number) in [(2, 4), (2, 62), (4, 1), (word, 0), (word, head), (word, 0), (4, 0)] {
        put(size, number);
    }
    for number in [head, entry, 3, 0, 0, 0] {
        put(2, number);
    }
    let notes = head + 3 * entry;
    let mut body: Vec<u8> = Vec::new();
    for number in [1, 1, 0x1000, 0x2000, 0] {
        body.extend(&u64::to_le_bytes(number)[..word]);
    }
    body.extend(b"/usr/bin/x\0\0");
    let length = 20 + body.len() as u64;
    for [kind, offset, address, length] in
        [[4, notes, 0, length], [1, 0x1000, 0x1000, 0x1000], [1, 0x2000, 0x5000, 0x1000]]
    {
        let fields = if is_wide {
            [
                (4, kind),
                (4, 6),
                (8, offset),
                (8, address),
                (8, 0),
                (8, length),
                (8, length),
                (8, PAGE),
            ]
        } else {
            [
                (4, kind),
                (4, offset),
                (4, address),
                (4, 0),
                (4, length),
                (4, length),
                (4, 6),
                (4, PAGE),
            ]
        };
        fields.into_iter().for_each(|(size, number)| put(size, number));
    }
    for number in [5, body.len() as u64, 0x4649_4c45] {
        put(4, number);
    }
    file.extend(b"CORE\0\0\0\0");
    file.extend(body);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageKind;

    #[test]
    fn the_seeds_are_cores_with_a_mapped_file() {
        for seed in seeds() {
            let core = Core::parse(&InMemory(&seed), PAGE).unwrap();
            let kinds: Vec<PageKind> = core.segments.iter().map(|it| it.kind).collect();
            assert_eq!((kinds, core.garbled), (vec![PageKind::File, PageKind::Anonymous], 0));
            run(&seed);
        }
    }
}
