// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes which contents of a disk a power loss can leave, from a recording of the writes to the
//! disk.
//!
//! Everything that was flushed is on the disk. Each write after the last flush may or may not be on
//! it, in any order, and one write may be on it with only some of its sectors. For each flush, the
//! first disks are the one without any of the later writes, and those with the first of them, with
//! the first two, and so on. Random subsets follow. A disk that equals an earlier one is not
//! counted.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use fastrand::Rng;

use super::recording::{Entry, Recording, SECTOR};

/// A moment at which the power fails, and what is on the disk then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerLoss {
    /// Index in the recording: entries before it are on the disk, as they were flushed.
    pub flushed: usize,
    /// Index in the recording: entries before it were requested when the power failed.
    pub requested: usize,
    /// The writes between `flushed` and `requested` that are on the disk.
    pub kept: Vec<KeptWrite>,
}

/// A write that was not flushed but is on the disk nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWrite {
    /// The index of the write's entry in the recording.
    entry: usize,
    /// The sectors of the write that are on the disk; `None` if all of them are.
    sectors: Option<Range<usize>>,
}

impl fmt::Display for PowerLoss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "after {} entries, {} of them flushed; of the others there are [",
            self.requested, self.flushed
        )?;
        for (number, kept) in self.kept.iter().enumerate() {
            let comma = if number == 0 { "" } else { " " };
            write!(out, "{comma}{}", kept.entry)?;
            if let Some(sectors) = &kept.sectors {
                write!(out, " (sectors {} to {})", sectors.start, sectors.end - 1)?;
            }
        }
        out.write_str("]")
    }
}

/// How many disks to make, and how to choose them.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Number of disks to make, provided that this many different disks exist.
    pub count: usize,
    /// Seed for choosing the subsets of writes that reach the disk.
    pub seed: u64,
}

/// Maximum number of random subsets of writes that are tried to find a new disk.
const TRIES: usize = 20;
/// Maximum number of times that all flushes are tried until there are enough disks.
const PASSES: usize = 8;
/// Position of the superblock of ext4, which is never torn: e2fsck would repair it from a copy,
/// which small disks do not have.
const SUPERBLOCK: Range<usize> = 1024..2048;

/// Makes different disks for power losses between two entries of the recording, and returns their
/// number.
pub fn replay(
    recording: &Recording,
    span: &Range<usize>,
    sampling: Sampling,
    examine: &mut dyn FnMut(&PowerLoss, &[u8]),
) -> usize {
    let intervals = intervals_between_flushes(recording, span);
    let writes =
        intervals.iter().map(|interval| writes_in(recording, interval).len()).sum::<usize>();
    let mut rng = Rng::with_seed(sampling.seed);
    let mut seen = HashSet::new();
    let mut take = |disk: &mut Disk, loss: &PowerLoss| {
        disk.lose(recording, loss, |sum, bytes| {
            let is_new = seen.insert(sum);
            if is_new {
                examine(loss, bytes);
            }
            is_new
        })
    };
    let mut taken = 0;
    for pass in 0..PASSES {
        let before = taken;
        let (mut disk, mut passed) = (Disk::new(&recording.start), 0);
        for interval in &intervals {
            disk.flush(recording, interval.start);
            let unflushed = writes_in(recording, interval);
            if pass == 0 {
                let losses = losses_in_order(interval, &unflushed).into_iter();
                taken += losses.filter(|loss| take(&mut disk, loss)).count();
            }
            passed += unflushed.len();
            // disks that earlier intervals could not provide are made from this one
            let missing = sampling.count.saturating_sub(before);
            let due = before + (missing * passed).div_ceil(writes.max(1));
            for _ in 0..TRIES * due.saturating_sub(taken) {
                if taken >= due || unflushed.is_empty() {
                    break;
                }
                let loss = random_losses(recording, interval, &unflushed, &mut rng);
                taken += usize::from(take(&mut disk, &loss));
            }
        }
        if taken >= sampling.count || taken == before {
            break;
        }
    }
    taken
}

/// Returns the ranges of entries between one flush and the next.
fn intervals_between_flushes(recording: &Recording, span: &Range<usize>) -> Vec<Range<usize>> {
    let is_flush = |entry: &usize| recording.entries[*entry] == Entry::Flush;
    let before = (0..span.start).rev().find(is_flush).map_or(0, |flush| flush + 1);
    let flushes: Vec<usize> = (span.start..span.end).filter(is_flush).collect();
    let starts = [before].into_iter().chain(flushes.iter().map(|flush| flush + 1));
    let ends = flushes.iter().copied().chain([span.end]);
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

fn writes_in(recording: &Recording, interval: &Range<usize>) -> Vec<usize> {
    let is_write = |entry: &usize| matches!(recording.entries[*entry], Entry::Write { .. });
    interval.clone().filter(is_write).collect()
}

/// Returns power losses after which the disk contains none of the writes, or the first one, the
/// first two and so on, and one with all of them at the moment when the next flush was requested.
fn losses_in_order(interval: &Range<usize>, writes: &[usize]) -> Vec<PowerLoss> {
    let kept = |count: usize| {
        writes[..count].iter().map(|entry| KeptWrite { entry: *entry, sectors: None }).collect()
    };
    let loss = |count: usize| PowerLoss {
        flushed: interval.start,
        requested: writes.get(count).copied().unwrap_or(interval.end),
        kept: kept(count),
    };
    (0..=writes.len()).map(loss).collect()
}

fn random_losses(
    recording: &Recording,
    interval: &Range<usize>,
    writes: &[usize],
    rng: &mut Rng,
) -> PowerLoss {
    let requested = rng.usize(1..=writes.len());
    let share = rng.f64();
    let chosen = writes[..requested].iter().filter(|_| rng.f64() < share);
    let mut kept: Vec<KeptWrite> =
        chosen.map(|entry| KeptWrite { entry: *entry, sectors: None }).collect();
    if !kept.is_empty() && rng.bool() {
        let torn = rng.usize(..kept.len());
        kept[torn].sectors = sectors_of(recording, kept[torn].entry, rng);
    }
    let requested = writes.get(requested).copied().unwrap_or(interval.end);
    PowerLoss { flushed: interval.start, requested, kept }
}

/// Returns a random part of a write's sectors if the write is torn; `None` if it is not.
fn sectors_of(recording: &Recording, entry: usize, rng: &mut Rng) -> Option<Range<usize>> {
    let Entry::Write { at, data } = &recording.entries[entry] else { return None };
    if *at < SUPERBLOCK.end && at + data.len() > SUPERBLOCK.start {
        return None;
    }
    let sectors = data.len() / SECTOR;
    let start = if rng.bool() { 0 } else { rng.usize(..sectors) };
    let end = rng.usize(start + 1..=sectors);
    (end - start < sectors).then_some(start..end)
}

/// The contents of a disk, with a checksum that is equal for equal contents.
struct Disk {
    bytes: Vec<u8>,
    sum: u64,
    /// Index in the recording: entries before it are on this disk.
    flushed: usize,
}

impl Disk {
    fn new(start: &[u8]) -> Self {
        Self { bytes: start.to_owned(), sum: 0, flushed: 0 }
    }

    fn flush(&mut self, recording: &Recording, until: usize) {
        for entry in &recording.entries[self.flushed..until] {
            if let Entry::Write { at, data } = entry {
                self.write(*at, data);
            }
        }
        self.flushed = until;
    }

    /// Applies a power loss to the disk, calls a function with it, and undoes the power loss.
    fn lose<T>(
        &mut self,
        recording: &Recording,
        loss: &PowerLoss,
        show: impl FnOnce(u64, &[u8]) -> T,
    ) -> T {
        let sum = self.sum;
        let mut before = Vec::new();
        for kept in &loss.kept {
            let Entry::Write { at, data } = &recording.entries[kept.entry] else { continue };
            let sectors = kept.sectors.clone().unwrap_or(0..data.len() / SECTOR);
            let (start, end) = (sectors.start * SECTOR, sectors.end * SECTOR);
            before.push((at + start, self.bytes[at + start..at + end].to_vec()));
            self.write(at + start, &data[start..end]);
        }
        let shown = show(self.sum, &self.bytes);
        for (at, bytes) in before.into_iter().rev() {
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        self.sum = sum;
        shown
    }

    fn write(&mut self, at: usize, data: &[u8]) {
        for (number, new) in data.chunks(SECTOR).enumerate() {
            let at = at + number * SECTOR;
            let old = &mut self.bytes[at..at + new.len()];
            if old != new {
                self.sum ^= sum(at, old) ^ sum(at, new);
                old.copy_from_slice(new);
            }
        }
    }
}

fn sum(at: usize, sector: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (at, sector).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Index of a sector after the superblock.
    const AT: usize = SUPERBLOCK.end / SECTOR;

    fn write(sector: usize, bytes: &[u8]) -> Entry {
        let data = bytes.iter().flat_map(|byte| [*byte; SECTOR]).collect();
        Entry::Write { at: (AT + sector) * SECTOR, data }
    }

    /// Shows each sector of a disk as one character.
    fn show_bytes(bytes: &[u8]) -> String {
        bytes.chunks(SECTOR).skip(AT).map(|sector| char::from(sector[0])).collect()
    }

    fn disks(entries: Vec<Entry>, count: usize) -> Vec<(PowerLoss, String)> {
        let start = vec![b'.'; (AT + 4) * SECTOR];
        let span = 0..entries.len();
        let recording = Recording { start, entries };
        let mut disks = Vec::new();
        let sampling = Sampling { count, seed: 1 };
        let taken = replay(&recording, &span, sampling, &mut |loss, bytes| {
            disks.push((loss.clone(), show_bytes(bytes)));
        });
        assert_eq!(taken, disks.len());
        disks
    }

    /// Every subset of the writes after a flush occurs, and every run of sectors of one of them; no
    /// disk occurs twice.
    #[test]
    fn what_was_flushed_stays_and_the_rest_may_be_lost() {
        let entries = vec![
            write(0, b"a"),
            Entry::Flush,
            write(1, b"bc"),
            write(3, b"d"),
            Entry::Flush,
            write(0, b"e"),
        ];
        let found: Vec<String> = disks(entries, 1000).into_iter().map(|(_, disk)| disk).collect();
        let different: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        let expected =
            ["....", "a...", "abc.", "abcd", "a..d", "ab..", "a.c.", "ab.d", "a.cd", "ebcd"];
        assert_eq!(different, BTreeSet::from(expected));
        assert_eq!(found.len(), expected.len());
    }

    /// After the last flush only one disk is possible, so that the other disks are made from the
    /// flush before, in a second pass.
    #[test]
    fn what_the_last_flush_cannot_give_is_taken_from_others() {
        let mut entries: Vec<Entry> = (0..4).map(|sector| write(sector, b"x")).collect();
        entries.push(Entry::Flush);
        entries.extend([0; 8].map(|_| write(0, b"x")));
        assert_eq!(disks(entries, 12).len(), 12);
    }

    #[test]
    fn the_superblock_is_not_torn() {
        let entry = |at: usize| Entry::Write { at, data: vec![1; 4096] };
        let recording = Recording { start: vec![0; 8192], entries: vec![entry(0), entry(4096)] };
        let mut rng = Rng::with_seed(1);
        let mut is_torn =
            |entry| (0..100).any(|_| sectors_of(&recording, entry, &mut rng).is_some());
        assert!(!is_torn(0) && is_torn(1));
    }

    /// If two writes to the same place are both on the disk, the later one has overwritten the
    /// earlier one.
    #[test]
    fn writes_to_one_place_keep_their_order() {
        let entries = vec![write(0, b"a"), write(0, b"b"), Entry::Flush];
        let found: Vec<String> = disks(entries, 1000).into_iter().map(|(_, disk)| disk).collect();
        assert_eq!(found, ["....", "a...", "b..."]);
    }

    #[test]
    fn a_seed_makes_the_same_losses_and_a_loss_names_its_writes() {
        let entries: Vec<Entry> = (0..4).map(|sector| write(sector, b"x")).collect();
        assert_eq!(disks(entries.clone(), 12), disks(entries.clone(), 12));
        assert_eq!(disks(entries, 12).len(), 12);
        let kept = [(2, None), (3, Some(1..3))];
        let kept = kept.map(|(entry, sectors)| KeptWrite { entry, sectors }).to_vec();
        let loss = PowerLoss { flushed: 2, requested: 5, kept };
        let expected =
            "after 5 entries, 2 of them flushed; of the others there are [2 3 (sectors 1 to 2)]";
        assert_eq!(loss.to_string(), expected);
    }
}
