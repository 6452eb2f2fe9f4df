// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a host at two times into an [`Interval`], and keeps all answers of the host as a [`Tape`].

use std::io::Read;
use std::path::Path;

use pagewise_hostfs::recording::{self, Ends, OpenError};
use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{Interval, Problem, Snapshot};

use crate::known::Known;
use crate::snapshot::{Scope, read_counters, snapshot, snapshot_after};
use crate::tape::Tape;

/// A host at one or two times: from a recording, or the live machine read twice.
#[derive(Debug)]
pub struct Recording {
    /// The host at the start of the interval.
    pub start: Option<HostRoot>,
    /// The host at the end of the interval.
    pub end: HostRoot,
}

impl Recording {
    /// Opens the live machine, to be read twice.
    ///
    /// # Errors
    /// If `/` cannot be opened.
    pub fn live() -> std::io::Result<Self> {
        Ok(Self { start: Some(HostRoot::live()?), end: HostRoot::live()? })
    }

    /// Drops the reading at the start of the interval: the result has no rates.
    #[must_use]
    pub fn without_start(self) -> Self {
        Self { start: None, ..self }
    }

    /// Opens an archive (tar, also packed with zstd, gzip or xz, detected by its first bytes);
    /// `label` is its name in messages.
    ///
    /// # Errors
    /// If nothing in it can be used.
    pub fn from_archive(bytes: impl Read, label: &str) -> Result<Self, OpenError> {
        recording::unpack(bytes, label).map(Self::from)
    }

    /// The Problems with parts of the recording that could not be used.
    pub fn into_problems(self) -> Vec<Problem> {
        self.end.take_problems()
    }

    /// Reads the host at both ends of an interval, with `wait` between them on a live machine. At
    /// the start only counters are read, and sizes that are compared over the interval.
    ///
    /// # Errors
    /// The error of `wait`; the wait was interrupted and there is no result.
    pub fn interval<E>(
        &self,
        scope: &Scope,
        wait: impl FnOnce() -> Result<(), E>,
    ) -> Result<Interval, E> {
        let start = self.start.as_ref().map(|host| Box::new(read_counters(host, scope)));
        if start.is_some() && self.end.is_live() {
            wait()?;
        }
        Ok(Interval { start, end: snapshot(&self.end, scope) })
    }

    /// Reads an interval as [`Recording::interval`] does, and also returns everything that was read
    /// from the host.
    ///
    /// # Errors
    /// The error of `wait`.
    pub fn record<E>(
        self,
        scope: &Scope,
        wait: impl FnOnce() -> Result<(), E>,
    ) -> Result<(Interval, Tape), E> {
        let remembering = Self {
            start: self.start.map(HostRoot::start_remembering),
            end: self.end.start_remembering(),
        };
        let interval = remembering.interval(scope, wait)?;
        let tape = Tape::new(&interval, remembering.start, remembering.end);
        Ok((interval, tape))
    }

    /// Reads the end of the interval, and returns everything that was read. Processes and cgroups that
    /// did nothing since the earlier snapshot are taken from it, as far as the scope allows that. The
    /// [`Known`] was filled by the reading of that snapshot, and is filled by this one.
    pub fn record_end(
        self,
        scope: &Scope,
        earlier: Option<(&mut Known, &Snapshot)>,
    ) -> (Snapshot, Tape) {
        let host = self.end.start_remembering();
        let end = snapshot_after(&host, scope, earlier);
        let interval = Interval { start: None, end };
        let tape = Tape::new(&interval, None, host);
        (interval.end, tape)
    }
}

impl From<Ends> for Recording {
    fn from(Ends { start, end, .. }: Ends) -> Self {
        Self { start, end }
    }
}

/// Opens a recording, which is a folder or an archive.
///
/// # Errors
/// If it cannot be opened or is no recording.
pub fn open(path: &Path) -> Result<Recording, OpenError> {
    open_with(path, |_| ())
}

/// Opens a recording as [`open`] does; of a recording with more than two readings, returns the last
/// two and also the first two.
///
/// # Errors
/// The errors of [`open`].
pub fn open_readings(path: &Path) -> Result<(Recording, Option<Recording>), OpenError> {
    let Ends { start, end, first } = recording::open(path, |_| ())?;
    let first = first.map(|both| {
        let [start, end] = *both;
        Recording { start: Some(start), end }
    });
    Ok((Recording { start, end }, first))
}

/// Opens a recording as [`open`] does; calls `opened` when it is open and before anything is read.
/// The argument of `opened` is whether the recording is a folder, whose files are opened only when
/// they are read.
///
/// # Errors
/// The errors of [`open`].
pub fn open_with(path: &Path, opened: impl FnOnce(bool)) -> Result<Recording, OpenError> {
    recording::open(path, opened).map(Recording::from)
}
