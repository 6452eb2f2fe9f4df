// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from the headers of an ELF core dump which memory is where in the file.
//!
//! A core lists segments of memory (PT_LOAD) with their offsets in the file. Its note NT_FILE lists
//! the mapped files. Of file mappings, the kernel by default dumps only those with changed pages,
//! but all pages of these; so a dumped page of a file is not necessarily one that could be swapped.
//! If there are more than 65,534 segments, their number is in the first section header.
//!
//! A core may be truncated, malicious, or from another kind of machine: 32 and 64 bits and both
//! byte orders are supported. Its headers are not trusted: segments that overlap, are not
//! page-aligned, or share bytes of the file with another segment are left out and counted, so that
//! no byte of the file counts twice. The notes of a file have a common size limit, and each byte of
//! them is read once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::PageKind;

/// Maximum number of segments that are read; the kernel's default limit of mappings is 65,530.
const MOST_SEGMENTS: u64 = 1 << 20;
/// Maximum number of bytes of notes that are read of a file. The kernel writes NT_FILE, of at most 4
/// MiB by default, before the notes of all threads but one.
const MOST_NOTES: u64 = 16 << 20;
/// Maximum number of segments of notes that are read; cores of the kernel and of gdb have one.
const MOST_NOTE_SEGMENTS: usize = 16;
/// Program headers are read in pieces of this many bytes.
const TABLE_PIECE: usize = 1 << 16;

/// A segment of memory that the core contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    /// Offset of the segment in the file, in bytes.
    pub(crate) offset: u64,
    /// Number of bytes that the segment should have by its header; the file may be shorter.
    pub(crate) length: u64,
    pub(crate) kind: PageKind,
}

/// The segments of memory in a core dump.
#[derive(Debug, Default)]
pub(crate) struct Core {
    /// The segments in order of address, without overlaps.
    pub(crate) segments: Vec<Segment>,
    /// Number of segments that are left out: their header is invalid, they overlap another one, or
    /// there are too many notes.
    pub(crate) garbled: u64,
}

/// Word size and byte order of the file.
#[derive(Debug, Clone, Copy)]
struct Format {
    wide: bool,
    big: bool,
}

/// Something that can be read at any offset: the file, or bytes in a test.
pub(crate) trait Bytes {
    /// Fills the buffer, or less at the end of the file; returns the number of bytes.
    fn read_some(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Bytes for File {
    fn read_some(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let place = offset.checked_add(filled as u64).ok_or(io::ErrorKind::InvalidInput)?;
            match self.read_at(rest, place)? {
                0 => break,
                more => filled += more,
            }
        }
        Ok(filled)
    }
}

impl Core {
    /// # Errors
    /// If the header is invalid, a description of what is wrong.
    pub(crate) fn parse(file: &impl Bytes, page_size: u64) -> Result<Self, &'static str> {
        let head = Head::parse(file)?;
        let mut core = Self::default();
        let (mut files, mut notes) = (Vec::new(), NoteBudget::default());
        let mut table = Table { head: &head, piece: Vec::new(), first: 0 };
        for number in 0..head.count.min(MOST_SEGMENTS) {
            let Some(program) = table.program(file, number) else { break };
            match program.kind {
                PT_LOAD if program.length > 0 => match program.memory_segment(page_size) {
                    Some(segment) => core.segments.push(segment),
                    None => core.garbled += 1,
                },
                PT_NOTE if program.length > 0 => match notes.read(file, &program) {
                    Some(notes) => files.extend(mapped_files(&notes, head.format)),
                    None => core.garbled += 1,
                },
                _ => (),
            }
        }
        core.garbled += notes.cut;
        files.sort_unstable_by_key(|file| file.start);
        core.finish(&files);
        Ok(core)
    }

    /// Sorts the segments by address, drops those that overlap in memory or in the file, and finds
    /// out the kind of pages of each. `files` must be in order of address.
    fn finish(&mut self, files: &[MappedFile]) {
        let before = self.segments.len();
        self.drop_overlapping(|segment| segment.address);
        self.drop_overlapping(|segment| segment.offset);
        self.segments.sort_unstable_by_key(|segment| segment.address);
        self.garbled += (before - self.segments.len()) as u64;
        for segment in &mut self.segments {
            let after = files.partition_point(|file| file.start <= segment.address);
            let file = after.checked_sub(1).and_then(|at| files.get(at));
            let file = file.filter(|file| segment.address < file.end);
            segment.kind = file.map_or(PageKind::Anonymous, |file| file.kind);
        }
    }

    /// Sorts the segments by their start, and drops each that starts before the end of the previous
    /// one.
    fn drop_overlapping(&mut self, begin: fn(&Segment) -> u64) {
        self.segments
            .sort_unstable_by_key(|segment| (begin(segment), segment.length, segment.address));
        let mut end = 0;
        self.segments.retain(|segment| {
            let is_apart = begin(segment) >= end;
            if is_apart {
                end = begin(segment).saturating_add(segment.length);
            }
            is_apart
        });
    }
}

const PT_LOAD: u64 = 1;
const PT_NOTE: u64 = 4;

/// The fields of the ELF header that are needed to find the program headers.
#[derive(Debug)]
struct Head {
    format: Format,
    table: u64,
    entry_size: u64,
    count: u64,
}

impl Head {
    fn parse(file: &impl Bytes) -> Result<Self, &'static str> {
        let mut bytes = [0; 64];
        let length = file.read_some(0, &mut bytes).map_err(|_| "it cannot be read")?;
        let head = bytes.get(..length).unwrap_or_default();
        let format = Format::parse(head)?;
        let field = |narrow, wide| format.choose_by_width(narrow, wide);
        let number =
            |(at, size)| format.read_number(head, at, size).ok_or("it ends within its head");
        if number((16, 2))? != 4 {
            return Err("an ELF file, but no core");
        }
        let (table, sections) =
            (number(field((28, 4), (32, 8)))?, number(field((32, 4), (40, 8)))?);
        let entry_size = number(field((42, 2), (54, 2)))?;
        let count = match number(field((44, 2), (56, 2)))? {
            0xffff => {
                format.count_of_first_section(file, sections).ok_or("its table is missing")?
            }
            count => count,
        };
        if entry_size < format.choose_by_width(32, 56) {
            return Err("its table of stretches makes no sense");
        }
        Ok(Self { format, table, entry_size, count })
    }

    /// Parses a program header.
    fn program(&self, entry: &[u8]) -> Option<Program> {
        let number = |(at, size)| self.format.read_number(entry, at, size);
        Some(Program {
            kind: number((0, 4))?,
            offset: number(self.format.choose_by_width((4, 4), (8, 8)))?,
            address: number(self.format.choose_by_width((8, 4), (16, 8)))?,
            length: number(self.format.choose_by_width((16, 4), (32, 8)))?,
        })
    }
}

/// The program headers; one piece of them is in memory at a time.
#[derive(Debug)]
struct Table<'a> {
    head: &'a Head,
    piece: Vec<u8>,
    /// Number of the first header in the piece.
    first: u64,
}

impl Table<'_> {
    /// The program header with this number; `None` if it is after the end of the file. Must be
    /// called with ascending numbers.
    fn program(&mut self, file: &impl Bytes, number: u64) -> Option<Program> {
        let entry_size = usize::try_from(self.head.entry_size).ok()?;
        let within = |piece: &[u8], first: u64| {
            let at = usize::try_from(number - first).ok()?.checked_mul(entry_size)?;
            let end = at.checked_add(self.head.format.choose_by_width(32, 56))?;
            piece.get(at..end).and_then(|entry| self.head.program(entry))
        };
        if let Some(program) = within(&self.piece, self.first) {
            return Some(program);
        }
        let place = self.head.table.checked_add(number.checked_mul(self.head.entry_size)?)?;
        self.piece.resize(TABLE_PIECE.max(entry_size), 0);
        let length = file.read_some(place, &mut self.piece).ok()?;
        self.piece.truncate(length);
        self.first = number;
        within(&self.piece, self.first)
    }
}

impl Format {
    fn parse(head: &[u8]) -> Result<Self, &'static str> {
        match head {
            [0x7f, b'E', b'L', b'F', class @ (1 | 2), order @ (1 | 2), ..] => {
                Ok(Self { wide: *class == 2, big: *order == 2 })
            }
            [0x7f, b'E', b'L', b'F', ..] => Err("an ELF file of no known kind"),
            _ => Err("no ELF core"),
        }
    }

    fn choose_by_width<T>(self, narrow: T, wide: T) -> T {
        if self.wide { wide } else { narrow }
    }

    fn read_number(self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(size)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }

    /// Reads `sh_info` of section 0, which has the number of program headers if it does not fit
    /// into the ELF header.
    fn count_of_first_section(self, file: &impl Bytes, sections: u64) -> Option<u64> {
        let mut section = [0; 64];
        let length = file.read_some(sections, &mut section).ok().filter(|_| sections != 0)?;
        let at = self.choose_by_width(28, 44);
        self.read_number(section.get(..length)?, at, 4)
    }
}

/// A program header: describes one segment of memory or notes.
#[derive(Debug, Clone, Copy)]
struct Program {
    kind: u64,
    offset: u64,
    address: u64,
    length: u64,
}

impl Program {
    fn memory_segment(&self, page_size: u64) -> Option<Segment> {
        let &Self { address, offset, length, .. } = self;
        address.checked_add(length)?.checked_add(page_size)?;
        offset.checked_add(length)?.checked_add(page_size)?;
        let segment = Segment { address, offset, length, kind: PageKind::Anonymous };
        (address % page_size == 0).then_some(segment)
    }
}

/// Limits how many bytes of notes are read from a file.
#[derive(Debug, Default)]
struct NoteBudget {
    bytes: u64,
    /// Begin and end of each segment of notes that was read, as offsets in the file.
    read: Vec<(u64, u64)>,
    /// Number of segments of which only the beginning was read.
    cut: u64,
}

impl NoteBudget {
    /// Reads a segment of notes; `None` if it shares bytes with a segment that was already read, or
    /// if the limit is reached.
    fn read(&mut self, file: &impl Bytes, program: &Program) -> Option<Vec<u8>> {
        let begin = program.offset;
        let requested = program.length.min(MOST_NOTES - self.bytes);
        let is_apart =
            |&(from, to): &(u64, u64)| begin >= to || begin.saturating_add(requested) <= from;
        let fits = requested > 0 && self.read.len() < MOST_NOTE_SEGMENTS;
        (fits && self.read.iter().all(is_apart)).then_some(())?;
        let notes = read_note(file, begin, requested);
        self.bytes += notes.len() as u64;
        self.cut += u64::from(requested < program.length && notes.len() as u64 == requested);
        self.read.push((begin, begin.saturating_add(requested)));
        Some(notes)
    }
}

fn read_note(file: &impl Bytes, begin: u64, requested: u64) -> Vec<u8> {
    // the buffer grows with the data that is read, not with the length in the header
    let (mut notes, mut piece) = (Vec::new(), [0; 1 << 14]);
    while (notes.len() as u64) < requested {
        let place = begin.saturating_add(notes.len() as u64);
        let left = usize::try_from(requested - notes.len() as u64).unwrap_or(piece.len());
        let size = left.min(piece.len());
        match piece.get_mut(..size).map(|piece| file.read_some(place, piece)) {
            Some(Ok(read)) if read > 0 => {
                notes.extend_from_slice(piece.get(..read).unwrap_or_default());
            }
            _ => break,
        }
    }
    notes
}

/// A range of memory that was mapped from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MappedFile {
    start: u64,
    end: u64,
    kind: PageKind,
}

/// Parses the note NT_FILE, which has a count, a page size, three numbers for each mapping, and
/// then the names.
fn mapped_files(notes: &[u8], format: Format) -> Vec<MappedFile> {
    let Some(body) = find_nt_file(notes, format) else { return Vec::new() };
    let word = format.choose_by_width(4, 8);
    let number = |index: usize| format.read_number(body, index.checked_mul(word)?, word);
    let fits = body.len() / word;
    let count = number(0).and_then(|count| usize::try_from(count).ok()).unwrap_or(0).min(fits);
    let names = body.get((2 + 3 * count).saturating_mul(word)..).unwrap_or_default();
    let names = names.split(|&byte| byte == 0);
    let file = |(index, name): (usize, &[u8])| {
        let (start, end) = (number(2 + 3 * index)?, number(3 + 3 * index)?);
        Some(MappedFile { start, end, kind: page_kind_of_name(name) })
    };
    (0..count).zip(names).filter_map(file).collect()
}

/// The kind of pages of a mapped file. A core does not record the file system, so the name decides:
/// the names that are tested are those of shared memory.
fn page_kind_of_name(name: &[u8]) -> PageKind {
    const SHARED: [&[u8]; 4] = [b"/dev/shm/", b"/memfd:", b"/SYSV", b"/dev/zero"];
    let shared = SHARED.iter().any(|known| name.starts_with(known));
    if shared { PageKind::Shmem } else { PageKind::File }
}

/// Finds the contents of the note CORE/NT_FILE. Names and contents of notes are padded to four
/// bytes.
fn find_nt_file(mut notes: &[u8], format: Format) -> Option<&[u8]> {
    const NT_FILE: u64 = 0x4649_4c45;
    loop {
        let number = |at| format.read_number(notes, at, 4);
        let (name, body, kind) = (number(0)?, number(4)?, number(8)?);
        let padded = |length: u64| usize::try_from(length.checked_add(3)? & !3).ok();
        let begin = 12usize.checked_add(padded(name)?)?;
        let end = begin.checked_add(usize::try_from(body).ok()?)?;
        if kind == NT_FILE && notes.get(12..16) == Some(b"CORE") {
            return notes.get(begin..end.min(notes.len()));
        }
        notes = notes.get(begin.checked_add(padded(body)?)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Bytes for Vec<u8> {
        fn read_some(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
            let length = buffer.len().min(self.len() - from);
            buffer[..length].copy_from_slice(&self[from..from + length]);
            Ok(length)
        }
    }

    fn put(bytes: &mut Vec<u8>, big: bool, size: usize, number: u64) {
        let all = number.to_le_bytes();
        let mut digits = all[..size].to_vec();
        if big {
            digits.reverse();
        }
        bytes.extend(digits);
    }

    /// Makes a core dump with these program headers: type, offset, address, length.
    fn core(wide: bool, big: bool, programs: &[[u64; 4]]) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big), 1];
        file.resize(16, 0);
        let word = if wide { 8 } else { 4 };
        let head = if wide { 64 } else { 52 };
        let mut add = |size, number| put(&mut file, big, size, number);
        [(2, 4), (2, 62), (4, 1), (word, 0), (word, head), (word, 0), (4, 0), (2, head)]
            .into_iter()
            .for_each(|(size, number)| add(size, number));
        [if wide { 56 } else { 32 }, programs.len() as u64, 0, 0, 0]
            .into_iter()
            .for_each(|number| add(2, number));
        for [kind, offset, address, length] in programs {
            let fields = if wide {
                [
                    (4, *kind),
                    (4, 6),
                    (8, *offset),
                    (8, *address),
                    (8, 0),
                    (8, *length),
                    (8, *length),
                    (8, 4096),
                ]
            } else {
                [
                    (4, *kind),
                    (4, *offset),
                    (4, *address),
                    (4, 0),
                    (4, *length),
                    (4, *length),
                    (4, 6),
                    (4, 4096),
                ]
            };
            fields.into_iter().for_each(|(size, number)| add(size, number));
        }
        file
    }

    #[test]
    fn segments_are_found_in_every_format() {
        for (wide, big) in [(true, false), (true, true), (false, false), (false, true)] {
            let file = core(
                wide,
                big,
                &[
                    [1, 8192, 0x40_0000, 4096],
                    [1, 0x3000, 0x1000, 100],
                    [6, 0, 0, 9],
                    [1, 5, 0x8000, 0],
                ],
            );
            let core = Core::parse(&file, 4096).unwrap();
            let places: Vec<_> =
                core.segments.iter().map(|s| (s.address, s.offset, s.length)).collect();
            assert_eq!(places, [(0x1000, 0x3000, 100), (0x40_0000, 8192, 4096)]);
            assert_eq!(core.garbled, 0);
        }
    }

    #[test]
    fn what_overlaps_or_wraps_is_left_out_and_counted() {
        let file = core(
            true,
            false,
            &[
                [1, 0, 0x1000, 0x3000],
                [1, 0, 0x2000, 0x1000],
                [1, 0, u64::MAX - 4095, 9000],
                [1, u64::MAX, 0x9000, 2],
                [1, 0, 0x9001, 2],
            ],
        );
        let core = Core::parse(&file, 4096).unwrap();
        assert_eq!((core.segments.len(), core.garbled), (1, 4));
    }

    /// Counts what is read of a core.
    struct Counted {
        file: Vec<u8>,
        bytes: std::cell::Cell<u64>,
        reads: std::cell::Cell<u64>,
    }

    impl Bytes for Counted {
        fn read_some(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.file.read_some(offset, buffer)?;
            self.bytes.set(self.bytes.get() + read as u64);
            self.reads.set(self.reads.get() + 1);
            Ok(read)
        }
    }

    fn parse_counted(file: Vec<u8>) -> (Core, Counted) {
        let file = Counted { file, bytes: 0.into(), reads: 0.into() };
        (Core::parse(&file, 4096).unwrap(), file)
    }

    /// However many headers name the same notes, the notes are read once, and the other headers are
    /// counted. A note in this test is 12 zero bytes: it has no name and no contents.
    #[test]
    fn notes_that_many_headers_share_are_read_once() {
        let headers = 60_000;
        let begin = 64 + headers * 56;
        for fill in [0, 1, 0xff] {
            let shared = vec![[4, begin, 0, 1 << 20]; usize::try_from(headers).unwrap()];
            let mut file = core(true, false, &shared);
            file.resize(usize::try_from(begin).unwrap() + (1 << 20), fill);
            let size = file.len() as u64;
            let (core, counted) = parse_counted(file);
            assert_eq!((core.segments.len(), core.garbled), (0, headers - 1));
            // a header of the next piece may be cut at the end of a piece, and is then read again
            assert!(counted.bytes.get() < size + size / 100 + (1 << 17), "{}", counted.bytes.get());
            assert!(counted.reads.get() < size / 4096, "{}", counted.reads.get());
        }
    }

    /// Segments of notes at different places have one common limit.
    #[test]
    fn the_notes_of_a_file_have_one_budget() {
        let begin = 1 << 16;
        let apart = |length: u64| {
            let headers: Vec<_> = (0..40).map(|at| [4, begin + at * length, 0, length]).collect();
            let mut file = core(true, false, &headers);
            file.resize(usize::try_from(begin + 40 * length).unwrap(), 0);
            parse_counted(file)
        };
        let (core, counted) = apart(4096);
        assert_eq!(core.garbled, 40 - MOST_NOTE_SEGMENTS as u64);
        assert!(counted.bytes.get() < 1 << 18, "{}", counted.bytes.get());
        let (core, counted) = apart(MOST_NOTES / 8 + 1);
        assert_eq!(core.garbled, 40 - 7, "of the eighth a byte is left out");
        assert!(counted.bytes.get() < MOST_NOTES + (1 << 18), "{}", counted.bytes.get());
    }

    #[test]
    fn no_two_segments_of_memory_share_bytes_of_the_file() {
        let at = |page: u64| [1, 0x4000, 0x1000 * (page + 1), 0x1000];
        let shared: Vec<_> = (0..1000).map(at).chain([[1, 0x5000, 0x80_0000, 0x1000]]).collect();
        let core = Core::parse(&core(true, false, &shared), 4096).unwrap();
        let places: Vec<_> = core.segments.iter().map(|it| (it.address, it.offset)).collect();
        assert_eq!((places, core.garbled), (vec![(0x1000, 0x4000), (0x80_0000, 0x5000)], 999));
    }

    #[test]
    fn other_files_say_what_they_are() {
        let program = {
            let mut file = core(true, false, &[]);
            file[16] = 2;
            file
        };
        assert_eq!(Core::parse(&program, 4096).unwrap_err(), "an ELF file, but no core");
        assert_eq!(Core::parse(&b"#!/bin/sh".to_vec(), 4096).unwrap_err(), "no ELF core");
        assert_eq!(
            Core::parse(&core(true, false, &[])[..40].to_vec(), 4096).unwrap_err(),
            "it ends within its head"
        );
    }

    #[test]
    fn mapped_files_are_told_from_shared_memory() {
        let mut body = Vec::new();
        for number in [2, 1, 0x1000, 0x2000, 0, 0x5000, 0x6000, 3] {
            put(&mut body, false, 8, number);
        }
        body.extend(b"/usr/bin/x\0/memfd:y (deleted)\0");
        let mut notes = Vec::new();
        [5, 3, 1].into_iter().for_each(|number| put(&mut notes, false, 4, number));
        notes.extend(b"CORE\0\0\0\0abc\0");
        [5, body.len() as u64, 0x4649_4c45]
            .into_iter()
            .for_each(|number| put(&mut notes, false, 4, number));
        notes.extend(b"CORE\0\0\0\0");
        notes.extend(&body);
        let programs = [
            [4, 64 + 4 * 56, 0, notes.len() as u64],
            [1, 0x1000, 0x1000, 0x1000],
            [1, 0x2000, 0x5000, 0x1000],
            [1, 0x3000, 0x9000, 0x1000],
        ];
        let mut file = core(true, false, &programs);
        file.extend(&notes);
        let kinds: Vec<PageKind> =
            Core::parse(&file, 4096).unwrap().segments.iter().map(|s| s.kind).collect();
        assert_eq!(kinds, [PageKind::File, PageKind::Shmem, PageKind::Anonymous]);
    }

    /// If there are more than 65,534 segments, their number is in the first section header.
    #[test]
    fn very_many_segments_are_counted_in_the_first_section() {
        let mut file = core(true, false, &[[1, 0, 0x1000, 0x1000]]);
        let end = file.len() as u64;
        file[40..48].copy_from_slice(&end.to_le_bytes());
        file[56..58].copy_from_slice(&[0xff, 0xff]);
        let mut section = vec![0; 64];
        section[44] = 1;
        file.extend(section);
        assert_eq!(Core::parse(&file, 4096).unwrap().segments.len(), 1);
    }

    proptest! {
        /// Parsing a damaged core never panics, and the segments that are not left out are valid.
        #[test]
        fn damage_is_survived(
            wide: bool,
            big: bool,
            programs in prop::collection::vec(any::<[u64; 4]>(), 0..6),
            damage in prop::collection::vec((0usize..400, any::<u8>()), 0..8),
            tail in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..600,
        ) {
            let programs: Vec<[u64; 4]> =
                programs.iter().map(|[kind, rest @ ..]| [kind % 8, rest[0], rest[1] >> 20 << 12, rest[2]]).collect();
            let mut file = core(wide, big, &programs);
            file.extend(tail);
            for (at, byte) in damage {
                if let Some(hit) = file.get_mut(at) { *hit = byte; }
            }
            file.truncate(cut);
            if let Ok(core) = Core::parse(&file, 4096) {
                for pair in core.segments.windows(2) {
                    prop_assert!(pair[0].address + pair[0].length <= pair[1].address);
                }
                let mut in_file = core.segments.clone();
                in_file.sort_by_key(|it| it.offset);
                for pair in in_file.windows(2) {
                    prop_assert!(pair[0].offset + pair[0].length <= pair[1].offset);
                }
            }
        }

        #[test]
        fn notes_may_be_anything(notes: Vec<u8>, wide: bool, big: bool) {
            let _ = mapped_files(&notes, Format { wide, big });
        }
    }
}
