// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Redacts what was read from a host (a [`Tape`]), so that the result (a [`Capture`]) may be sent
//! to others.
//!
//! Only listed files are kept: a file must match a row of the table (`table.rs`), and the row says
//! which part of it is kept. Everything else is dropped and counted. Paths are rewritten by the
//! same rules as contents, because they contain names of cgroups, devices and kernel releases. A
//! dropped line is kept as an empty line, so that every Reading keeps its line number.
//!
//! Names are replaced by numbered aliases, which are the same in all files of one capture. The host
//! name and the boot id are hashed with SipHash under a random 128-bit key, which is generated for
//! this capture and never stored: nobody can compare guessed names with the hash, and two captures
//! of the same host cannot be linked.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod aliases;
mod files;
pub mod handed;
mod names;
mod pack;
pub mod parsers;
mod places;
mod processes;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod words;

use std::collections::BTreeMap;

use pagewise_hostfs::recording::{End, FORMAT, Manifest, refusal_text};
use pagewise_hostfs::{Entry, Refusal};
use pagewise_observe::{Tape, TapeEnd};

use names::Names;

pub use pack::Stream;
pub use timeline::Timeline;

/// A redacted recording, which may be written to a file and shared.
#[derive(Debug, Default)]
pub struct Capture {
    /// Contents of `host.toml`, which describes the recording.
    pub manifest: Manifest,
    /// The files of the interval's start and end, by their path in the recording.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Number of files that were left out of the recording, by the shape of their path (with
    /// numbers replaced by `N`). The shapes may contain names of this host. They are therefore
    /// shown only to the user, and are not a part of the recording.
    pub left_out: BTreeMap<String, u64>,
}

impl Capture {
    /// Redacts everything that was read from a host. Each file is freed as soon as it is redacted,
    /// so that the memory for both is not needed at once.
    pub fn from_tape(tape: Tape) -> Self {
        let mut names = Names::from_tape(&tape);
        let mut capture = Self::with_description_only(&tape, &mut names);
        for mut end in tape.ends {
            let mut refused = BTreeMap::new();
            while let Some((path, entry)) = end.files.pop_first() {
                capture.add(&end, (&path, &entry), &mut names, &mut refused);
            }
            capture.end(&end, refused);
        }
        capture
    }

    /// Redacts everything like [`Self::from_tape`], and keeps the tape.
    fn with_names(tape: &Tape, names: &mut Names) -> Self {
        let mut capture = Self::with_description_only(tape, names);
        for end in &tape.ends {
            let mut refused = BTreeMap::new();
            for file in &end.files {
                capture.add(end, file, names, &mut refused);
            }
            capture.end(end, refused);
        }
        capture
    }

    /// Creates a recording that contains only the description, without files.
    fn with_description_only(tape: &Tape, names: &mut Names) -> Self {
        Self {
            manifest: Manifest {
                format: FORMAT.to_owned(),
                name: names.host(tape.file("proc/sys/kernel/hostname").unwrap_or_default()),
                kernel: names.release().to_owned(),
                page_size: tape.page_size,
                ends: BTreeMap::new(),
            },
            ..Self::default()
        }
    }

    fn add(
        &mut self,
        end: &TapeEnd,
        (path, entry): (&String, &Entry),
        names: &mut Names,
        refused: &mut BTreeMap<String, String>,
    ) {
        match table::redact(path, entry, names) {
            Some((path, Entry::File(bytes))) => {
                self.files.insert(format!("{}/{path}", end.name), bytes);
            }
            Some((path, Entry::Refused(refusal))) => {
                refused.insert(path, refusal_text(&redact_refusal(&refusal)));
            }
            None => *self.left_out.entry(words::shape_of_path(path)).or_default() += 1,
        }
    }

    fn end(&mut self, end: &TapeEnd, refused: BTreeMap<String, String>) {
        self.manifest.ends.insert(end.name.to_owned(), End { refused, ..clock(end) });
    }
}

/// Returns the times at which one end of the interval was read.
fn clock(end: &TapeEnd) -> End {
    End {
        unix_seconds: end.unix_seconds,
        monotonic_seconds: end.monotonic_seconds,
        awake_seconds: end.awake_seconds,
        refused: BTreeMap::new(),
    }
}

/// Replaces the text of a refusal, unless it is plain ASCII, as are the texts of Pagewise and of
/// the C library.
fn redact_refusal(refusal: &Refusal) -> Refusal {
    let known = |text: &str| {
        text.len() <= 120 && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
    };
    match refusal {
        Refusal::Absent(why) if known(why) => Refusal::Absent(why.clone()),
        Refusal::Absent(_) => Refusal::Absent("no such file".into()),
        Refusal::Denied(help) if known(help) => Refusal::Denied(help.clone()),
        Refusal::Denied(_) => Refusal::Denied("run as root".into()),
    }
}
