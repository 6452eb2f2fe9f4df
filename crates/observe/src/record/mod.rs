// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings: a folder or a `.tar.zst` file that stands for a host at two times.
//!
//! ```text
//! host.toml             what was recorded, and which files were refused
//! start/proc/meminfo …  the files at the earlier end of the interval
//! end/proc/meminfo …    the files at the later end
//! ```
//!
//! In an archive a file that reads the same at both ends is stored once: its second entry is a hard link to
//! the first, so that `tar` unpacks both. A link to anything but a file that stands before it in the same
//! archive is refused. A folder holds both files.
//!
//! A folder without `host.toml` that holds `proc` stands for one time; its files are read when they
//! are asked for. Everything else is taken into memory first, within [limits](limits).
//!
//! A recording comes from anywhere and is not trusted. What cannot be used is left out and becomes
//! a [`Problem`] of the later end; only where nothing at all can be used
//! is there an [`OpenError`]. Writing a recording begins with a [`Tape`]; see `redact`.

mod archive;
mod error;
mod folder;
mod limits;
mod manifest;
mod parts;
mod tape;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

use pagewise_model::{Interval, Problem};
use rustix::fs::{FileType, Mode, OFlags};

use crate::root::HostRoot;
use crate::snapshot::{Scope, read_counters, snapshot};

pub use error::OpenError;
pub use limits::{MAX_ENTRIES, MAX_FILE, MAX_SUM};
pub(crate) use manifest::refusal_text;
pub use manifest::{End, FORMAT, Manifest};
pub(crate) use parts::stored_path;
pub use tape::Tape;
pub(crate) use tape::TapeEnd;

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
        archive::unpack(bytes).assemble(label)
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
        let tape = Tape::new(&interval, remembering);
        Ok((interval, tape))
    }
}

/// Opens a folder or an archive.
///
/// # Errors
/// Where it cannot be opened or is no recording.
pub fn open(path: &Path) -> Result<Recording, OpenError> {
    open_with(path, |_| ())
}

/// The same; `opened` is called when it is open and nothing of it has been read yet, with whether it is
/// a folder, whose files are opened later.
///
/// # Errors
/// As for [`open`].
pub fn open_with(path: &Path, opened: impl FnOnce(bool)) -> Result<Recording, OpenError> {
    let before_reading = opened;
    let trouble =
        |errno: rustix::io::Errno| OpenError::Io { path: path.to_owned(), source: errno.into() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(trouble)?;
    let label = path.display().to_string();
    match FileType::from_raw_mode(rustix::fs::fstat(&opened).map_err(trouble)?.st_mode) {
        FileType::RegularFile => {
            before_reading(false);
            Recording::from_archive(std::fs::File::from(opened), &label)
        }
        FileType::Directory => {
            before_reading(true);
            open_folder(path, &opened, &label)
        }
        other => Err(OpenError::WrongKind { path: path.to_owned(), found: kind(other) }),
    }
}

fn open_folder(
    path: &Path,
    opened: &std::os::fd::OwnedFd,
    label: &str,
) -> Result<Recording, OpenError> {
    if folder::holds(opened, manifest::FILE) {
        return folder::load(opened).assemble(label);
    }
    if !folder::holds(opened, "proc") {
        return Err(OpenError::NoHost { path: path.to_owned() });
    }
    let end =
        HostRoot::folder(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    Ok(Recording { start: None, end })
}

/// What a thing in a file system is, in words.
pub(crate) fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "something unknown",
    }
}
