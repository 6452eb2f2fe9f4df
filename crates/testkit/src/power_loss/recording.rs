// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a log of writes in the format of the kernel's dm-log-writes, which QEMU's blklogwrites
//! also writes.
//!
//! The log has no entries for events that do not write to the disk. The guest therefore writes a
//! *mark* after the end of the file system: a sector that begins with [`MARK`]. Marks are not part
//! of the disk.
//!
//! QEMU logs a write when it receives it, and not when the write has completed. A write that was in
//! flight when a flush was requested therefore counts as flushed. This is correct for Linux, which
//! waits for the writes that must be on the disk before it requests a flush.

use std::fmt;
use std::ops::Range;

/// The first bytes of a mark that the guest writes.
const MARK: &[u8] = b"pagewise-mark ";
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
/// The smallest unit of a torn write, in bytes; the sectors of a log are at least as large.
pub(super) const SECTOR: usize = 512;
/// Maximum number of sectors of one write. Larger numbers are errors, because no test disk is that
/// large.
const LONGEST_WRITE: u64 = 1 << 21;

/// A request that the guest sent to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The guest wrote these bytes.
    Write {
        /// Offset on the disk in bytes.
        at: usize,
        /// The bytes that were written: whole sectors.
        data: Vec<u8>,
    },
    /// The guest requested that all earlier writes become durable.
    Flush,
    /// A mark of the guest, which is not a request to the disk, with its text.
    Mark(String),
}

/// The contents of a file system when the log begins, and all requests after that.
#[derive(Debug)]
pub struct Recording {
    /// The contents of the file system when the log begins.
    pub start: Vec<u8>,
    /// The requests, in the order of the log.
    pub entries: Vec<Entry>,
}

/// Describes what is wrong with a log.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLog(String);

impl fmt::Display for BadLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BadLog {}

impl Recording {
    /// Parses a log. Writes after the end of `start` are marks.
    ///
    /// # Errors
    /// If the log is truncated, or has entries that are neither writes, flushes nor marks.
    pub fn parse(start: Vec<u8>, log: &[u8]) -> Result<Self, BadLog> {
        let [magic, version, count] = [0, 8, 16].map(|at| number(log, at).unwrap_or_default());
        let sector = log
            .get(24..28)
            .map_or(0, |it| it.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
        if (magic, version) != (MAGIC, VERSION) || sector < SECTOR {
            let found = format!("magic {magic:#x}, version {version}, sectors of {sector} bytes");
            return Err(BadLog(format!("expected a log of writes, found {found}")));
        }
        let mut entries = Vec::new();
        let mut at = sector;
        for number in 0..count {
            let bad = |what: String| BadLog(format!("entry {number} of {count}: {what}"));
            let (entry, next) = parse_entry(log, at, sector, start.len()).map_err(bad)?;
            entries.push(entry);
            at = next;
        }
        Ok(Self { start, entries })
    }

    /// Returns the indices of the entries after mark `first`, up to mark `last`.
    ///
    /// # Panics
    /// If one of these marks does not exist.
    #[must_use]
    pub fn between(&self, first: &str, last: &str) -> Range<usize> {
        let find = |text: &str| {
            let is_mark = |entry: &Entry| matches!(entry, Entry::Mark(mark) if mark == text);
            self.entries.iter().position(is_mark).unwrap_or_else(|| panic!("no mark {text}"))
        };
        find(first)..find(last)
    }

    /// Returns the text of the last mark before this entry; `None` if there is none.
    #[must_use]
    pub fn mark_before(&self, entry: usize) -> Option<&str> {
        self.entries[..entry].iter().rev().find_map(|entry| match entry {
            Entry::Mark(mark) => Some(mark.as_str()),
            _ => None,
        })
    }
}

/// Parses the entry at an offset of the log. Returns the entry and the offset of the next one.
fn parse_entry(
    log: &[u8],
    at: usize,
    sector: usize,
    disk: usize,
) -> Result<(Entry, usize), String> {
    let field = |index: usize| number(log, at + 8 * index).ok_or("the log ends in it");
    let (first, sectors, flags, text) = (field(0)?, field(1)?, field(2)?, field(3)?);
    let data = at + sector;
    if flags == FLUSH && sectors == 0 {
        return Ok((Entry::Flush, data));
    }
    // `text` is the length of a text that other loggers write for a mark
    if flags != 0 || text != 0 || sectors > LONGEST_WRITE {
        let found = format!("flags {flags:#x}, {sectors} sectors, {text} bytes of text");
        return Err(format!("expected a flush or a write, found {found}"));
    }
    let length = usize::try_from(sectors).map_err(|error| error.to_string())? * sector;
    let bytes = log.get(data..data + length).ok_or("the log ends in its data")?.to_vec();
    let next = data + length;
    let to = usize::try_from(first).ok().and_then(|first| first.checked_mul(sector));
    let to = to.ok_or_else(|| format!("sector {first} is on no disk"))?;
    if to < disk {
        return if to + length <= disk {
            Ok((Entry::Write { at: to, data: bytes }, next))
        } else {
            Err("it writes across the end of the file system".to_owned())
        };
    }
    let text = bytes.strip_prefix(MARK).ok_or("it is no mark and lies behind the file system")?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok((Entry::Mark(String::from_utf8_lossy(text).into_owned()), next))
}

fn number(log: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(log.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a log in the format in which QEMU writes it.
    fn log_of(entries: &[Entry], disk: usize) -> Vec<u8> {
        let mut log = vec![0; SECTOR];
        let fields = [MAGIC, VERSION, entries.len() as u64, SECTOR as u64];
        log[..32].copy_from_slice(&fields.map(u64::to_le_bytes).concat());
        for entry in entries {
            let (at, data) = match entry {
                Entry::Write { at, data } => (*at, data.clone()),
                Entry::Flush => (0, Vec::new()),
                Entry::Mark(text) => {
                    let mut data = [MARK, text.as_bytes()].concat();
                    data.resize(SECTOR, 0);
                    (disk, data)
                }
            };
            let flags = u64::from(*entry == Entry::Flush);
            let numbers = [at / SECTOR, data.len() / SECTOR].map(|it| it as u64);
            let fields = [numbers[0], numbers[1], flags, 0].map(u64::to_le_bytes);
            let end = log.len() + SECTOR;
            log.extend(fields.concat());
            log.resize(end, 0);
            log.extend(data);
        }
        log
    }

    fn entries() -> Vec<Entry> {
        let write = |at: usize, length: usize| Entry::Write { at, data: vec![7; length] };
        let mark = Entry::Mark("here".to_owned());
        vec![write(0, 1024), Entry::Flush, mark, write(1024, 512), Entry::Mark("end".to_owned())]
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let recording = Recording::parse(vec![0; 2048], &log_of(&entries(), 2048)).unwrap();
        assert_eq!(recording.entries, entries());
        assert_eq!(recording.between("here", "end"), 2..4);
        let marks = [0, 3, 5].map(|entry| recording.mark_before(entry));
        assert_eq!(marks, [None, Some("here"), Some("end")]);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let refused = |disk: usize, log: &[u8]| Recording::parse(vec![0; disk], log).unwrap_err().0;
        let log = log_of(&entries(), 2048);
        assert!(refused(2048, b"").starts_with("expected a log of writes"));
        assert_eq!(refused(2048, &log[..log.len() - 1000]), "entry 4 of 5: the log ends in it");
        assert_eq!(refused(2048, &log[..1500]), "entry 0 of 5: the log ends in its data");
        let across = "entry 0 of 5: it writes across the end of the file system";
        assert_eq!(refused(512, &log), across);
        let behind = "entry 3 of 5: it is no mark and lies behind the file system";
        assert_eq!(refused(1024, &log), behind);
        let mut discard = log.clone();
        discard[SECTOR + 16] = 4;
        assert!(refused(2048, &discard).contains("flags 0x4"));
    }
}
