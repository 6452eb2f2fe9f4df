// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads one file of systemd's journal. It finds the entries that have a certain field through the
//! index in the file.
//!
//! The format is described in systemd's JOURNAL_FILE_FORMAT: a file has a header, and objects that
//! refer to each other by offset. A hash table leads to the DATA object of a field with a certain
//! value. That object contains the offset of the first entry with this field, and of a chain of
//! arrays with the offsets of all other such entries, in the order in which they were written.
//!
//! The contents are not trusted: the file may be damaged or forged, and it may change while it is
//! read, because journald writes it through a mapping and takes no lock. Each offset is checked
//! against the length of the file, each chain must lead forward or is cut off, and a [`Budget`]
//! limits the cost of reading all files.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read as _;
use std::time::{Duration, Instant};

use crate::hash::FieldHash;

/// Size and alignment of reads, in bytes. Objects that belong together are close to each other.
pub const BLOCK: usize = 8 << 10;
/// Maximum number of blocks of one file that are kept in memory.
const KEPT: usize = 64;
/// Length limit of a field that is read, in bytes: longer than any field of a kernel message.
const LONGEST: u64 = 64 << 10;
/// Limit on the memory for decompressing a field, in bytes.
const LARGEST_WINDOW: u32 = 1 << 20;
/// Maximum number of fields of one entry that are read; entries of the kernel have about a dozen.
const MOST_FIELDS: u64 = 128;
/// Maximum number of objects in a bucket, and of arrays in a chain, that are followed. Arrays
/// double in size.
const MOST_HOPS: usize = 256;
/// Maximum number of fields that are kept in memory because several entries share them.
const MOST_KNOWN: usize = 4096;

pub(crate) const SIGNATURE: &[u8; 8] = b"LPKSHHRH";
/// Size in bytes of the part of the header that exists in every version of the format.
const HEADER: usize = 208;

/// Flags of the format that are supported: compressed fields (xz, lz4, zstd), the keyed hash, and
/// short offsets. A file with any other flag is not read.
const KNOWN_FLAGS: u32 = 0b1_1111;
pub(crate) const KEYED: u32 = 1 << 2;
pub(crate) const COMPACT: u32 = 1 << 4;

pub(crate) const DATA: u8 = 1;
pub(crate) const ENTRY: u8 = 3;
pub(crate) const ENTRY_ARRAY: u8 = 6;

const COMPRESSED_XZ: u8 = 1;
pub(crate) const COMPRESSED_LZ4: u8 = 1 << 1;
pub(crate) const COMPRESSED_ZSTD: u8 = 1 << 2;

const OBJECT_HEADER: usize = 16;
pub(crate) const DATA_HEADER: usize = 64;
const ENTRY_HEADER: usize = 64;
const ARRAY_HEADER: u64 = 24;

/// A file that can be read in parts.
pub trait ReadPieces: fmt::Debug {
    /// The current length of the file in bytes.
    fn length(&self) -> u64;

    /// Reads `length` bytes at `offset` of the file. Returns fewer bytes if the file ends before,
    /// or if they cannot be read.
    fn read(&self, offset: u64, length: usize) -> Vec<u8>;
}

/// How much may still be read from all journal files together.
#[derive(Debug)]
pub struct Budget {
    blocks: Cell<usize>,
    entries: Cell<usize>,
    until: Option<Instant>,
}

impl Budget {
    /// Creates a budget of this many blocks of [`BLOCK`] bytes, of this many entries, and of this
    /// much time.
    pub fn new(blocks: usize, entries: usize, longest: Option<Duration>) -> Self {
        let until = longest.map(|longest| Instant::now() + longest);
        Self { blocks: Cell::new(blocks), entries: Cell::new(entries), until }
    }

    /// Whether the budget is used up, so that something may have been left out.
    pub fn is_spent(&self) -> bool {
        self.blocks.get() == 0 || self.entries.get() == 0
    }

    fn take_one(&self, of: &Cell<usize>) -> Option<()> {
        if self.until.is_some_and(|until| Instant::now() > until) {
            self.blocks.set(0);
        }
        of.set(of.get().checked_sub(1)?);
        Some(())
    }

    fn take_block(&self) -> Option<()> {
        self.take_one(&self.blocks)
    }

    fn take_entry(&self) -> Option<()> {
        self.take_one(&self.entries)
    }
}

/// Why a journal file was not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The file is not a journal file, or its header or hash table is damaged.
    Garbled,
    /// The format of the file is newer than this reader.
    Newer,
}

/// A DATA object of the journal file: a field with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Offset of the object in the file, by which entries refer to it.
    pub(crate) offset: u64,
    first_entry: u64,
    arrays: u64,
    pub(crate) count: u64,
}

/// The entries that have a certain field. They are numbered, the oldest first.
#[derive(Debug)]
pub(crate) struct Entries {
    first: u64,
    /// For each array of entries in the chain: the offset of the array, the number of its first
    /// entry, and how many entries it has.
    arrays: Vec<(u64, u64, u64)>,
    pub(crate) count: u64,
}

/// The header of an entry, which precedes its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) sequence: u64,
    /// When journald received the entry, in microseconds since 1970.
    pub(crate) realtime: u64,
    /// When journald received the entry, in microseconds since boot.
    pub(crate) monotonic: u64,
    pub(crate) boot: [u8; 16],
    size: u64,
}

/// A journal file of journald, open for reading.
#[derive(Debug)]
pub struct JournalFile<'a> {
    pieces: &'a dyn ReadPieces,
    budget: &'a Budget,
    length: u64,
    blocks: HashMap<u64, Vec<u8>>,
    is_compact: bool,
    hash: FieldHash,
    table: u64,
    buckets: u64,
    /// Offsets of fields that several entries share and whose values are not needed.
    irrelevant: HashSet<u64>,
    begins: u64,
}

impl<'a> JournalFile<'a> {
    /// Opens a file that begins like a journal file.
    ///
    /// # Errors
    /// If it does not begin like a journal file, or if its format is newer than this reader.
    pub fn open(pieces: &'a dyn ReadPieces, budget: &'a Budget) -> Result<Self, Unreadable> {
        let length = pieces.length();
        let mut file = Self {
            pieces,
            budget,
            length,
            blocks: HashMap::new(),
            is_compact: false,
            hash: FieldHash::Jenkins,
            table: 0,
            buckets: 0,
            irrelevant: HashSet::new(),
            begins: 0,
        };
        let header: [u8; HEADER] = file.read_array(0).ok_or(Unreadable::Garbled)?;
        if header[..8] != *SIGNATURE {
            return Err(Unreadable::Garbled);
        }
        let flags = u32_at(&header, 12);
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Unreadable::Newer);
        }
        file.is_compact = flags & COMPACT != 0;
        if flags & KEYED != 0 {
            file.hash = FieldHash::Keyed(id_at(&header, 24));
        }
        (file.table, file.buckets) = (u64_at(&header, 104), u64_at(&header, 112) / 16);
        file.begins = u64_at(&header, 184);
        let end = file.buckets.checked_mul(16).and_then(|size| file.table.checked_add(size));
        if file.buckets == 0 || end.is_none_or(|end| end > length) {
            return Err(Unreadable::Garbled);
        }
        Ok(file)
    }

    /// Whether the budget for reading is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// Returns when the first entry was written, in microseconds since 1970; 0 if there is no
    /// entry.
    pub fn first_entry_time(&self) -> u64 {
        self.begins
    }

    /// Finds the object of the field `NAME=value`; `None` if no entry in the file has this field,
    /// or if the file is damaged.
    pub(crate) fn find(&mut self, field: &[u8]) -> Option<Field> {
        self.look_up(field)?
    }

    /// Finds the object of the field `NAME=value`. Returns `Some(None)` if no entry in the file has
    /// the field, and `None` if the file is damaged.
    pub(crate) fn look_up(&mut self, field: &[u8]) -> Option<Option<Field>> {
        let hash = self.hash.compute(field);
        let bucket: [u8; 8] = self.read_array(self.table + hash % self.buckets * 16)?;
        let mut offset = u64::from_le_bytes(bucket);
        for _ in 0..MOST_HOPS {
            if offset == 0 {
                return Some(None);
            }
            let header = self.read_data(offset)?;
            if u64_at(&header, 16) == hash && self.read_value(offset)? == field {
                let (first_entry, arrays) = (u64_at(&header, 40), u64_at(&header, 48));
                let count = u64_at(&header, 56);
                return Some(Some(Field { offset, first_entry, arrays, count }));
            }
            offset = u64_at(&header, 24);
        }
        None
    }

    /// Returns the entries that have this field.
    pub(crate) fn find_entries(&mut self, field: &Field) -> Entries {
        let mut entries = Entries { first: field.first_entry, arrays: Vec::new(), count: 0 };
        if field.first_entry == 0 || field.count == 0 {
            return entries;
        }
        entries.count = 1;
        let mut offset = field.arrays;
        for _ in 0..MOST_HOPS {
            let left = field.count - entries.count;
            let Some(size) = self.object_size(offset, ENTRY_ARRAY).filter(|_| left > 0) else {
                break;
            };
            let holds = size.saturating_sub(ARRAY_HEADER) / self.offset_size();
            let count = holds.min(left);
            entries.arrays.push((offset, entries.count, count));
            entries.count += count;
            // arrays are appended to the file, so a chain that leads backwards is damaged
            match self.read_array(offset + OBJECT_HEADER as u64).map(u64::from_le_bytes) {
                Some(next) if next > offset => offset = next,
                _ => break,
            }
        }
        entries
    }

    /// Returns the offset of the entry with this number in `entries`.
    pub(crate) fn entry_at(&mut self, entries: &Entries, number: u64) -> Option<u64> {
        if number == 0 {
            return Some(entries.first).filter(|_| entries.count > 0);
        }
        let behind = entries.arrays.partition_point(|(_, begins, _)| *begins <= number);
        let (offset, begins, count) = *entries.arrays.get(behind.checked_sub(1)?)?;
        let within = Some(number - begins).filter(|within| *within < count)?;
        let at = offset + ARRAY_HEADER + within * self.offset_size();
        let entry = if self.is_compact {
            self.read_array(at).map(u32::from_le_bytes)?.into()
        } else {
            self.read_array(at).map(u64::from_le_bytes)?
        };
        // an array may have unused elements at its end, which are zero
        Some(entry).filter(|entry| *entry != 0)
    }

    /// Returns the number of the first of `entries` whose offset is at least `offset`.
    pub(crate) fn number_of(&mut self, entries: &Entries, offset: u64) -> u64 {
        let (mut low, mut high) = (0, entries.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry_at(entries, middle) {
                Some(entry) if entry < offset => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Reads the header of the entry at this offset.
    pub(crate) fn read_stamp(&mut self, entry: u64) -> Option<Stamp> {
        let size = self.object_size(entry, ENTRY)?;
        let header: [u8; ENTRY_HEADER] = self.read_array(entry)?;
        Some(Stamp {
            sequence: u64_at(&header, 16),
            realtime: u64_at(&header, 24),
            monotonic: u64_at(&header, 32),
            boot: id_at(&header, 40),
            size,
        })
    }

    /// Returns the offsets of the objects that contain an entry's fields.
    pub(crate) fn read_fields(&mut self, entry: u64, stamp: &Stamp) -> Option<Vec<u64>> {
        self.budget.take_entry()?;
        let step = if self.is_compact { 4 } else { 16 };
        let count = stamp.size.saturating_sub(ENTRY_HEADER as u64) / step;
        let all = self.read_bytes(entry + ENTRY_HEADER as u64, count.min(MOST_FIELDS) * step)?;
        let offset = |item: &[u8]| match item {
            [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]).into(),
            item => u64_at(item, 0),
        };
        Some(all.chunks_exact(if self.is_compact { 4 } else { 16 }).map(offset).collect())
    }

    /// Returns the value of the field at `offset`, if its name is one of `names` (which end with
    /// `=`), together with the index of that name.
    pub(crate) fn value_of(&mut self, offset: u64, names: &[&[u8]]) -> Option<(usize, Vec<u8>)> {
        if self.irrelevant.contains(&offset) {
            return None;
        }
        let whole = self.read_value(offset);
        let found = whole.and_then(|whole| {
            let which = names.iter().position(|name| whole.starts_with(name))?;
            Some((which, whole[names[which].len()..].to_vec()))
        });
        if found.is_none() && self.irrelevant.len() < MOST_KNOWN {
            self.irrelevant.insert(offset);
        }
        found
    }

    /// Returns `NAME=value` of a DATA object; `None` if it is compressed with an unsupported
    /// method.
    fn read_value(&mut self, offset: u64) -> Option<Vec<u8>> {
        let header = self.read_data(offset)?;
        let begins = if self.is_compact { DATA_HEADER + 8 } else { DATA_HEADER } as u64;
        let stored = u64_at(&header, 8).checked_sub(begins).filter(|size| *size <= LONGEST)?;
        let stored = self.read_bytes(offset + begins, stored)?;
        match header[1] & (COMPRESSED_XZ | COMPRESSED_LZ4 | COMPRESSED_ZSTD) {
            0 => Some(stored),
            COMPRESSED_LZ4 => decompress_lz4(&stored),
            COMPRESSED_ZSTD => decompress_zstd(&stored),
            _ => None,
        }
    }

    fn read_data(&mut self, offset: u64) -> Option<[u8; DATA_HEADER]> {
        self.object_size(offset, DATA)?;
        self.read_array(offset)
    }

    /// Returns the size of the object at this offset, if the object has this type and is inside the
    /// file.
    fn object_size(&mut self, offset: u64, kind: u8) -> Option<u64> {
        if offset < HEADER as u64 || offset % 8 != 0 {
            return None;
        }
        let header: [u8; OBJECT_HEADER] = self.read_array(offset)?;
        let size = u64_at(&header, 8);
        let fits = size >= OBJECT_HEADER as u64 && offset.checked_add(size)? <= self.length;
        (header[0] == kind && fits).then_some(size)
    }

    fn offset_size(&self) -> u64 {
        if self.is_compact { 4 } else { 8 }
    }

    fn read_array<const N: usize>(&mut self, offset: u64) -> Option<[u8; N]> {
        let mut array = [0; N];
        self.copy_bytes(offset, &mut array)?;
        Some(array)
    }

    /// Returns bytes at an offset of the file, at most [`LONGEST`].
    fn read_bytes(&mut self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let length = usize::try_from(length.min(LONGEST)).ok()?;
        let mut bytes = vec![0; length];
        self.copy_bytes(offset, &mut bytes)?;
        Some(bytes)
    }

    /// Fills `to` with the bytes at an offset of the file; returns `None` if the file ends before.
    fn copy_bytes(&mut self, offset: u64, mut to: &mut [u8]) -> Option<()> {
        let mut at = offset;
        while !to.is_empty() {
            let begin = usize::try_from(at % BLOCK as u64).ok()?;
            let found =
                self.read_block(at / BLOCK as u64)?.get(begin..).filter(|it| !it.is_empty())?;
            let length = found.len().min(to.len());
            let (now, later) = to.split_at_mut(length);
            now.copy_from_slice(&found[..length]);
            (to, at) = (later, at.checked_add(length as u64)?);
        }
        Some(())
    }

    fn read_block(&mut self, number: u64) -> Option<&[u8]> {
        if !self.blocks.contains_key(&number) {
            self.budget.take_block()?;
            if self.blocks.len() >= KEPT {
                self.blocks.clear();
            }
            let block = self.pieces.read(number.checked_mul(BLOCK as u64)?, BLOCK);
            self.blocks.insert(number, block);
        }
        self.blocks.get(&number).map(Vec::as_slice)
    }
}

/// Decompresses a field that is stored as its length followed by one lz4 block.
fn decompress_lz4(stored: &[u8]) -> Option<Vec<u8>> {
    let (length, block) = stored.split_first_chunk::<8>()?;
    let length = u64::from_le_bytes(*length);
    let mut plain = vec![0; usize::try_from(length).ok().filter(|_| length <= LONGEST)?];
    let filled = lz4_flex::block::decompress_into(block, &mut plain).ok()?;
    plain.truncate(filled);
    Some(plain)
}

fn decompress_zstd(stored: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = zstd::Decoder::with_buffer(stored).ok()?;
    decoder.window_log_max(LARGEST_WINDOW.ilog2()).ok()?;
    let mut plain = Vec::new();
    decoder.take(LONGEST).read_to_end(&mut plain).ok()?;
    Some(plain)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_le_bytes(*four))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |eight| u64::from_le_bytes(*eight))
}

fn id_at(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}
