// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a recording over time from tapes of one host, one after the other, redacted with one set
//! of aliases ([`Timeline`]).
//!
//! The first reading is stored completely; of each later one only the changes ([`Step`]).

use pagewise_hostfs::recording::{self, MAX_WORK, Step};
use pagewise_hostfs::{Entry, Files};
use pagewise_observe::{Tape, TapeEnd};

use super::names::Names;
use super::{Capture, clock, plain, table};

/// The last reading of a recording over time, and the aliases used so far.
#[derive(Debug)]
pub struct Timeline {
    names: Names,
    files: Files,
    /// Bytes of files that a reader must rewrite to open the recording.
    work: usize,
}

impl Timeline {
    /// Begins a recording over time with a reading; only the later end of the reading is recorded.
    pub fn begin(tape: &Tape) -> (Self, Capture) {
        Self::begin_with(tape, Names::from_tape(tape))
    }

    /// Begins a recording that stays on this machine: it keeps the names of programs, cgroups,
    /// configuration files and the host. It must not be sent to anybody.
    pub fn begin_here(tape: &Tape) -> (Self, Capture) {
        Self::begin_with(tape, Names::of_this_machine(tape))
    }

    fn begin_with(tape: &Tape, mut names: Names) -> (Self, Capture) {
        let capture = Capture::with_names(tape, &mut names);
        let files = tape.ends.last().map(|end| redact(end, &mut names)).unwrap_or_default();
        (Self { names, files, work: 0 }, capture)
    }

    /// The files that changed since the last reading; `None` if the recording would become too
    /// large to be opened.
    pub fn step(&mut self, tape: &Tape) -> Option<Step> {
        let end = tape.ends.last()?;
        self.names.meet(tape);
        let files = redact(end, &mut self.names);
        let step = Step::between(&clock(end), &self.files, &files);
        self.work += step.work(&self.files);
        let before = std::mem::replace(&mut self.files, files);
        let fit = recording::fits(&before) && recording::fits(&self.files);
        (fit && self.work <= MAX_WORK).then_some(step)
    }
}

/// The redacted files of a reading.
fn redact(end: &TapeEnd, names: &mut Names) -> Files {
    let kept = end.files.iter().filter_map(|(path, entry)| table::redact(path, entry, names));
    let kept = kept.map(|(path, entry)| match entry {
        Entry::Refused(refusal) => (path, Entry::Refused(plain(&refusal))),
        file @ Entry::File(_) => (path, file),
    });
    kept.collect()
}
