// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that was read from a host over an interval: a [`Tape`].
//!
//! A tape contains the files as they were, names and command lines included. It never leaves
//! memory: only a redacted capture of it is written, by `pagewise-capture`.

use pagewise_model::{Interval, Snapshot};

use pagewise_hostfs::{Entry, Files, HostRoot, ReadHost};

/// Everything that was read of a host at the start and at the end of an interval.
#[derive(Debug)]
pub struct Tape {
    /// Size of a base page in bytes.
    pub page_size: Option<u64>,
    /// What was read, with one entry per time, the earlier first.
    pub ends: Vec<TapeEnd>,
}

/// What was read of a host at one time.
#[derive(Debug)]
pub struct TapeEnd {
    /// Which end of the interval: `start` or `end`.
    pub name: &'static str,
    /// Wall clock time in seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// Seconds on a clock that is never set, including suspend (`CLOCK_BOOTTIME`).
    pub monotonic_seconds: f64,
    /// Seconds on the same clock without the time in which the machine was suspended
    /// (`CLOCK_MONOTONIC`).
    pub awake_seconds: Option<f64>,
    /// The content of each file that was read, or why it could not be read.
    pub files: Files,
}

impl Tape {
    pub(crate) fn new(interval: &Interval, earlier: Option<HostRoot>, later: HostRoot) -> Self {
        let page_size = later.facts().page_size;
        let start = interval.start.as_deref().zip(earlier);
        let start = start.map(|(snapshot, host)| end("start", snapshot, host));
        let ends = start.into_iter().chain([end("end", &interval.end, later)]).collect();
        Self { page_size, ends }
    }

    /// The bytes of a file that was read, at the later time if it was read at both.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.ends.iter().rev().find_map(|end| match end.files.get(path) {
            Some(Entry::File(bytes)) => Some(bytes.as_slice()),
            Some(Entry::Refused(_)) | None => None,
        })
    }
}

fn end(name: &'static str, snapshot: &Snapshot, host: HostRoot) -> TapeEnd {
    TapeEnd {
        name,
        unix_seconds: snapshot.taken.unix_seconds,
        monotonic_seconds: snapshot.taken.monotonic_seconds,
        awake_seconds: snapshot.taken.awake_seconds,
        files: host.into_remembered_files(),
    }
}
