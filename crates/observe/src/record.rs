// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host at two times → an [`Interval`], and everything that was asked for it: a [`Tape`].

use std::io::Read;
use std::path::Path;

use pagewise_hostfs::recording::{self, Ends, OpenError};
use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::{Interval, Problem};

use crate::snapshot::{Scope, read_counters, snapshot};
use crate::tape::Tape;

/// A host at two times, or at one: a recording, or the live machine looked at twice.
#[derive(Debug)]
pub struct Recording {
    /// The earlier end.
    pub start: Option<HostRoot>,
    /// The later end.
    pub end: HostRoot,
}

impl Recording {
    /// The machine we run on, to be looked at twice.
    ///
    /// # Errors
    /// Where `/` cannot be opened.
    pub fn live() -> std::io::Result<Self> {
        Ok(Self { start: Some(HostRoot::live()?), end: HostRoot::live()? })
    }

    /// Only the later end: nothing has a rate.
    #[must_use]
    pub fn without_start(self) -> Self {
        Self { start: None, ..self }
    }

    /// An archive (`.tar.zst` or `.tar`), told apart by its first bytes; `label` names it in what
    /// is printed.
    ///
    /// # Errors
    /// Where nothing in it can be used.
    pub fn from_archive(bytes: impl Read, label: &str) -> Result<Self, OpenError> {
        recording::unpack(bytes, label).map(Self::from)
    }

    /// What of it could not be used.
    pub fn into_problems(self) -> Vec<Problem> {
        self.end.take_problems()
    }

    /// Both ends, with `wait` between them where the machine is live. Of the earlier end only counters are
    /// read, and sizes that are compared over an interval.
    ///
    /// # Errors
    /// What `wait` says; the wait was cut short and nothing was measured.
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

    /// As [`Recording::interval`], and everything that was asked of both ends.
    ///
    /// # Errors
    /// What `wait` says.
    pub fn record<E>(
        self,
        scope: &Scope,
        wait: impl FnOnce() -> Result<(), E>,
    ) -> Result<(Interval, Tape), E> {
        let remembering =
            Self { start: self.start.map(HostRoot::remembering), end: self.end.remembering() };
        let interval = remembering.interval(scope, wait)?;
        let tape = Tape::new(&interval, remembering.start, remembering.end);
        Ok((interval, tape))
    }
}

impl From<Ends> for Recording {
    fn from(Ends { start, end, .. }: Ends) -> Self {
        Self { start, end }
    }
}

/// Opens a folder or an archive.
///
/// # Errors
/// Where it cannot be opened or is no recording.
pub fn open(path: &Path) -> Result<Recording, OpenError> {
    open_with(path, |_| ())
}

/// The same; of a recording over time its last two readings, and besides its first two.
///
/// # Errors
/// As for [`open`].
pub fn open_readings(path: &Path) -> Result<(Recording, Option<Recording>), OpenError> {
    let Ends { start, end, first } = recording::open(path, |_| ())?;
    let first = first.map(|both| {
        let [start, end] = *both;
        Recording { start: Some(start), end }
    });
    Ok((Recording { start, end }, first))
}

/// The same; `opened` is called when it is open and nothing of it has been read yet, with whether it is
/// a folder, whose files are opened later.
///
/// # Errors
/// As for [`open`].
pub fn open_with(path: &Path, opened: impl FnOnce(bool)) -> Result<Recording, OpenError> {
    recording::open(path, opened).map(Recording::from)
}
