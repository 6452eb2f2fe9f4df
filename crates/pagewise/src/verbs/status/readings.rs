// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readings that `status --watch --root` steps through: those of a recording over time, or those
//! of the record of `pagewise monitor`, which is a folder with many recordings ([`Readings`]).
//!
//! A record has tens of thousands of readings. Its indexes have their times and counters, so only the
//! file of the current reading is decompressed, and a jump does not pass the readings in between. A
//! file without a usable index is decompressed once at the start.

use std::path::Path;

use pagewise_model::{Micros, Refusal};
use pagewise_observe::{HostRoot, OpenError, Replay, open_replay, psi, unpack_replay};
use pagewise_record::{FileName, ReadingSummary, Shelf};
use pagewise_sandbox::Confinement;

/// When a reading was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReadingTime {
    /// Seconds since 1970, UTC.
    pub(super) unix: f64,
    /// Seconds of a clock that is not set; in a record, this is `unix`, as its indexes have no other
    /// clock.
    pub(super) monotonic: f64,
}

/// The readings of a recording or record, one of which is current. There is always at least one.
pub(super) struct Readings {
    times: Vec<ReadingTime>,
    /// Total pressure stall time in microseconds at each reading, as far as it is known.
    stalled: Vec<Option<u64>>,
    replay: Replay,
    record: Option<Record>,
}

/// The files of a record.
struct Record {
    shelf: Shelf,
    files: Vec<FileReadings>,
    /// Index of the file that is open.
    open: usize,
}

/// Which readings a file of a record has.
#[derive(Debug, Clone, Copy)]
struct FileReadings {
    name: FileName,
    /// Index of its first reading among all readings.
    first: usize,
}

impl Readings {
    /// Opens a recording, the folder of a record, or one file of a record. Before it reads a file, the
    /// process gives up its rights.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        match find_record(path) {
            Some((shelf, only)) => {
                Confinement::for_recording_on_terminal(true).enter();
                Self::from_record(shelf, only)
            }
            None => {
                let confine =
                    |is_folder| _ = Confinement::for_recording_on_terminal(is_folder).enter();
                Ok(Self::from_replay(open_replay(path, confine)?))
            }
        }
    }

    pub(super) fn from_replay(replay: Replay) -> Self {
        let time = |at: &pagewise_observe::End| ReadingTime {
            unix: at.unix_seconds,
            monotonic: at.monotonic_seconds,
        };
        let times = replay.times().iter().map(time).collect();
        let stalled = vec![read_stalled(&replay)];
        Self { times, stalled, replay, record: None }
    }

    /// Opens the files of a record, or only the named one.
    pub(super) fn from_record(shelf: Shelf, only: Option<FileName>) -> anyhow::Result<Self> {
        let (mut files, mut summaries) = (Vec::new(), Vec::new());
        for file in shelf.files()? {
            if only.is_some_and(|only| only != file.name) {
                continue;
            }
            let first = summaries.len();
            // a file that cannot be read has no readings to step through
            summaries.extend(summaries_of(&shelf, file.name).unwrap_or_default());
            if summaries.len() > first {
                files.push(FileReadings { name: file.name, first });
            }
        }
        let first = files.first().and_then(|file| Some((*file, open_file(&shelf, file.name)?)));
        let Some((_, replay)) = first else {
            let path = pagewise_model::Name::from(shelf.path().to_string_lossy().as_ref());
            let what = format!("{path}: the record has no reading that can be read");
            let next = "is `pagewise monitor` running? it reads every 10 s";
            anyhow::bail!(Refusal::with_advice(what, next));
        };
        let time =
            |it: &ReadingSummary| ReadingTime { unix: it.unix_seconds, monotonic: it.unix_seconds };
        Ok(Self {
            times: summaries.iter().map(time).collect(),
            stalled: summaries.iter().map(|it| it.stalled_us).collect(),
            replay,
            record: Some(Record { shelf, files, open: 0 }),
        })
    }

    #[cfg(test)]
    pub(super) fn record_files(&self) -> usize {
        self.record.as_ref().map_or(0, |record| record.files.len())
    }

    pub(super) fn times(&self) -> &[ReadingTime] {
        &self.times
    }

    /// The index of the current reading, from 0.
    pub(super) fn at(&self) -> usize {
        let first = self.record.as_ref().map_or(0, |record| record.files[record.open].first);
        first + self.replay.at()
    }

    /// The host as the current reading shows it.
    pub(super) fn host(&self) -> &HostRoot {
        self.replay.host()
    }

    /// For a recording of one time, its earlier end if it has one.
    pub(super) fn earlier(&self) -> Option<&HostRoot> {
        self.replay.earlier().filter(|_| self.record.is_none())
    }

    /// Why the recording ends early; `None` if it is complete. A record is written all the time, and
    /// its last frame may be incomplete at any time.
    pub(super) fn early(&self) -> Option<&str> {
        self.replay.early().filter(|_| self.record.is_none())
    }

    /// Seconds from the reading before to this one.
    pub(super) fn seconds_since_previous(&self, step: usize) -> Option<f64> {
        let before = self.times.get(step.checked_sub(1)?)?;
        Some(self.times.get(step)?.monotonic - before.monotonic)
    }

    /// Total pressure stall time in microseconds at a reading; `None` if it is not known, or if the
    /// reading was not passed yet.
    pub(super) fn stalled(&self, step: usize) -> Option<u64> {
        self.stalled.get(step).copied().flatten()
    }

    /// Goes to a reading. In a record whose files were removed or became unreadable meanwhile, goes as
    /// near to it as possible.
    pub(super) fn go_to(&mut self, to: usize) {
        let to = to.min(self.times.len().saturating_sub(1));
        let first = match &mut self.record {
            Some(record) => {
                let wanted = record.files.partition_point(|file| file.first <= to).max(1) - 1;
                if wanted != record.open {
                    if let Some(replay) = open_file(&record.shelf, record.files[wanted].name) {
                        (self.replay, record.open) = (replay, wanted);
                    }
                }
                record.files[record.open].first
            }
            None => 0,
        };
        let local = to.saturating_sub(first);
        while self.replay.at() > local && self.replay.backward() {}
        while self.replay.at() < local && self.replay.forward() {
            if self.record.is_none() && self.replay.at() == self.stalled.len() {
                self.stalled.push(read_stalled(&self.replay));
            }
        }
    }
}

/// The record that a path names: its folder, or one of its files.
fn find_record(path: &Path) -> Option<(Shelf, Option<FileName>)> {
    let file = path.file_name().and_then(|name| FileName::parse(name.to_str()?));
    if let (Some(name), true) = (file, path.is_file()) {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        return Some((Shelf::open(folder.unwrap_or(Path::new("."))).ok()?, Some(name)));
    }
    let shelf = path.is_dir().then(|| Shelf::open(path).ok()).flatten()?;
    let has_files = shelf.files().is_ok_and(|files| !files.is_empty());
    has_files.then_some((shelf, None))
}

/// The time and the counters of each reading of a file.
fn summaries_of(shelf: &Shelf, name: FileName) -> Option<Vec<ReadingSummary>> {
    if let Ok(Some((summaries, _))) = shelf.summaries(name) {
        return Some(summaries);
    }
    let mut replay = open_file(shelf, name)?;
    let mut all = Vec::new();
    loop {
        let at = replay.times()[replay.at()].unix_seconds;
        all.push(ReadingSummary::from_host(at, replay.host()));
        if !replay.forward() {
            return Some(all);
        }
    }
}

fn open_file(shelf: &Shelf, name: FileName) -> Option<Replay> {
    let (bytes, _) = shelf.recording(name).ok()?;
    let replay: Result<Replay, OpenError> = unpack_replay(&bytes[..], &name.to_string());
    replay.ok()
}

fn read_stalled(replay: &Replay) -> Option<u64> {
    psi(replay.host()).memory.some.total_us.get().map(Micros::get)
}
