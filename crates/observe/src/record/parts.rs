// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a recording, taken one by one within the limits → [`Recording`].

use std::fmt;

use pagewise_model::{Name, Problem, Reading, Source};

use super::limits::{MAX_ENTRIES, MAX_FILE, MAX_PATH, MAX_SUM};
use super::manifest::{FILE, Manifest};
use super::{OpenError, Recording};
use crate::root::{Entry, Files, HostRoot};

/// How a path segment `..` is written in a recording: readers ask for `device/../queue`, and no
/// unpacker accepts such a path.
const DOTS: &str = "%2E%2E";

/// Something in a recording that was not used.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    path: String,
    line: Option<u32>,
    expected: String,
    found: Vec<u8>,
}

impl Trouble {
    pub(super) fn file(path: &str, expected: impl Into<String>, found: &[u8]) -> Self {
        Self::line(path, None, expected, found)
    }

    pub(super) fn line(
        path: &str,
        line: Option<u32>,
        expected: impl Into<String>,
        found: &[u8],
    ) -> Self {
        let path = Name::from(path).to_string();
        Self { path, line, expected: expected.into(), found: found.to_vec() }
    }

    fn source(&self) -> Source {
        match self.line {
            Some(line) => Source::line(self.path.as_str(), line),
            None => Source::file(self.path.as_str()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Problem::new(&self.source(), self.expected.as_str(), &self.found).fmt(f)
    }
}

/// What was taken so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    manifest: Option<Vec<u8>>,
    start: Files,
    end: Files,
    /// Files of neither end: a recording of one time without a description.
    bare: Files,
    troubles: Vec<Trouble>,
    entries: usize,
    sum: usize,
    /// It could not be read to its end.
    pub(super) broken: Option<String>,
}

/// There is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Parts {
    /// Notes that something was not used.
    pub(super) fn trouble(&mut self, path: &str, expected: impl Into<String>, found: &str) {
        if self.troubles.len() < 1000 {
            self.troubles.push(Trouble::file(path, expected, found.as_bytes()));
        }
    }

    /// Counts a file or folder about to be taken.
    pub(super) fn count(&mut self) -> Result<(), Full> {
        self.entries += 1;
        if self.entries <= MAX_ENTRIES {
            return Ok(());
        }
        self.trouble("recording", format!("at most {MAX_ENTRIES} files and folders"), "more");
        Err(Full)
    }

    /// Takes one file.
    pub(super) fn take(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), Full> {
        if bytes.len() > MAX_FILE {
            self.trouble(path, "at most 8 MiB in one file", "more");
            return Ok(());
        }
        self.sum += bytes.len();
        if self.sum > MAX_SUM {
            self.trouble("recording", "at most 64 MiB in all files", "more");
            return Err(Full);
        }
        self.store(path, bytes);
        Ok(())
    }

    fn store(&mut self, path: &str, bytes: Vec<u8>) {
        if path == FILE {
            self.manifest.get_or_insert(bytes);
            return;
        }
        let (files, rest) = match path.split_once('/') {
            Some(("start", rest)) => (&mut self.start, rest),
            Some(("end", rest)) => (&mut self.end, rest),
            _ => (&mut self.bare, path),
        };
        if files.insert(rest.replace(DOTS, ".."), Entry::File(bytes)).is_some() {
            self.trouble(path, "each file once", "a second one of the same name");
        }
    }

    /// The recording, with everything that was not used as problems of its later end.
    pub(super) fn assemble(mut self, label: &str) -> Result<Recording, OpenError> {
        if let Some(found) = self.unusable() {
            return Err(OpenError::NoRecording { label: Name::from(label).to_string(), found });
        }
        if let Some(why) = self.broken.take() {
            self.trouble("recording", "a whole archive", &why);
        }
        let manifest = match self.manifest.take() {
            Some(bytes) => Manifest::parse(&bytes, &mut self.troubles),
            None => Manifest::default(),
        };
        self.choose_end();
        Ok(self.into_recording(&manifest, label))
    }

    /// What this is instead of a recording.
    fn unusable(&self) -> Option<String> {
        match (&self.manifest, &self.broken) {
            (Some(_), _) => None,
            (None, Some(why)) => Some(format!("{why}, before host.toml came")),
            (None, None) if self.bare.keys().any(|path| path.starts_with("proc/")) => None,
            (None, None) if self.entries == 0 => Some("no files".to_owned()),
            (None, None) => Some("neither host.toml nor proc".to_owned()),
        }
    }

    /// A recording that lost its later end, or never had two, has its files elsewhere.
    fn choose_end(&mut self) {
        if !self.end.is_empty() {
            return;
        }
        if self.start.is_empty() {
            self.end = std::mem::take(&mut self.bare);
        } else {
            self.trouble("end", "the files of the later end", "none: the earlier end is shown");
            self.end = std::mem::take(&mut self.start);
        }
    }

    fn into_recording(self, manifest: &Manifest, label: &str) -> Recording {
        let host = |name: &str, mut files: Files| {
            if let Some(end) = manifest.ends.get(name) {
                for (path, entry) in end.refusals() {
                    files.entry(path).or_insert(entry);
                }
            }
            HostRoot::recorded(files, Name::from(label), manifest.facts(name))
        };
        let start = (!self.start.is_empty()).then(|| host("start", self.start));
        let end = host("end", self.end);
        for trouble in &self.troubles {
            let _: Reading<()> = end.garbled(trouble.source(), &trouble.expected, &trouble.found);
        }
        Recording { start, end }
    }
}

/// Why a path cannot be one of a recording.
pub(super) fn refused_path(path: &str) -> Option<&'static str> {
    match () {
        () if path.len() > MAX_PATH => Some("a path longer than 1024 bytes"),
        () if path.starts_with('/') => Some("an absolute path"),
        () if path.split('/').any(|part| part == "..") => Some("a path with .. in it"),
        () if path.split('/').any(|part| part.is_empty() || part == ".") => {
            Some("a path with an empty part")
        }
        () if path.chars().any(char::is_control) => Some("a path with control characters"),
        () => None,
    }
}

/// The path as a recording stores it.
pub(crate) fn stored_path(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').map(|part| if part == ".." { DOTS } else { part }).collect();
    parts.join("/")
}
