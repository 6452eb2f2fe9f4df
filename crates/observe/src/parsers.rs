// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every reader of files with the files that it reads, for fuzzing: bytes → a host → a reader.
//!
//! One input is all files of a reader, split at bytes `0xFF`, in the order of [`Parser::paths`].
//! Split rather than repeated, because readers put files together and a fuzzer finds by itself
//! which file an odd byte belongs in; `0xFF`, because no file of the kernel holds it and other
//! bytes that are no UTF-8 remain. A part that is just `0xFE` is a file that is refused, `0xFD` one
//! that is not there, like every file after the last part.
//!
//! Settings (`knob`) are not here: each is one value whose shape is checked, and a property test
//! holds that.

use std::fmt;
use std::hint::black_box;

use crate::record::Manifest;
use crate::root::{Entry, HostRoot, Refusal};
use crate::{counters, memory};

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
    Bytes(fn(&[u8])),
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
            Read::Bytes(read) => read(input),
            Read::Files(read) => {
                let host = HostRoot::memory(self.files(input));
                read(&host);
                black_box(host.take_problems());
            }
        }
    }

    /// The input that stands for the files of `host`; `None` where it has none of them.
    pub fn seed(&self, host: &HostRoot) -> Option<Vec<u8>> {
        let answers: Vec<_> = self.paths.iter().map(|path| host.bytes(path)).collect();
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

fn entry(part: &[u8]) -> Entry {
    match part {
        REFUSED => Entry::Refused(Refusal::Denied("run as root".into())),
        bytes => Entry::File(bytes.to_vec()),
    }
}

const fn files(name: &'static str, paths: &'static [&'static str], read: fn(&HostRoot)) -> Parser {
    Parser { name, paths, read: Read::Files(read) }
}

/// All of them.
pub static PARSERS: &[Parser] = &[
    files("memory", &["proc/meminfo"], |host| drop(black_box(memory::read(host)))),
    files("counters", &["proc/vmstat"], |host| {
        drop(black_box(counters::read(host, "proc/vmstat")));
    }),
    Parser {
        name: "manifest",
        paths: &["host.toml"],
        read: Read::Bytes(|bytes| drop(black_box(toml::from_slice::<Manifest>(bytes)))),
    },
];
