// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a tar archive of unknown origin, packed or not, into [`Parts`]. Nothing is unpacked to
//! disk.
//!
//! Whatever sizes the archive states, at most [`MAX_SUM`](super::limits::MAX_SUM) bytes are
//! decompressed and at most [`MAX_FILE`] are kept per file. An archive of files that somebody else
//! collected (`collected.rs`) may be much larger, because few of its files are kept; how much of it
//! is decompressed depends on its packed size, so that a bomb is refused.

use std::cell::Cell;
use std::io::{Chain, Cursor, Read};
use std::rc::Rc;

use pagewise_model::Name;
use tar::{Archive, EntryType, PaxExtensions};

use super::collected::{self, Layout, Place};
use super::limits::{
    MAX_COLLECTED, MAX_FILE, MAX_PATH, MAX_SUM, MAX_UNPACKED_PER_PACKED, refused_path,
};
use super::parts::{Full, Parts};
use crate::unpack::CountedStream;

type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// Adds the contents of an archive to `parts`, and notes problems with the archive there.
pub(super) fn unpack(bytes: impl Read, mut parts: Parts) -> Parts {
    if let Err(error) = unpack_any(bytes, &mut parts) {
        parts.broken = Some(Name::from(error.to_string().as_str()).to_string());
    }
    parts
}

fn unpack_any(bytes: impl Read, parts: &mut Parts) -> std::io::Result<()> {
    let packed = Rc::new(Cell::new(0));
    let stream = peek(CountedStream::new(bytes, Rc::clone(&packed)))?;
    let stream = crate::unpack::unpack(stream)?;
    unpack_tar(Budget { stream, packed, read: 0, is_collected: Rc::default() }, parts)
}

/// The first bytes of other files that people mistake for recordings.
const OTHERS: [(&[u8], &str); 3] =
    [(b"BZh", "a bzip2 file"), (b"PK\x03\x04", "a zip file"), (b"\x7fELF", "a program")];

/// Position of tar's magic number in the first header of an archive.
const TAR_MARK: std::ops::Range<usize> = 257..262;

/// What a file with this beginning is instead of an archive; `None` if it may be an archive.
fn other_kind(first: &[u8]) -> Option<String> {
    let known = OTHERS.iter().find(|(start, _)| first.starts_with(start));
    let is_tar = first.get(TAR_MARK).is_some_and(|mark| mark == b"ustar");
    match known {
        Some((_, kind)) => Some((*kind).to_owned()),
        None if first.is_empty() || crate::unpack::is_packed(first) || is_tar => None,
        // the contents of the file are not shown, because root can be made to open any file
        None => Some("a file of another kind".to_owned()),
    }
}

/// The stream from its beginning, if it may be an archive.
fn peek<R: Read>(mut bytes: R) -> std::io::Result<Peeked<R>> {
    let mut first = Vec::with_capacity(TAR_MARK.end);
    bytes.by_ref().take(TAR_MARK.end as u64).read_to_end(&mut first)?;
    match other_kind(&first) {
        Some(kind) => Err(std::io::Error::other(kind)),
        None => Ok(Cursor::new(first).chain(bytes)),
    }
}

/// Limits how much is decompressed. At the limit the stream ends.
struct Budget<R> {
    stream: R,
    /// Number of bytes that were read of the packed archive.
    packed: Rc<Cell<u64>>,
    read: u64,
    is_collected: Rc<Cell<bool>>,
}

impl<R> Budget<R> {
    fn left(&self) -> u64 {
        let most = MAX_SUM as u64;
        let all = if self.is_collected.get() {
            let most_packed = self.packed.get().saturating_mul(MAX_UNPACKED_PER_PACKED);
            most.saturating_add(most_packed).min(MAX_COLLECTED)
        } else {
            most
        };
        all.saturating_sub(self.read)
    }

    fn limit(&self) -> String {
        if self.is_collected.get() {
            format!("more than {MAX_UNPACKED_PER_PACKED} times its size or 16 GiB unpacked")
        } else {
            "more than 64 MiB unpacked".to_owned()
        }
    }
}

impl<R: Read> Read for Budget<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.stream.read(buffer.get_mut(..left).unwrap_or_default())?;
        self.read += length as u64;
        Ok(length)
    }
}

fn unpack_tar<R: Read>(stream: Budget<R>, parts: &mut Parts) -> std::io::Result<()> {
    let is_collected = Rc::clone(&stream.is_collected);
    let mut archive = Archive::new(ZeroRun { stream, zeros: 0 });
    let outcome = take_entries(&mut archive, &is_collected, parts);
    let ZeroRun { stream, zeros } = archive.into_inner();
    if stream.left() == 0 {
        return Err(std::io::Error::other(stream.limit()));
    }
    match outcome? {
        ReadEnd::All if zeros < BLOCK && !parts.is_empty() => {
            Err(std::io::Error::other("no mark of its end"))
        }
        ReadEnd::All | ReadEnd::Full => Ok(()),
    }
}

/// Size of a header in a tar archive, in bytes. An archive ends with headers of zeros; without
/// them, one that was cut between two files would look complete.
const BLOCK: usize = 512;

/// A stream, and the number of zero bytes that it ended with so far.
struct ZeroRun<R> {
    stream: R,
    zeros: usize,
}

impl<R: Read> Read for ZeroRun<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.stream.read(buffer)?;
        let read = buffer.get(..length).unwrap_or_default();
        let zeros = trailing_zeros(read);
        self.zeros = if zeros == length { self.zeros.saturating_add(zeros) } else { zeros };
        Ok(length)
    }
}

/// Number of zero bytes at the end, exact up to [`BLOCK`]. Every file is padded with zeros, so
/// they are counted 16 at a time: one at a time took 5 % of the time of a report.
fn trailing_zeros(bytes: &[u8]) -> usize {
    const STEP: usize = 16;
    let is_zero = |chunk: &&[u8]| {
        <[u8; STEP]>::try_from(*chunk).is_ok_and(|chunk| u128::from_ne_bytes(chunk) == 0)
    };
    let chunks = bytes.rchunks_exact(STEP).take(BLOCK / STEP).take_while(is_zero).count();
    let rest = bytes.iter().rev().skip(chunks * STEP).take(STEP);
    chunks * STEP + rest.take_while(|&&byte| byte == 0).count()
}

/// Why reading the entries of an archive ended.
enum ReadEnd {
    All,
    Full,
}

/// Adds each entry of an archive to `parts`. Headers are read raw, because the tar crate would
/// read a long name into memory whatever its length.
fn take_entries(
    archive: &mut Archive<impl Read>,
    is_collected: &Cell<bool>,
    parts: &mut Parts,
) -> std::io::Result<ReadEnd> {
    let mut long = LongNames::default();
    let mut layout = Layout::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        match entry.header().entry_type() {
            kind if kind.is_gnu_longname() => long.path = Some(gnu_path(&mut entry)?),
            kind if kind.is_gnu_longlink() => long.target = Some(gnu_path(&mut entry)?),
            kind if kind.is_pax_local_extensions() => long = pax_names(&mut entry)?,
            // pax attributes that apply to all following files are not needed
            kind if kind.is_pax_global_extensions() => {}
            _ => {
                let names = std::mem::take(&mut long);
                parts.has_entries = true;
                let entry_taken = match layout.place(&entry_path(&entry, &names)) {
                    Place::Collected(path) => {
                        is_collected.set(!parts.has_recording());
                        take_collected(&mut entry, &path, names, &layout, parts)?
                    }
                    Place::Unused => Ok(()),
                    Place::Recording(path) if parts.count().is_ok() => {
                        take_entry(&mut entry, &path, names, &layout, parts)?
                    }
                    Place::Recording(_) => Err(Full),
                };
                if entry_taken.is_err() {
                    return Ok(ReadEnd::Full);
                }
            }
        }
    }
    Ok(ReadEnd::All)
}

/// Names of the next entry that were given in separate headers.
#[derive(Debug, Default)]
struct LongNames {
    path: Option<Vec<u8>>,
    /// The target of the entry, if it is a link.
    target: Option<Vec<u8>>,
}

/// Reads the path of the next entry, which is too long for the entry's header. A path that is
/// longer than any in a recording is cut, and refused for its length anyway.
fn gnu_path(entry: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut path = Vec::new();
    entry.take(MAX_PATH as u64 + 2).read_to_end(&mut path)?;
    if path.last() == Some(&0) {
        path.pop();
    }
    Ok(path)
}

/// Maximum size of the pax headers of one file, in bytes.
const MAX_PAX: u64 = 64 << 10;

/// Reads the names of the next entry from pax headers, which may also contain other attributes.
fn pax_names(entry: &mut impl Read) -> std::io::Result<LongNames> {
    let mut output = Vec::new();
    entry.take(MAX_PAX + 1).read_to_end(&mut output)?;
    if output.len() as u64 > MAX_PAX {
        return Err(std::io::Error::other("an extended header of more than 64 KiB"));
    }
    let last = |key: &[u8]| {
        let of_key = PaxExtensions::new(&output).flatten().filter(|one| one.key_bytes() == key);
        of_key.last().map(|one| one.value_bytes().to_vec())
    };
    Ok(LongNames { path: last(b"path"), target: last(b"linkpath") })
}

fn entry_path(entry: &tar::Entry<'_, impl Read>, names: &LongNames) -> Vec<u8> {
    names.path.clone().unwrap_or_else(|| entry.path_bytes().into_owned())
}

/// The target of a link in an archive.
fn link_target(entry: &tar::Entry<'_, impl Read>, names: LongNames) -> Vec<u8> {
    names.target.unwrap_or_else(|| entry.link_name_bytes().unwrap_or_default().into_owned())
}

/// Takes a file that somebody else collected, or a link to one.
fn take_collected(
    entry: &mut tar::Entry<'_, impl Read>,
    path: &str,
    names: LongNames,
    layout: &Layout,
    parts: &mut Parts,
) -> std::io::Result<Result<(), Full>> {
    let kind = entry.header().entry_type();
    if kind.is_symlink() || kind.is_hard_link() {
        let target = link_target(entry, names);
        let target = std::str::from_utf8(&target).unwrap_or_default();
        let target = if kind.is_hard_link() {
            layout.strip(target).map(|inner| format!("/{inner}"))
        } else {
            Some(target.to_owned())
        };
        return Ok(target.map_or(Ok(()), |target| parts.link_collected(path, &target)));
    }
    if !kind.is_file() {
        return Ok(Ok(()));
    }
    if collected::is_only_named(path) {
        return Ok(parts.take_collected(path, Vec::new(), 0));
    }
    let size = entry.size();
    let (bytes, read) = if collected::is_log(path) {
        collected::read_tail(entry, MAX_FILE)?
    } else {
        let mut bytes = Vec::new();
        let read = entry.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
        (bytes, read as u64)
    };
    if read != size && bytes.len() <= MAX_FILE {
        return Err(std::io::Error::other(format!("its end inside {path}")));
    }
    Ok(parts.take_collected(path, bytes, size))
}

fn take_entry(
    entry: &mut tar::Entry<'_, impl Read>,
    path: &[u8],
    names: LongNames,
    layout: &Layout,
    parts: &mut Parts,
) -> std::io::Result<Result<(), Full>> {
    let shown = Name::from_bytes(path.get(..100).unwrap_or(path));
    let kind = entry.header().entry_type();
    let Some(path) = accept_path(path, kind, shown.as_str(), parts) else {
        return Ok(Ok(()));
    };
    if kind.is_hard_link() {
        let target = link_target(entry, names);
        let inner = std::str::from_utf8(&target).ok().and_then(|target| layout.strip(target));
        return Ok(parts.link(&path, inner.map_or(target.as_slice(), str::as_bytes)));
    }
    let size = entry.size();
    let mut bytes = Vec::new();
    entry.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_FILE && bytes.len() as u64 != size {
        return Err(std::io::Error::other(format!("its end inside {path}")));
    }
    Ok(parts.take(&path, bytes))
}

/// The path of an archive entry that is to be read. `None` for folders, and with a problem noted
/// for everything that a recording never contains.
fn accept_path(raw: &[u8], kind: EntryType, shown: &str, parts: &mut Parts) -> Option<String> {
    if kind.is_dir() {
        return None;
    }
    let expected = "a plain file below start or end";
    if !kind.is_file() && !kind.is_hard_link() {
        parts.trouble(shown, expected, entry_kind(kind));
        return None;
    }
    let Ok(path) = std::str::from_utf8(raw) else {
        parts.trouble(shown, expected, "a path that is not UTF-8");
        return None;
    };
    let path = path.strip_prefix("./").unwrap_or(path);
    if let Some(found) = refused_path(path) {
        parts.trouble(shown, expected, found);
        return None;
    }
    Some(path.to_owned())
}

fn entry_kind(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Char => "a character device",
        EntryType::Block => "a block device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "an entry of unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_counted_as_one_by_one() {
        for length in 0..BLOCK + 20 {
            for other in (0..length).map(Some).chain([None]) {
                let mut bytes = vec![0; length];
                other.into_iter().for_each(|at| bytes[at] = 7);
                let counted = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
                assert_eq!(
                    trailing_zeros(&bytes).min(BLOCK),
                    counted.min(BLOCK),
                    "{other:?} of {length}"
                );
            }
        }
    }
}
