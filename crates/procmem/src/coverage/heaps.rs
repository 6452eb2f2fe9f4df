// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the heaps that glibc's malloc created for the threads of a process, and how much of them
//! is in RAM.
//!
//! Each malloc arena except the main one gets its memory in heaps of 64 MiB of address space, which
//! are aligned to that size. The first part of a heap is accessible, the other part is not yet. No
//! other program is known to make mappings of this form.

use pagewise_model::{Bytes, MappingKind};

use super::memory::{LookError, Memory};
use crate::maps::Mapping;

const HEAP: u64 = 64 << 20;

/// Heaps of glibc's malloc that do not belong to the main arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heaps {
    /// Number of heaps; each arena except the main one has at least one.
    pub count: u64,
    /// How much memory all these heaps have in RAM.
    pub held: Bytes,
}

/// Finds the heaps of glibc's malloc in a process.
///
/// # Errors
/// If the process has exited, or if we may not examine it.
pub fn heaps(pid: u32, block: u64) -> Result<Heaps, LookError> {
    let memory = Memory::open(pid, block)?;
    let scans = memory.can_scan();
    let mappings = memory.mappings(!scans)?;
    let starts: Vec<u64> = find_heap_starts(&mappings).collect();
    let mut heaps = Heaps { count: starts.len() as u64, ..Heaps::default() };
    memory.for_each_mapping(&mappings, scans, |mapping, summed| {
        if starts.binary_search(&mapping.start).is_ok() {
            heaps.held = heaps.held.saturating_add(summed.coverage.anon);
        }
    })?;
    Ok(heaps)
}

/// Returns the addresses of the heaps of glibc's malloc. A heap is recognised as a pair of adjacent
/// mappings, an accessible and an inaccessible one, which are aligned and together have 64 MiB.
fn find_heap_starts(mappings: &[Mapping]) -> impl Iterator<Item = u64> {
    let is_own = |mapping: &Mapping| {
        mapping.kind == MappingKind::Anonymous && mapping.name.as_str().is_empty()
    };
    let heap = move |pair: &[Mapping]| match pair {
        [used, rest] if is_own(used) && is_own(rest) => {
            let whole = used.start % HEAP == 0 && used.end == rest.start;
            (whole && rest.end - used.start == HEAP).then_some(used.start)
        }
        _ => None,
    };
    mappings.windows(2).filter_map(heap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_fills_its_place_in_two_parts() {
        let mapping = |start: u64, end: u64| Mapping { start, end, ..Mapping::default() };
        let at = 7 * HEAP;
        let all = [
            mapping(at - 4096, at),
            mapping(at, at + 8192),
            mapping(at + 8192, at + HEAP),
            mapping(at + HEAP, at + HEAP + 4096),
            mapping(9 * HEAP + 4096, 9 * HEAP + 8192),
            mapping(9 * HEAP + 8192, 10 * HEAP),
        ];
        assert_eq!(find_heap_starts(&all).collect::<Vec<_>>(), [at]);
        assert_eq!(find_heap_starts(&[]).count(), 0);
    }

    /// With glibc, threads that allocate memory at the same time have separate arenas.
    #[test]
    fn heaps_of_our_own_threads_are_found() {
        let (told, heard) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let held: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1 << 14]).collect();
            told.send(()).unwrap();
            let _ = ended.recv();
            held.len()
        });
        heard.recv().unwrap();
        let found = heaps(std::process::id(), 2 << 20).unwrap();
        if cfg!(target_env = "gnu") {
            assert!(found.count >= 1 && found.held > Bytes::new(64 << 10), "{found:?}");
        }
        drop(end);
        assert_eq!(thread.join().unwrap(), 64);
    }
}
