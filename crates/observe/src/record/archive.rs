// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A `.tar.zst` or `.tar` from anywhere → [`Parts`]. Nothing is unpacked to disk.
//!
//! Whatever the archive claims about sizes, no more than [`MAX_SUM`](super::limits::MAX_SUM) bytes
//! flow out of it and no more than [`MAX_FILE`] are kept of one file.

use std::io::{BufReader, Chain, Cursor, Read, Take};

use pagewise_model::Name;
use tar::{Archive, EntryType};

use super::limits::{MAX_FILE, MAX_SUM};
use super::parts::{Full, Parts, refused_path};

/// How a zstd stream begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Memory that a stream may ask of us for looking back: 2^24 bytes. `zstd -19` asks for 2^23.
const MAX_WINDOW_LOG: u32 = 24;

type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// What stands in an archive; whatever is wrong with it is told in the parts.
pub(super) fn unpack(bytes: impl Read) -> Parts {
    let mut parts = Parts::default();
    let outcome = match peek(bytes) {
        Ok((true, stream)) => unpack_zstd(stream, &mut parts),
        Ok((false, stream)) => unpack_tar(limited(stream), &mut parts),
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        parts.broken = Some(Name::from(error.to_string().as_str()).to_string());
    }
    parts
}

/// Whether a zstd stream begins here, and the whole of it again.
fn peek<R: Read>(mut bytes: R) -> std::io::Result<(bool, Peeked<R>)> {
    let mut first = Vec::with_capacity(ZSTD.len());
    bytes.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first)?;
    Ok((first == ZSTD, Cursor::new(first).chain(bytes)))
}

fn limited<R: Read>(stream: R) -> Take<R> {
    stream.take(MAX_SUM as u64)
}

fn unpack_zstd(stream: impl Read, parts: &mut Parts) -> std::io::Result<()> {
    let mut decoder = zstd::Decoder::with_buffer(BufReader::new(stream))?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    unpack_tar(limited(decoder), parts)
}

fn unpack_tar<R: Read>(stream: Take<R>, parts: &mut Parts) -> std::io::Result<()> {
    let mut archive = Archive::new(stream);
    let outcome = take_entries(&mut archive, parts);
    match (archive.into_inner().limit(), outcome) {
        (0, _) => Err(std::io::Error::other("more than 64 MiB unpacked")),
        (_, outcome) => outcome,
    }
}

fn take_entries(archive: &mut Archive<impl Read>, parts: &mut Parts) -> std::io::Result<()> {
    for entry in archive.entries()? {
        let mut entry = entry?;
        if parts.count().is_err() {
            break;
        }
        if let Err(Full) = take_entry(&mut entry, parts)? {
            break;
        }
    }
    Ok(())
}

fn take_entry(
    entry: &mut tar::Entry<'_, impl Read>,
    parts: &mut Parts,
) -> std::io::Result<Result<(), Full>> {
    let raw = entry.path_bytes().into_owned();
    let shown = Name::from_bytes(raw.get(..100).unwrap_or(&raw));
    let Some(path) = acceptable(&raw, entry.header().entry_type(), shown.as_str(), parts) else {
        return Ok(Ok(()));
    };
    let size = entry.size();
    let mut bytes = Vec::new();
    entry.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_FILE && bytes.len() as u64 != size {
        return Err(std::io::Error::other(format!("its end inside {path}")));
    }
    Ok(parts.take(&path, bytes))
}

/// The path of a file to be taken; `None` for folders, and with a trouble for all that a recording
/// never holds.
fn acceptable(raw: &[u8], kind: EntryType, shown: &str, parts: &mut Parts) -> Option<String> {
    if kind.is_dir() || kind.is_pax_global_extensions() {
        return None;
    }
    let expected = "a plain file below start or end";
    if !kind.is_file() {
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
        EntryType::Link => "a hard link",
        EntryType::Symlink => "a symbolic link",
        EntryType::Char => "a character device",
        EntryType::Block => "a block device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "an entry of unknown kind",
    }
}
