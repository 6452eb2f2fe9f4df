// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates a journal file with given entries, for tests and as seeds for fuzzing.
//!
//! The file contains everything that journald's files contain, in each supported variant of the
//! format, except for the lists of fields by name, which are not needed for reading. Arrays of
//! entries are at the end of the file, and each is twice as long as the one before.

use std::collections::BTreeMap;

use crate::file::{
    COMPACT, COMPRESSED_LZ4, COMPRESSED_ZSTD, DATA, DATA_HEADER, ENTRY, ENTRY_ARRAY, KEYED,
    SIGNATURE,
};
use crate::hash::FieldHash;

const DATA_HASH_TABLE: u8 = 4;
/// Size in bytes of the file header in systemd 254 and later.
const HEADER: usize = 272;
/// Minimum length in bytes of a field that journald compresses.
const LONG: usize = 512;

/// How the values of long fields are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Long fields are not compressed.
    #[default]
    Plain,
    /// Long fields are compressed with lz4.
    Lz4,
    /// Long fields are compressed with zstd.
    Zstd,
}

/// The variant of the journal format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variant {
    /// Whether offsets of objects have four bytes instead of eight.
    pub is_compact: bool,
    /// Whether the hash is keyed with the file's id.
    pub is_keyed: bool,
    /// How the values of long fields are stored.
    pub packing: Packing,
    /// Number of buckets of the hash table; at least one.
    pub buckets: u64,
}

/// An entry to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// When journald received the entry, in microseconds since 1970.
    pub realtime: u64,
    /// When journald received the entry, in microseconds since boot.
    pub monotonic: u64,
    /// The id of the boot in which the entry was written.
    pub boot: [u8; 16],
    /// The fields, each as `NAME=value`.
    pub fields: Vec<Vec<u8>>,
}

impl Written {
    /// Creates a message of the kernel itself that journald received a millisecond later.
    pub fn by_kernel(boot: [u8; 16], clock_zero: u64, micros: u64, text: &[u8]) -> Self {
        let monotonic = micros.saturating_add(1000);
        let fields = [
            format!("_SOURCE_MONOTONIC_TIMESTAMP={micros}").into_bytes(),
            b"_TRANSPORT=kernel".to_vec(),
            b"SYSLOG_FACILITY=0".to_vec(),
            [b"MESSAGE=", text].concat(),
        ];
        let realtime = clock_zero.saturating_add(monotonic);
        Self { realtime, monotonic, boot, fields: fields.to_vec() }
    }

    /// Creates a message of a program, with fields that journald or the program set; `text` is the
    /// field `MESSAGE`.
    pub fn by_program(boot: [u8; 16], realtime: u64, fields: &[&str], text: &str) -> Self {
        let fields = fields.iter().map(|field| field.as_bytes().to_vec());
        let message = format!("MESSAGE={text}").into_bytes();
        Self { realtime, monotonic: 0, boot, fields: fields.chain([message]).collect() }
    }
}

/// Creates a file that contains these entries, which must be in order, oldest first.
pub fn make_journal(variant: &Variant, entries: &[Written]) -> Vec<u8> {
    let mut file = Writer::new(variant);
    for (entry, sequence) in entries.iter().zip(1..) {
        file.add(entry, sequence);
    }
    file.write_links();
    let begins = entries.first().map_or(0, |entry| entry.realtime);
    file.write_number(184, begins);
    file.bytes
}

struct Writer<'a> {
    variant: &'a Variant,
    hash: FieldHash,
    bytes: Vec<u8>,
    table: u64,
    /// For each field: the offset of its object, and the entries that have the field.
    fields: BTreeMap<Vec<u8>, (u64, Vec<u64>)>,
}

impl<'a> Writer<'a> {
    fn new(variant: &'a Variant) -> Self {
        let id: [u8; 16] = *b"an id of a file!";
        let mut bytes = vec![0; HEADER];
        bytes[..8].copy_from_slice(SIGNATURE);
        let mut flags = match variant.packing {
            Packing::Plain => 0,
            Packing::Lz4 => u32::from(COMPRESSED_LZ4),
            Packing::Zstd => 1 << 3,
        };
        flags |= if variant.is_compact { COMPACT } else { 0 };
        flags |= if variant.is_keyed { KEYED } else { 0 };
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[24..40].copy_from_slice(&id);
        let hash = if variant.is_keyed { FieldHash::Keyed(id) } else { FieldHash::Jenkins };
        let mut file = Self { variant, hash, bytes, table: 0, fields: BTreeMap::new() };
        let buckets = variant.buckets.max(1);
        let zeros = vec![0; usize::try_from(buckets * 16).unwrap_or(16)];
        file.table = file.write_object(DATA_HASH_TABLE, 0, &zeros) + 16;
        file.write_number(88, HEADER as u64);
        file.write_number(104, file.table);
        file.write_number(112, buckets * 16);
        file
    }

    fn add(&mut self, entry: &Written, sequence: u64) {
        let mut objects: Vec<u64> =
            entry.fields.iter().map(|field| self.write_field(field)).collect();
        objects.sort_unstable();
        objects.dedup();
        let mut body = Vec::new();
        for number in [sequence, entry.realtime, entry.monotonic] {
            body.extend(number.to_le_bytes());
        }
        body.extend(entry.boot);
        body.extend(0u64.to_le_bytes());
        for object in objects {
            body.extend(self.offset(object));
            if !self.variant.is_compact {
                body.extend(0u64.to_le_bytes());
            }
        }
        let at = self.write_object(ENTRY, 0, &body);
        for field in &entry.fields {
            if let Some((_, entries)) = self.fields.get_mut(field) {
                entries.push(at);
                entries.dedup();
            }
        }
    }

    /// Returns the offset of the object of a field. The object is written when the field first
    /// occurs.
    fn write_field(&mut self, field: &[u8]) -> u64 {
        if let Some((object, _)) = self.fields.get(field) {
            return *object;
        }
        let (flag, stored) = self.store(field);
        let hash = self.hash.compute(field);
        let bucket = usize::try_from(self.table + hash % self.variant.buckets.max(1) * 16);
        let bucket = bucket.unwrap_or(HEADER);
        let first: [u8; 8] = self.bytes[bucket..bucket + 8].try_into().unwrap_or_default();
        let mut body = hash.to_le_bytes().to_vec();
        body.extend(first);
        let to_payload = if self.variant.is_compact { DATA_HEADER + 8 } else { DATA_HEADER };
        body.resize(to_payload - 16, 0);
        body.extend(stored);
        let at = self.write_object(DATA, flag, &body);
        self.write_number(bucket, at);
        self.fields.insert(field.to_vec(), (at, Vec::new()));
        at
    }

    fn store(&self, field: &[u8]) -> (u8, Vec<u8>) {
        match self.variant.packing {
            Packing::Lz4 if field.len() >= LONG => {
                let length = (field.len() as u64).to_le_bytes();
                let packed = lz4_flex::block::compress(field);
                (COMPRESSED_LZ4, [length.as_slice(), &packed].concat())
            }
            Packing::Zstd if field.len() >= LONG => {
                (COMPRESSED_ZSTD, zstd::encode_all(field, 1).unwrap_or_default())
            }
            _ => (0, field.to_vec()),
        }
    }

    /// Writes the arrays of entries, and writes the offsets of these arrays into the object of each
    /// field.
    fn write_links(&mut self) {
        for (object, entries) in std::mem::take(&mut self.fields).into_values() {
            let at = usize::try_from(object).unwrap_or(0);
            let Some((first, rest)) = entries.split_first() else { continue };
            self.write_number(at + 40, *first);
            self.write_number(at + 56, entries.len() as u64);
            let (mut named_at, mut rest, mut room) = (at + 48, rest, 2);
            while !rest.is_empty() {
                let now = &rest[..room.min(rest.len())];
                let mut body = 0u64.to_le_bytes().to_vec();
                body.extend(now.iter().flat_map(|entry| self.offset(*entry)));
                body.resize(8 + room * if self.variant.is_compact { 4 } else { 8 }, 0);
                let array = self.write_object(ENTRY_ARRAY, 0, &body);
                self.write_number(named_at, array);
                named_at = usize::try_from(array).unwrap_or(0) + 16;
                (rest, room) = (&rest[now.len()..], room * 2);
            }
        }
    }

    fn offset(&self, offset: u64) -> Vec<u8> {
        match u32::try_from(offset) {
            Ok(short) if self.variant.is_compact => short.to_le_bytes().to_vec(),
            _ => offset.to_le_bytes().to_vec(),
        }
    }

    fn write_object(&mut self, kind: u8, flags: u8, body: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len() as u64;
        self.bytes.extend([kind, flags, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((body.len() as u64 + 16).to_le_bytes());
        self.bytes.extend(body);
        at
    }

    fn write_number(&mut self, at: usize, number: u64) {
        self.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
}
