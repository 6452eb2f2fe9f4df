// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the pages of a file, a device or a core dump.
//!
//! A file is divided into pages from its beginning; the last piece is padded with zeros, as in the
//! page cache. A device is read with O_DIRECT.
//!
//! A core file has holes for pages that its process never touched. Holes are not pages, so reserved
//! address space costs nothing. If the file was copied without its holes, they are pages of zeros,
//! which cannot be distinguished from other pages.

use std::fs::File;
use std::io;
use std::path::Path;

use pagewise_model::Name;
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;

use crate::elf::{Bytes, Core, Segment};
use crate::process::{PageRequest, ReadOutcome};
use crate::spans::{Run, Span};
use crate::{OpenError, PageKind, PartKind, open};

/// How the pages are arranged in the file.
#[derive(Debug)]
enum Layout {
    /// The pages follow one another from the start of the file.
    Flat,
    /// The pages are in the segments of a core dump, in order of address.
    Core(Vec<Segment>),
}

/// A file, device or core whose pages are read.
#[derive(Debug)]
pub(crate) struct Stored {
    file: File,
    size: u64,
    page_size: u64,
    layout: Layout,
}

/// Flaws of a core dump that were found while opening it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flaws {
    /// Number of segments that are left out; see [`Core`].
    pub(crate) garbled: u64,
    /// Number of pages that the headers place after the end of the file.
    pub(crate) truncated: u64,
}

impl Stored {
    pub(crate) fn file(path: &Path, page_size: u64) -> Result<Self, OpenError> {
        Self::flat(path, PartKind::File, open::open_named(path), page_size)
    }

    pub(crate) fn device(path: &Path, page_size: u64) -> Result<Self, OpenError> {
        // the device is first opened without O_DIRECT: with it, opening something that is not a
        // device may fail with a misleading error
        Self::flat(path, PartKind::Device, open::open_named(path), page_size)?;
        Self::flat(path, PartKind::Device, open::open_direct(path), page_size)
    }

    fn flat(
        path: &Path,
        kind: PartKind,
        file: io::Result<File>,
        page_size: u64,
    ) -> Result<Self, OpenError> {
        let file = file.map_err(|source| file_error(path, source))?;
        check_kind(path, kind, &file)?;
        let size =
            rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|e| file_error(path, e.into()))?;
        Ok(Self { file, size, page_size, layout: Layout::Flat })
    }

    pub(crate) fn core(path: &Path, page_size: u64) -> Result<(Self, Flaws), OpenError> {
        let mut stored = Self::flat(path, PartKind::Core, open::open_named(path), page_size)?;
        let core = Core::parse(&stored.file, page_size)
            .map_err(|why| OpenError::Core { path: display_name(path), why })?;
        stored.layout = Layout::Core(core.segments);
        Ok((stored, Flaws { garbled: core.garbled, truncated: 0 }))
    }

    /// Calls `take` for each run of pages of the file, in order; returns the number of pages after
    /// the end of the file.
    pub(crate) fn find(&self, file_backed: bool, mut take: impl FnMut(Run)) -> u64 {
        let Layout::Core(segments) = &self.layout else {
            let length = self.size.div_ceil(self.page_size);
            take(Run { first: 0, length, kind: PageKind::Stored, huge: None, apart: true });
            return 0;
        };
        let requested = segments.iter().filter(|it| file_backed || it.kind != PageKind::File);
        requested.map(|segment| self.find_in(segment, &mut take)).sum()
    }

    fn find_in(&self, segment: &Segment, take: &mut impl FnMut(Run)) -> u64 {
        let first = segment.address / self.page_size;
        let there = self.size.saturating_sub(segment.offset).min(segment.length);
        let mut apart = true;
        for (from, end) in self.data_ranges(segment.offset, there) {
            let from = (from - segment.offset) / self.page_size;
            let length = (end - segment.offset).div_ceil(self.page_size).saturating_sub(from);
            take(Run { first: first + from, length, kind: segment.kind, huge: None, apart });
            apart = false;
        }
        let pages = |bytes: u64| bytes.div_ceil(self.page_size);
        pages(segment.length) - pages(there)
    }

    /// The parts of the `length` bytes at `offset` that are not holes. No page is in two of these
    /// parts.
    fn data_ranges(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = offset.saturating_add(length);
        let mut at = offset;
        std::iter::from_fn(move || {
            let from = self.seek(SeekFrom::Data(at), at, end).filter(|from| *from < end)?;
            let to = self.seek(SeekFrom::Hole(from), end, end).unwrap_or(end);
            let behind = to.saturating_sub(offset).div_ceil(self.page_size);
            at = offset.saturating_add(behind.saturating_mul(self.page_size)).max(from + 1);
            Some((from, to.max(from + 1)))
        })
    }

    /// Seeks to the next data or hole. Returns `None` if there is no more data, and `otherwise` if
    /// the file system does not support holes.
    fn seek(&self, to: SeekFrom, otherwise: u64, end: u64) -> Option<u64> {
        match rustix::fs::seek(&self.file, to) {
            Ok(place) => Some(place.min(end)),
            Err(Errno::NXIO) => None,
            Err(_) => Some(otherwise),
        }
    }

    /// Numbers of the pages of a coarse span that may be drawn.
    pub(crate) fn pages_of(&self, span: &Span) -> Vec<u64> {
        let mut pages = Vec::new();
        let Some((offset, _)) = self.place_of_page(span.first) else { return pages };
        for (from, end) in self.data_ranges(offset, u64::from(span.length) * self.page_size) {
            let first = span.first + (from - offset) / self.page_size;
            let last = span.first + (end - offset).div_ceil(self.page_size);
            pages.extend(first..last.min(span.end()));
        }
        pages
    }

    /// Offset of the page in the file, and the maximum number of its bytes; `None` if the file does
    /// not have the page.
    fn place_of_page(&self, page: u64) -> Option<(u64, u64)> {
        let Layout::Core(segments) = &self.layout else {
            return Some((page.checked_mul(self.page_size)?, self.page_size));
        };
        let address = page.checked_mul(self.page_size)?;
        let after = segments.partition_point(|segment| segment.address <= address);
        let segment = segments.get(after.checked_sub(1)?)?;
        let inside = address - segment.address;
        let left = segment.length.checked_sub(inside).filter(|left| *left > 0)?;
        Some((segment.offset + inside, left.min(self.page_size)))
    }

    /// Reads the requested pages, which must be in order, each to its place in `buffer`.
    pub(crate) fn read(
        &self,
        requests: &[PageRequest],
        buffer: &mut [u8],
        fates: &mut Vec<ReadOutcome>,
    ) {
        fates.clear();
        let size = usize::try_from(self.page_size).unwrap_or(usize::MAX);
        while let Some(rest) = requests.get(fates.len()..).filter(|rest| !rest.is_empty()) {
            let (offset, pages) = self.count_consecutive(rest);
            let begin = fates.len() * size;
            let to = buffer.get_mut(begin..begin + pages * size).unwrap_or_default();
            match offset.map(|(offset, bytes)| self.read_and_pad(offset, bytes, to)) {
                Some(Ok(bytes)) => {
                    let there = bytes.div_ceil(size);
                    fates.extend((0..pages).map(|page| outcome_of_read(page < there)));
                }
                // the pages are read one by one, so that a bad sector affects only its own page
                Some(Err(_)) if pages > 1 => {
                    rest.iter().take(pages).for_each(|one| self.read_one(one, buffer, fates));
                }
                _ => fates.extend(std::iter::repeat_n(ReadOutcome::Refused, pages)),
            }
        }
    }

    fn read_one(&self, request: &PageRequest, buffer: &mut [u8], fates: &mut Vec<ReadOutcome>) {
        let size = usize::try_from(self.page_size).unwrap_or(usize::MAX);
        let begin = fates.len() * size;
        let to = buffer.get_mut(begin..begin + size).unwrap_or_default();
        let read = self
            .place_of_page(request.page)
            .map(|(offset, bytes)| self.read_and_pad(offset, bytes, to));
        fates.push(match read {
            Some(Ok(bytes)) => outcome_of_read(bytes > 0),
            _ => ReadOutcome::Refused,
        });
    }

    /// Number of pages at the start of `requests` that are consecutive in the file, too, with their
    /// offset and length in the file.
    fn count_consecutive(&self, requests: &[PageRequest]) -> (Option<(u64, u64)>, usize) {
        let Some(first) = requests.first().and_then(|wanted| self.place_of_page(wanted.page))
        else {
            return (None, 1);
        };
        let (mut end, mut pages) = (first.0, 0);
        for (place, index) in
            requests.iter().map(|wanted| self.place_of_page(wanted.page)).zip(0u64..)
        {
            match place {
                Some((offset, bytes)) if offset == first.0 + index * self.page_size => {
                    end = offset + bytes;
                    pages += 1;
                }
                _ => break,
            }
            if end % self.page_size != first.0 % self.page_size {
                break;
            }
        }
        (Some((first.0, end - first.0)), pages)
    }

    /// Reads `bytes` into `to` and pads with zeros; returns the number of bytes read.
    fn read_and_pad(&self, offset: u64, bytes: u64, to: &mut [u8]) -> io::Result<usize> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(to.len());
        // O_DIRECT needs whole blocks; that holds, because a device always has whole pages
        let asked = to.get_mut(..length).unwrap_or_default();
        let read = self.file.read_some(offset, asked)?;
        to.get_mut(read..).unwrap_or_default().fill(0);
        Ok(read)
    }
}

fn outcome_of_read(there: bool) -> ReadOutcome {
    if there { ReadOutcome::Read { exclusive: false, frame: None } } else { ReadOutcome::Truncated }
}

/// A path in a form that is safe to print: special characters are escaped.
pub(crate) fn display_name(path: &Path) -> Name {
    Name::from_bytes(path.as_os_str().as_encoded_bytes())
}

fn file_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::File { path: display_name(path), source }
}

fn check_kind(path: &Path, kind: PartKind, file: &File) -> Result<(), OpenError> {
    let stat = rustix::fs::fstat(file).map_err(|error| file_error(path, error.into()))?;
    let found = FileType::from_raw_mode(stat.st_mode);
    let (wanted, expected) = match kind {
        PartKind::Device => (FileType::BlockDevice, "a block device"),
        _ => (FileType::RegularFile, "a regular file"),
    };
    if found == wanted {
        return Ok(());
    }
    let found = match found {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::BlockDevice => "a block device",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "something else",
    };
    Err(OpenError::Kind { path: display_name(path), expected, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    const PAGE: usize = 4096;

    fn request_pages(pages: &[u64]) -> Vec<PageRequest> {
        let one = |&page| PageRequest { page, kind: PageKind::Stored, huge: None };
        pages.iter().map(one).collect()
    }

    fn runs(stored: &Stored) -> (Vec<(u64, u64)>, u64) {
        let mut runs = Vec::new();
        let truncated = stored.find(false, |run| runs.push((run.first, run.length)));
        (runs, truncated)
    }

    #[test]
    fn the_last_piece_of_a_file_is_filled_with_zeros() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 2 * PAGE + 5]).unwrap();
        let stored = Stored::file(file.path(), PAGE as u64).unwrap();
        assert_eq!(runs(&stored), (vec![(0, 3)], 0));
        let (mut buffer, mut fates) = (vec![9; 4 * PAGE], Vec::new());
        stored.read(&request_pages(&[0, 2]), &mut buffer, &mut fates);
        assert_eq!(fates, [ReadOutcome::Read { exclusive: false, frame: None }; 2]);
        assert_eq!(buffer[..PAGE + 5], [7; PAGE + 5]);
        assert_eq!(buffer[PAGE + 5..2 * PAGE], [0; PAGE - 5]);
    }

    #[test]
    fn a_file_that_shrank_meanwhile_is_truncated() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 4 * PAGE]).unwrap();
        let stored = Stored::file(file.path(), PAGE as u64).unwrap();
        file.as_file().set_len(PAGE as u64).unwrap();
        let (mut buffer, mut fates) = (vec![9; 4 * PAGE], Vec::new());
        stored.read(&request_pages(&[0, 1, 2, 3]), &mut buffer, &mut fates);
        assert_eq!(fates[0], ReadOutcome::Read { exclusive: false, frame: None });
        assert_eq!(fates[1..], [ReadOutcome::Truncated; 3]);
    }

    #[test]
    fn folders_pipes_and_devices_are_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        for (path, what) in [
            (folder.path(), "a folder"),
            (&pipe, "a pipe"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            match Stored::file(path, PAGE as u64) {
                Err(OpenError::Kind { found, .. }) => assert_eq!(found, what),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(Stored::device(folder.path(), 4096), Err(OpenError::Kind { .. })));
        assert!(matches!(
            Stored::file(&folder.path().join("none"), 4096),
            Err(OpenError::File { .. })
        ));
    }

    /// A core with one segment: two pages, a large hole, two pages.
    fn core_with_hole(pages_of_hole: u64) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let length = (pages_of_hole + 4) * PAGE as u64;
        let mut head = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
        head.resize(16, 0);
        head.extend([4u16, 62].iter().flat_map(|n| n.to_le_bytes()));
        head.extend(1u32.to_le_bytes());
        head.extend([0u64, 64, 0].iter().flat_map(|n| n.to_le_bytes()));
        head.extend(0u32.to_le_bytes());
        head.extend([64u16, 56, 1, 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
        head.extend([1u32, 6].iter().flat_map(|n| n.to_le_bytes()));
        head.extend(
            [4096u64, 0x10_0000, 0, length, length, 4096].iter().flat_map(|n| n.to_le_bytes()),
        );
        file.write_all(&head).unwrap();
        for (at, byte) in [(1, 1u8), (2, 2), (pages_of_hole + 3, 3), (pages_of_hole + 4, 4)] {
            file.seek(std::io::SeekFrom::Start(at * PAGE as u64)).unwrap();
            file.write_all(&[byte; PAGE]).unwrap();
        }
        file
    }

    #[test]
    fn holes_of_a_core_are_no_pages() {
        let hole = 1 << 20;
        let file = core_with_hole(hole);
        let (stored, flaws) = Stored::core(file.path(), PAGE as u64).unwrap();
        assert_eq!(flaws, Flaws::default());
        assert_eq!(runs(&stored), (vec![(0x100, 2), (0x100 + hole + 2, 2)], 0));
        let (mut buffer, mut fates) = (vec![9; 4 * PAGE], Vec::new());
        let all = request_pages(&[0x100, 0x101, 0x100 + hole + 2, 0x100 + hole + 3]);
        stored.read(&all, &mut buffer, &mut fates);
        assert_eq!(fates, [ReadOutcome::Read { exclusive: false, frame: None }; 4]);
        assert!(
            (0..4)
                .all(|n| buffer[n * PAGE..(n + 1) * PAGE].iter().all(|&b| usize::from(b) == n + 1))
        );
    }

    #[test]
    fn a_truncated_core_has_what_is_left_and_says_what_is_not() {
        let file = core_with_hole(4);
        file.as_file().set_len(2 * PAGE as u64 + 100).unwrap();
        let (stored, _) = Stored::core(file.path(), PAGE as u64).unwrap();
        assert_eq!(runs(&stored), (vec![(0x100, 2)], 6));
    }
}
