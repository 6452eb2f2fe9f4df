// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tapes of one host, one after the other → a recording over time, redacted under one set of names
//! ([`Timeline`]).
//!
//! The first reading is a whole recording; of each later one there is what changed ([`Step`]).

use pagewise_hostfs::recording::{self, MAX_WORK, Step};
use pagewise_hostfs::{Entry, Files};
use pagewise_observe::{Tape, TapeEnd};

use super::names::Names;
use super::{Capture, clock, plain, table};

/// The last reading, and the names that were met so far.
#[derive(Debug)]
pub struct Timeline {
    names: Names,
    files: Files,
    /// Bytes of files that a reader rewrites to open it.
    work: usize,
}

impl Timeline {
    /// Begins with a reading; the recording of it stands for its later end alone.
    pub fn begin(tape: &Tape) -> (Self, Capture) {
        let mut names = Names::from_tape(tape);
        let capture = Capture::with_names(tape, &mut names);
        let files = tape.ends.last().map(|end| redacted(end, &mut names)).unwrap_or_default();
        (Self { names, files, work: 0 }, capture)
    }

    /// What changed since the last reading; `None` if nobody would open a recording with one more.
    pub fn step(&mut self, tape: &Tape) -> Option<Step> {
        let end = tape.ends.last()?;
        self.names.meet(tape);
        let files = redacted(end, &mut self.names);
        let step = Step::between(&clock(end), &self.files, &files);
        self.work += step.work(&self.files);
        let before = std::mem::replace(&mut self.files, files);
        let fit = recording::fits(&before) && recording::fits(&self.files);
        (fit && self.work <= MAX_WORK).then_some(step)
    }
}

/// The files of a reading as a recording has them.
fn redacted(end: &TapeEnd, names: &mut Names) -> Files {
    let kept = end.files.iter().filter_map(|(path, entry)| table::redact(path, entry, names));
    let kept = kept.map(|(path, entry)| match entry {
        Entry::Refused(refusal) => (path, Entry::Refused(plain(&refusal))),
        file @ Entry::File(_) => (path, file),
    });
    kept.collect()
}
