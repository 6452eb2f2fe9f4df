// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reader together with the files that it reads, for fuzzing.
//!
//! One input contains all files of a reader, separated by `0xFF` bytes, in the order of
//! [`Parser::paths`]. All files are in one input because readers combine files, and a fuzzer finds
//! out by itself which file a byte belongs to. The separator is `0xFF` because no file of the
//! kernel contains it, and other bytes that are not UTF-8 remain for testing. A part that is only
//! `0xFE` is a file that may not be read; `0xFD` is a missing file, and so is every file after the
//! last part.

use std::fmt;
use std::hint::black_box;

use crate::answer::{Entry, Refusal};
use crate::read::ReadHost;
use crate::recording;
use crate::root::HostRoot;

const BETWEEN: u8 = 0xFF;
const REFUSED: &[u8] = &[0xFE];
const MISSING: &[u8] = &[0xFD];

/// A reader of files, and the files that it reads, for fuzzing.
pub struct Parser {
    /// Name of the subject or format that the reader reads.
    pub name: &'static str,
    /// Paths of the files that it reads, without the leading `/`.
    pub paths: &'static [&'static str],
    read: Read,
}

enum Read {
    Files(fn(&HostRoot)),
    /// A function that parses one raw input, and one that returns a seed input.
    Bytes(fn(&[u8]), fn() -> Vec<u8>),
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Parser {
    /// Runs the reader on the files in `input`. Must return without a panic, whatever they contain.
    pub fn run(&self, input: &[u8]) {
        match self.read {
            Read::Bytes(read, _) => read(input),
            Read::Files(read) => {
                let host = HostRoot::memory(self.files(input));
                read(&host);
                keep(host.take_problems());
            }
        }
    }

    /// The input that consists of the files of `host`; `None` if it has none of them. Seeds are
    /// stored on disk, so files with private contents count as missing.
    pub fn seed(&self, host: &HostRoot) -> Option<Vec<u8>> {
        if let Read::Bytes(_, sample) = self.read {
            return Some(sample());
        }
        let answer = |path: &str| {
            if is_private(path) || is_log(path) && host.is_live() {
                Err(Refusal::Absent("private".into()))
            } else {
                host.bytes(path)
            }
        };
        let answers: Vec<_> = self.paths.iter().map(|path| answer(path)).collect();
        let parts = answers.iter().map(|answer| match answer {
            Ok(bytes) => bytes.iter().map(|&byte| if byte >= 0xFD { b'?' } else { byte }).collect(),
            Err(Refusal::Denied(_)) => REFUSED.to_vec(),
            Err(Refusal::Absent(_)) => MISSING.to_vec(),
        });
        answers.iter().any(Result::is_ok).then(|| parts.collect::<Vec<_>>().join(&BETWEEN))
    }

    fn files<'a>(&'a self, input: &'a [u8]) -> impl Iterator<Item = (String, Entry)> + 'a {
        let parts = input.split(|&byte| byte == BETWEEN);
        let named = self.paths.iter().zip(parts).filter(|(_, part)| *part != MISSING);
        named.map(|(path, part)| ((*path).to_owned(), parse_part(part)))
    }
}

/// Drops a value so that the compiler cannot optimize its computation away.
pub fn keep<T>(value: T) {
    drop(black_box(value));
}

/// Whether a file has private contents: devices contain swapped memory, environments contain
/// secrets, passwd contains names.
pub fn is_private(path: &str) -> bool {
    path.starts_with("dev/") && !is_log(path)
        || path.ends_with("/environ")
        || matches!(path, "etc/passwd" | "etc/fstab")
}

/// Whether a path is that of a log. Logs do not count as private, because a recording stores
/// only the OOM reports in them, without names.
fn is_log(path: &str) -> bool {
    matches!(path, "dev/kmsg" | "journal/kernel")
}

fn parse_part(part: &[u8]) -> Entry {
    match part {
        REFUSED => Entry::Refused(Refusal::Denied("run as root".into())),
        bytes => Entry::File(bytes.to_vec()),
    }
}

/// Makes the [`Parser`] of a reader that reads the files at these paths.
pub const fn files(
    name: &'static str,
    paths: &'static [&'static str],
    read: fn(&HostRoot),
) -> Parser {
    Parser { name, paths, read: Read::Files(read) }
}

/// Makes the [`Parser`] of a reader of one raw input; `sample` returns a seed input.
pub const fn bytes(name: &'static str, read: fn(&[u8]), sample: fn() -> Vec<u8>) -> Parser {
    Parser { name, paths: &[], read: Read::Bytes(read, sample) }
}

/// The parsers of this crate: one for each part of a recording.
pub static PARSERS: &[Parser] = &[
    bytes("manifest", manifest, || MANIFEST.to_vec()),
    bytes("archive", archive, || make_tar("host.toml", MANIFEST)),
];

const MANIFEST: &[u8] = br#"format = "pagewise-recording/1"
name = "host-1"
kernel = "6.12.1"
page_size = 4096

[ends.end]
unix_seconds = 1.5
monotonic_seconds = 2.5

[ends.end.refused]
"proc/1/smaps_rollup" = "denied: run as root"
"#;

fn manifest(bytes: &[u8]) {
    archive(&make_tar("host.toml", bytes));
}

/// Opens an archive and reads its problems. The files in an archive are fuzzed by the other
/// parsers.
fn archive(bytes: &[u8]) {
    if let Ok(ends) = recording::unpack(bytes, "fuzz") {
        keep(ends.end.take_problems());
    }
}

/// A tar archive with one file.
fn make_tar(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    let mut archive = tar::Builder::new(Vec::new());
    let written = archive.append_data(&mut header, path, bytes);
    written.and_then(|()| archive.into_inner()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESSURE: Parser =
        files("psi", &["proc/pressure/cpu", "proc/pressure/memory", "proc/pressure/io"], |_| ());

    #[test]
    fn an_input_is_the_files_it_was_made_of() {
        let host = HostRoot::memory([
            ("proc/pressure/cpu".to_owned(), Entry::File(b"some \xff".to_vec())),
            ("proc/pressure/memory".to_owned(), parse_part(REFUSED)),
        ]);
        let seed = PRESSURE.seed(&host).unwrap();
        assert_eq!(seed, b"some ?\xff\xfe\xff\xfd");
        let files: Vec<_> = PRESSURE.files(&seed).collect();
        assert_eq!(files.len(), 2);
        assert_eq!(files[0], ("proc/pressure/cpu".to_owned(), Entry::File(b"some ?".to_vec())));
        assert_eq!(files[1], ("proc/pressure/memory".to_owned(), parse_part(REFUSED)));
    }

    #[test]
    fn the_sample_manifest_is_one() {
        let ends = recording::unpack(&*make_tar("host.toml", MANIFEST), "sample").unwrap();
        assert!(ends.end.take_problems().is_empty());
    }
}
