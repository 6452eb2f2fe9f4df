// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reader of files with the files that it reads, for fuzzing: bytes → a host → a reader.
//!
//! One input is all files of a reader, split at bytes `0xFF`, in the order of [`Parser::paths`].
//! Split rather than repeated, because readers put files together and a fuzzer finds by itself
//! which file an odd byte belongs in; `0xFF`, because no file of the kernel holds it and other
//! bytes that are no UTF-8 remain. A part that is just `0xFE` is a file that is refused, `0xFD` one
//! that is not there, like every file after the last part.

use std::fmt;
use std::hint::black_box;

use crate::answer::{Entry, Refusal};
use crate::read::ReadHost;
use crate::recording;
use crate::root::HostRoot;

const BETWEEN: u8 = 0xFF;
const REFUSED: &[u8] = &[0xFE];
const MISSING: &[u8] = &[0xFD];

/// A reader and what it reads.
pub struct Parser {
    /// The noun.
    pub name: &'static str,
    /// The files, below `/`.
    pub paths: &'static [&'static str],
    read: Read,
}

enum Read {
    Files(fn(&HostRoot)),
    /// One input as it is, and an input to begin with.
    Bytes(fn(&[u8]), fn() -> Vec<u8>),
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Parser {
    /// Reads the files that `input` stands for. Whatever they hold, this returns.
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

    /// The input that stands for the files of `host`; `None` where it has none of them. It is kept
    /// on disk, so what is private to its host counts as missing.
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
        named.map(|(path, part)| ((*path).to_owned(), entry(part)))
    }
}

/// Drops a value as if somebody used it: nothing of the reading may be left out by the compiler.
pub fn keep<T>(value: T) {
    drop(black_box(value));
}

/// Devices hold what was swapped, environments hold secrets, passwd names people.
pub fn is_private(path: &str) -> bool {
    path.starts_with("dev/") && !is_log(path)
        || path.ends_with("/environ")
        || matches!(path, "etc/passwd" | "etc/fstab")
}

/// A recording stores nothing of it but reports without names.
fn is_log(path: &str) -> bool {
    matches!(path, "dev/kmsg" | "journal/kernel")
}

fn entry(part: &[u8]) -> Entry {
    match part {
        REFUSED => Entry::Refused(Refusal::Denied("run as root".into())),
        bytes => Entry::File(bytes.to_vec()),
    }
}

/// A reader of these files.
pub const fn files(
    name: &'static str,
    paths: &'static [&'static str],
    read: fn(&HostRoot),
) -> Parser {
    Parser { name, paths, read: Read::Files(read) }
}

/// A reader of one input as it is, and an input to begin with.
pub const fn bytes(name: &'static str, read: fn(&[u8]), sample: fn() -> Vec<u8>) -> Parser {
    Parser { name, paths: &[], read: Read::Bytes(read, sample) }
}

/// Those of this crate: what a recording is made of.
pub static PARSERS: &[Parser] = &[
    bytes("manifest", manifest, || MANIFEST.to_vec()),
    bytes("archive", archive, || tarred("host.toml", MANIFEST)),
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
    archive(&tarred("host.toml", bytes));
}

/// An archive opened, and what was wrong with it. Its files have parsers of their own above.
fn archive(bytes: &[u8]) {
    if let Ok(ends) = recording::unpack(bytes, "fuzz") {
        keep(ends.end.take_problems());
    }
}

/// A tar archive of one file.
fn tarred(path: &str, bytes: &[u8]) -> Vec<u8> {
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
            ("proc/pressure/memory".to_owned(), entry(REFUSED)),
        ]);
        let seed = PRESSURE.seed(&host).unwrap();
        assert_eq!(seed, b"some ?\xff\xfe\xff\xfd");
        let files: Vec<_> = PRESSURE.files(&seed).collect();
        assert_eq!(files.len(), 2);
        assert_eq!(files[0], ("proc/pressure/cpu".to_owned(), Entry::File(b"some ?".to_vec())));
        assert_eq!(files[1], ("proc/pressure/memory".to_owned(), entry(REFUSED)));
    }

    #[test]
    fn the_sample_manifest_is_one() {
        let ends = recording::unpack(&*tarred("host.toml", MANIFEST), "sample").unwrap();
        assert!(ends.end.take_problems().is_empty());
    }
}
