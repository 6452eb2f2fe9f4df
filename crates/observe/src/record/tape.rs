// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that was asked of a host over an interval, as it answered: a [`Tape`].
//!
//! A tape holds what the host said, names and command lines included. It never leaves memory: what
//! is written is a [`Capture`](crate::Capture) of it.

use pagewise_model::{Interval, Snapshot};

use super::Recording;
use crate::root::{Entry, Files, HostRoot};

/// Everything that was asked, at both ends.
#[derive(Debug)]
pub struct Tape {
    pub(crate) page_size: Option<u64>,
    /// The earlier end first.
    pub(crate) ends: Vec<TapeEnd>,
}

/// One end.
#[derive(Debug)]
pub(crate) struct TapeEnd {
    pub(crate) name: &'static str,
    pub(crate) unix_seconds: f64,
    pub(crate) monotonic_seconds: f64,
    pub(crate) awake_seconds: Option<f64>,
    pub(crate) files: Files,
}

impl Tape {
    pub(super) fn new(interval: &Interval, recording: Recording) -> Self {
        let page_size = recording.end.facts().page_size;
        let start = interval.start.as_deref().zip(recording.start);
        let start = start.map(|(snapshot, host)| end("start", snapshot, host));
        let ends = start.into_iter().chain([end("end", &interval.end, recording.end)]).collect();
        Self { page_size, ends }
    }

    /// The bytes of a file, at the later end where both have it.
    pub(crate) fn file(&self, path: &str) -> Option<&[u8]> {
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
        files: host.remembered(),
    }
}
