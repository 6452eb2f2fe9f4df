// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a recording over time from several tapes of one host, in order. All readings are redacted
//! with the same aliases ([`Timeline`]).
//!
//! The first reading is stored completely; of each later reading, only the changes are stored
//! ([`Step`]).

use std::io::Write;

use pagewise_hostfs::recording::{self, End, MAX_WORK, Manifest, Step};
use pagewise_hostfs::{Entry, Files};
use pagewise_observe::{Rest, Tape, TapeEnd};

use super::names::Names;
use super::{Capture, Stream, clock, redact_refusal, table};

/// A recording over time: its last reading, and the aliases used so far.
#[derive(Debug)]
pub struct Timeline {
    names: Names,
    manifest: Manifest,
    at: End,
    files: Files,
    /// Number of bytes in files that a reader must rewrite to open the recording, which is limited.
    work: usize,
}

impl Timeline {
    /// Begins a recording over time with a reading, of which only the later end is recorded.
    pub fn begin(tape: &Tape) -> (Self, Capture) {
        let mut names = Names::from_tape(tape);
        let capture = Capture::with_names(tape, &mut names);
        let mut timeline = Self::empty(names, capture.manifest.clone());
        if let Some(end) = tape.ends.last() {
            timeline.files = redact(end, &mut timeline.names);
            timeline.at = clock(end);
        }
        (timeline, capture)
    }

    /// Begins a recording that stays on this machine: it keeps the names of programs, cgroups,
    /// configuration files and the host, and must not be sent to anybody.
    pub fn begin_on_this_machine(tape: Tape) -> Self {
        let mut names = Names::of_this_machine(&tape);
        let manifest = Capture::with_description_only(&tape, &mut names).manifest;
        let mut timeline = Self::empty(names, manifest);
        timeline.advance(tape, &Rest::Nothing);
        timeline
    }

    fn empty(names: Names, manifest: Manifest) -> Self {
        Self { names, manifest, at: End::default(), files: Files::default(), work: 0 }
    }

    /// Begins an archive with the last reading of the recording.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn stream<'a>(&mut self, out: impl Write + 'a) -> std::io::Result<Stream<'a>> {
        self.work = 0;
        Stream::begin_at(&self.manifest, &self.at, &self.files, out)
    }

    /// Replaces the last reading by the next one and returns the step between them. `rest` says
    /// which files were not read this time; these are kept from the last reading. Each file is
    /// freed as soon as it is redacted, so that the memory for both readings is not needed at once.
    pub fn advance(&mut self, tape: Tape, rest: &Rest) -> Step {
        self.names.add_places(&tape);
        let Some(end) = tape.ends.into_iter().next_back() else { return Step::default() };
        self.at = clock(&end);
        let names = &mut self.names;
        let is_kept = |path: &str| rest.has(path);
        let redacted = end
            .files
            .into_iter()
            .filter_map(|(path, entry)| Some(without_text(table::redact(&path, &entry, names)?)));
        let (step, work) = Step::advance(&self.at, &mut self.files, redacted, is_kept);
        self.work += work;
        step
    }

    /// Whether a recording that began with [`Self::stream`] can hold the last reading.
    #[must_use]
    pub fn can_hold_last_reading(&self) -> bool {
        recording::is_small_enough(&self.files) && self.work <= MAX_WORK
    }

    /// Returns the files that changed since the last reading; `None` if the recording would become
    /// too large to be opened.
    pub fn step(&mut self, tape: &Tape) -> Option<Step> {
        let end = tape.ends.last()?;
        self.names.add_places(tape);
        self.at = clock(end);
        let files = redact(end, &mut self.names);
        let step = Step::between(&clock(end), &self.files, &files);
        self.work += step.work(&self.files);
        let before = std::mem::replace(&mut self.files, files);
        let fit = recording::is_small_enough(&before) && recording::is_small_enough(&self.files);
        (fit && self.work <= MAX_WORK).then_some(step)
    }
}

/// Redacts the files of a reading.
fn redact(end: &TapeEnd, names: &mut Names) -> Files {
    let kept = end.files.iter().filter_map(|(path, entry)| table::redact(path, entry, names));
    kept.map(without_text).collect()
}

/// Redacts a file, without the text of a refusal that Pagewise did not write.
fn without_text((path, entry): (String, Entry)) -> (String, Entry) {
    match entry {
        Entry::Refused(refusal) => (path, Entry::Refused(redact_refusal(&refusal))),
        file @ Entry::File(_) => (path, file),
    }
}
