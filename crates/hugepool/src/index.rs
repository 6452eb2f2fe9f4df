// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds, without a lock, the pool that mapped an address.
//!
//! The index is a table of three levels over 48 bits of address, with one entry for each 2 MiB.
//! Levels are allocated when they are first needed (20 KiB for each GiB of addresses) and never
//! freed, so that a reader needs no lock. Looking up an address that no pool mapped returns
//! nothing; it does not crash.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::chunk::SPANS;
use crate::size_class::SizeClass;

/// Number of address bits within one entry of the table: the smallest chunk is 2 MiB.
const SHIFT: usize = 21;
const BITS: usize = 9;
const FANOUT: usize = 1 << BITS;
/// Number of address bits that the table covers.
const COVERED: usize = SHIFT + 3 * BITS;

/// The pool that a huge page belongs to, and the number of its entry in the pool's arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The number of the pool. Pools are numbered from 1, and no number is reused.
    pub(crate) pool: u32,
    pub(crate) entry: u32,
}

struct Leaf {
    /// The pool and the number of the arena's entry as `pool << 32 | entry`; 0 if no pool has
    /// mapped the address.
    owner: AtomicU64,
    /// For each span, the size class of its slab plus one; 0 if the span is not in a slab.
    classes: [AtomicU8; SPANS],
}

type Leaves = OnceLock<Vec<Leaf>>;

static ROOT: [OnceLock<Vec<Leaves>>; FANOUT] = [const { OnceLock::new() }; FANOUT];

fn level_index(address: usize, level: usize) -> usize {
    address >> (SHIFT + level * BITS) & (FANOUT - 1)
}

fn find_leaf(address: usize) -> Option<&'static Leaf> {
    if address >> COVERED != 0 {
        return None;
    }
    let middle = ROOT[level_index(address, 2)].get()?;
    let leaves = middle[level_index(address, 1)].get()?;
    Some(&leaves[level_index(address, 0)])
}

fn make_leaf(address: usize) -> Option<&'static Leaf> {
    if address >> COVERED != 0 {
        return None;
    }
    let middle = get_or_fill(&ROOT[level_index(address, 2)], OnceLock::new)?;
    let new = || Leaf { owner: AtomicU64::new(0), classes: [const { AtomicU8::new(0) }; SPANS] };
    let leaves = get_or_fill(&middle[level_index(address, 1)], new)?;
    Some(&leaves[level_index(address, 0)])
}

/// Returns the level of the table in a cell, after allocating it if the cell is empty; `None` if
/// there is no memory for it.
fn get_or_fill<T>(cell: &OnceLock<Vec<T>>, new: impl FnMut() -> T) -> Option<&Vec<T>> {
    if cell.get().is_none() {
        let mut level = Vec::new();
        level.try_reserve_exact(FANOUT).ok()?;
        level.resize_with(FANOUT, new);
        // Another thread may have filled the cell meanwhile: then this level is dropped.
        let _ = cell.set(level);
    }
    cell.get()
}

/// Records that `bytes` at an address belong to an owner. Returns false if the table does not cover
/// the address, or if there is no memory for the table.
pub(crate) fn insert(address: usize, bytes: usize, owner: Owner) -> bool {
    let entry = u64::from(owner.pool) << 32 | u64::from(owner.entry);
    for at in huge_pages_of(address, bytes) {
        let Some(leaf) = make_leaf(at) else { return false };
        leaf.owner.store(entry, Ordering::Release);
    }
    true
}

/// Removes the entries of the table that `insert` added for this memory.
pub(crate) fn remove(address: usize, bytes: usize) {
    for leaf in huge_pages_of(address, bytes).filter_map(find_leaf) {
        leaf.owner.store(0, Ordering::Release);
        for class in &leaf.classes {
            class.store(0, Ordering::Relaxed);
        }
    }
}

fn huge_pages_of(address: usize, bytes: usize) -> impl Iterator<Item = usize> {
    (address..address + bytes).step_by(1 << SHIFT)
}

/// The pool that mapped an address, and the entry in its arena; `None` if no pool did.
pub(crate) fn find_owner(address: usize) -> Option<Owner> {
    let entry = find_leaf(address)?.owner.load(Ordering::Acquire);
    let pool = u32::try_from(entry >> 32).ok().filter(|pool| *pool != 0)?;
    Some(Owner { pool, entry: u32::try_from(entry & u64::from(u32::MAX)).ok()? })
}

/// Stores the size class of the slab in a range of spans of the chunk at this address; `bytes` is
/// the size of the chunk. The class is `None` if the spans are not in a slab any more.
pub(crate) fn store_class(
    chunk: usize,
    bytes: usize,
    (first, spans): (usize, usize),
    class: Option<SizeClass>,
) {
    let code = class.map_or(0, |class| u8::try_from(class.index() + 1).unwrap_or(0));
    let span = bytes / SPANS;
    for at in (first..first + spans).map(|at| chunk + at * span) {
        // A span of a chunk above 2 MiB has several slots in the table, one for each 64 KiB.
        for inside in (at..at + span).step_by(span.min(1 << 16)) {
            if let Some(leaf) = find_leaf(inside) {
                leaf.classes[slot_of(inside)].store(code, Ordering::Relaxed);
            }
        }
    }
}

fn slot_of(address: usize) -> usize {
    address >> (SHIFT - SPANS.ilog2() as usize) & (SPANS - 1)
}

/// The pool that mapped an address, and the size class of the slab there.
#[inline]
pub(crate) fn find_class(address: usize) -> Option<(u32, SizeClass)> {
    let leaf = find_leaf(address)?;
    let pool = u32::try_from(leaf.owner.load(Ordering::Acquire) >> 32).ok()?;
    let code = leaf.classes[slot_of(address)].load(Ordering::Relaxed);
    Some((pool, SizeClass::from_index(usize::from(code).checked_sub(1)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address without any mapping, near the end of what the table covers.
    const HIGH: usize = (1 << COVERED) - (1 << 30);

    #[test]
    fn what_was_entered_is_found_until_it_is_removed() {
        let owner = Owner { pool: 7, entry: 3 };
        assert!(insert(HIGH, 4 << 20, owner));
        assert_eq!(super::find_owner(HIGH + (4 << 20) - 1), Some(owner));
        assert_eq!(super::find_owner(HIGH + (4 << 20)), None);
        assert_eq!(super::find_owner(HIGH - 1), None);
        let class = SizeClass::for_size(100);
        store_class(HIGH, 2 << 20, (3, 2), class);
        let at = |span: usize| super::find_class(HIGH + span * (64 << 10) + 17);
        assert_eq!([at(2), at(5)], [None, None]);
        assert_eq!([at(3), at(4)], [class.map(|class| (7, class)); 2]);
        remove(HIGH, 4 << 20);
        assert_eq!((super::find_owner(HIGH), at(3)), (None, None));
    }

    #[test]
    fn a_chunk_of_32_mib_notes_classes_at_each_of_its_pages() {
        let chunk = HIGH + (256 << 20);
        assert!(insert(chunk, 32 << 20, Owner { pool: 8, entry: 0 }));
        let class = SizeClass::for_size(16);
        store_class(chunk, 32 << 20, (1, 1), class);
        let at = |offset: usize| super::find_class(chunk + offset);
        assert_eq!((at((1 << 20) - 1), at(2 << 20)), (None, None));
        assert_eq!([at(1 << 20), at((2 << 20) - 1)], [class.map(|class| (8, class)); 2]);
        remove(chunk, 32 << 20);
    }

    #[test]
    fn addresses_that_are_not_covered_belong_to_nobody() {
        assert!(!insert(1 << COVERED, 2 << 20, Owner { pool: 1, entry: 1 }));
        assert_eq!((find_owner(usize::MAX), find_class(usize::MAX)), (None, None));
        assert_eq!((find_owner(0), find_class(16)), (None, None));
    }
}
