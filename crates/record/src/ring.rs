// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes readings into the files of a ring ([`Ring`]).
//!
//! A new file begins at each start of the program, when a file has its share of the bytes or of the
//! readings, when the clock was set back, and when the recording in the file cannot hold another
//! reading. Before a new reading would exceed the limit, the oldest files are removed. If the disk
//! is full, older files are removed as well, so that the ring becomes smaller than its limit. A
//! lock ensures that only one process writes a ring.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagewise_capture::{Stream, Timeline};
use pagewise_hostfs::FolderError;
use pagewise_hostfs::TrustedFolder;
use pagewise_model::Bytes;
use pagewise_observe::{Rest, Step, Tape};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::frame::{MAGIC, checksum, make_frame};
use crate::index::{self, ReadingSummary};
use crate::name::FileName;
use crate::shelf::{Shelf, ShelfError, StoredFile};

/// Maximum size of a file, as the limit of the ring divided by this. Files are small so that
/// removing the oldest one loses little.
const PARTS: u64 = 16;
/// Minimum of this maximum, because each file begins with a complete reading.
const LEAST_FILE: u64 = 256 << 10;
/// The smallest limit that a ring can have.
pub(crate) const LEAST: u64 = 1 << 20;
/// Maximum number of readings in a file, about three hours. It is limited because the readings
/// before the one that is wanted must be decompressed, too.
const MOST_READINGS: u32 = 1000;
const LOCK: &str = "lock";

/// How many readings a ring keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLimits {
    /// Maximum size of all files together.
    pub size: Bytes,
    /// Maximum age of a file: older files are removed.
    pub age: Duration,
}

/// Error for a ring that cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The folder of the ring cannot be used.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// Another process writes this ring.
    #[error("{}: another process writes it", path.display())]
    InUse {
        /// The folder of the ring.
        path: PathBuf,
    },
    /// A file cannot be created, written or removed.
    #[error("{}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The reading is larger than the limit of the ring.
    #[error("a reading takes {size}, more than the ring may hold")]
    TooLarge {
        /// The size of the reading as it would be stored.
        size: Bytes,
    },
}

impl RingError {
    /// Whether the ring cannot be written because its file system is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(io) = error.downcast_ref::<std::io::Error>() {
                return io.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
            }
            cause = error.source();
        }
        false
    }
}

impl From<FolderError> for RingError {
    fn from(error: FolderError) -> Self {
        Self::Shelf(error.into())
    }
}

/// The result of adding a reading: how much space it takes, and what was removed to make room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Number of bytes that the reading takes.
    pub size: Bytes,
    /// Number of files that were removed to make room.
    pub removed: usize,
    /// Whether the reading is the first one in a new file.
    pub began: bool,
}

/// A ring of files to which this process writes.
#[derive(Debug)]
pub struct Ring {
    shelf: Shelf,
    /// The lock file, which is open as long as this process writes the ring.
    _lock: File,
    limits: RingLimits,
    /// The recording over time so far, with the last reading in full; `None` before the first
    /// reading.
    timeline: Option<Timeline>,
    current: Option<Current>,
    next: u64,
}

/// The file to which readings are added.
#[derive(Debug)]
struct Current {
    name: FileName,
    file: File,
    written: u64,
    readings: u32,
    /// The index; `None` if it could not be written. It is then incomplete, and readers do not use
    /// it.
    index: Option<File>,
    last_seconds: f64,
    stream: Stream<'static>,
    pending: Pending,
}

/// The bytes that the stream has written since the last frame.
#[derive(Debug, Clone, Default)]
struct Pending(Arc<Mutex<Vec<u8>>>);

impl Pending {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Ring {
    /// Opens a ring for writing. Creates its folder if that is missing, but not the parents of the
    /// folder.
    ///
    /// # Errors
    /// If the folder cannot be used, or another process writes the ring.
    pub fn open(path: &Path, limits: RingLimits) -> Result<Self, RingError> {
        let make: pagewise_hostfs::MakeFolder =
            |folder, name| rustix::fs::mkdirat(folder, name, Mode::RWXU);
        let folder = TrustedFolder::open_or_make(path, make)?;
        let lock = lock(&folder)?;
        let shelf = Shelf::from_folder(folder);
        for orphan in shelf.find_orphans()? {
            // if it cannot be removed, it takes some bytes until the next start
            let _ = rustix::fs::unlinkat(shelf.folder().handle(), orphan, AtFlags::empty());
        }
        let next = shelf.files()?.last().map_or(1, |last| last.name.number + 1);
        let size = limits.size.max(Bytes::new(LEAST));
        let limits = RingLimits { size, ..limits };
        Ok(Self { shelf, _lock: lock, limits, timeline: None, current: None, next })
    }

    /// Returns the files of the ring, for reading.
    #[must_use]
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// Returns the file to which readings are added, so that the caller can sync it to the disk;
    /// `None` before the first reading.
    ///
    /// # Errors
    /// If the file descriptor cannot be duplicated.
    pub fn current_file(&self) -> Option<std::io::Result<File>> {
        self.current.as_ref().map(|current| current.file.try_clone())
    }

    /// Stores the later end of a reading. The parts that were not read this time, according to
    /// `rest`, are taken from the reading before; the first reading must be complete.
    ///
    /// # Errors
    /// If the reading cannot be written, even after older files were removed. The ring remains
    /// valid, and the next reading begins a new file.
    pub fn add(&mut self, tape: Tape, rest: &Rest) -> Result<Added, RingError> {
        let now = tape.ends.last().map_or(0.0, |end| end.unix_seconds);
        let summary = ReadingSummary::from_tape(&tape);
        let mut added = Added::default();
        let (timeline, step) = match self.timeline.take() {
            Some(mut timeline) => {
                let step = timeline.advance(tape, rest);
                (timeline, Some(step))
            }
            None => (Timeline::begin_on_this_machine(tape), None),
        };
        let timeline = self.timeline.insert(timeline);
        let current = self.current.take_if(|it| it.has_room_for(now, self.limits.size));
        if let Some((mut current, step)) =
            current.zip(step).filter(|_| timeline.can_hold_last_reading())
        {
            if let Some(bytes) = current.make_frame_of_step(&step, now) {
                added.size = Bytes::new(bytes.len() as u64);
                added.removed += self.write(&mut current, &bytes)?;
                current.add_to_index(summary, &bytes);
                self.current = Some(current);
                return Ok(added);
            }
        }
        // the previous file is full, or the reading does not fit into it; it is complete as it is
        self.current = None;
        added.removed += self.remove_old(now)?;
        let (mut current, bytes) = self.begin_file(now)?;
        added.size = Bytes::new(bytes.len() as u64);
        added.began = true;
        let written = self.write(&mut current, &bytes);
        if written.is_err() {
            self.remove(current.name)?;
        }
        added.removed += written?;
        current.add_to_index(summary, &bytes[MAGIC.len()..]);
        self.current = Some(current);
        Ok(added)
    }

    fn begin_file(&mut self, now: f64) -> Result<(Current, Vec<u8>), RingError> {
        let pending = Pending::default();
        let stream = self.timeline.as_mut().map(|timeline| timeline.stream(pending.clone()));
        let stream = stream.unwrap_or_else(|| Err(Errno::INVAL.into()));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let name = FileName { unix_seconds: now as u64, number: self.next };
        self.next += 1;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let handle = self.shelf.folder().handle();
        let file = self.retry_without_oldest(name, || {
            Ok(rustix::fs::openat(handle, name.to_string(), flags, Mode::RUSR | Mode::WUSR)?)
        });
        let stream = stream.map_err(|source| self.error(name, source))?;
        let bytes =
            make_frame(&pending.take()).ok_or(RingError::TooLarge { size: self.limits.size })?;
        let current = Current {
            name,
            file: file?.0.into(),
            written: 0,
            readings: 0,
            index: self.begin_index(name),
            last_seconds: now,
            stream,
            pending,
        };
        Ok((current, [&MAGIC[..], &bytes].concat()))
    }

    /// Creates the index of a new file; `None` if that fails. Without an index, readers find the
    /// readings of the file by decompressing them.
    fn begin_index(&self, name: FileName) -> Option<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let (handle, mode) = (self.shelf.folder().handle(), Mode::RUSR | Mode::WUSR);
        let file = File::from(rustix::fs::openat(handle, name.index_name(), flags, mode).ok()?);
        file.write_all_at(index::MAGIC, 0).ok()?;
        Some(file)
    }

    /// Appends bytes to the file after making room, and returns how many older files were removed.
    /// If the disk is full, older files are removed until the bytes fit.
    fn write(&self, current: &mut Current, bytes: &[u8]) -> Result<usize, RingError> {
        let size = bytes.len() as u64;
        if size + current.written > self.limits.size.get() {
            return Err(RingError::TooLarge { size: Bytes::new(size) });
        }
        let mut removed = self.make_room(current.name, size)?;
        let (file, at) = (&current.file, current.written);
        let done = self.retry_without_oldest(current.name, || file.write_all_at(bytes, at));
        if done.is_err() {
            // the part of the frame that was written would be recognised as incomplete, but takes
            // space
            let _ = file.set_len(at);
        }
        removed += done?.1;
        current.written += size;
        Ok(removed)
    }

    /// Runs `work`. As long as it fails because the disk is full, removes the oldest file and runs
    /// `work` again. Returns the number of removed files.
    fn retry_without_oldest<T>(
        &self,
        name: FileName,
        mut work: impl FnMut() -> std::io::Result<T>,
    ) -> Result<(T, usize), RingError> {
        let mut removed = 0;
        loop {
            let error = match work() {
                Ok(done) => return Ok((done, removed)),
                Err(error) => error,
            };
            let is_full = matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::DQUOT));
            let oldest =
                self.shelf.files()?.into_iter().map(|file| file.name).find(|it| *it != name);
            match oldest.filter(|_| is_full) {
                Some(oldest) => self.remove(oldest)?,
                None => return Err(self.error(name, error)),
            }
            removed += 1;
        }
    }

    /// Removes the oldest files until `more` bytes fit, but never the file that is being written.
    fn make_room(&self, current: FileName, more: u64) -> Result<usize, RingError> {
        let files = self.shelf.files()?;
        let mut all: u64 = files.iter().map(|file| file.size.get()).sum();
        let mut removed = 0;
        for StoredFile { name, size, .. } in files {
            if all.saturating_add(more) <= self.limits.size.get() || name == current {
                break;
            }
            self.remove(name)?;
            all -= size.get();
            removed += 1;
        }
        Ok(removed)
    }

    /// Removes the files that were last written too long ago, because all readings in them are
    /// older than the limit.
    fn remove_old(&self, now: f64) -> Result<usize, RingError> {
        let oldest = now - self.limits.age.as_secs_f64();
        let mut removed = 0;
        for file in self.shelf.files()? {
            if (file.changed_unix_seconds as f64) < oldest {
                self.remove(file.name)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn remove(&self, name: FileName) -> Result<(), RingError> {
        let handle = self.shelf.folder().handle();
        // the index is removed last: an index without its file is removed at the next start
        for path in [name.to_string(), name.index_name()] {
            match rustix::fs::unlinkat(handle, path, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.error(name, errno.into())),
            }
        }
        Ok(())
    }

    fn error(&self, name: FileName, source: std::io::Error) -> RingError {
        RingError::Write { path: self.shelf.folder().path().join(name.to_string()), source }
    }
}

impl Current {
    /// Whether another reading can be added to this file.
    fn has_room_for(&self, now: f64, size: Bytes) -> bool {
        now >= self.last_seconds
            && self.written < (size.get() / PARTS).max(LEAST_FILE)
            && self.readings < MOST_READINGS
    }

    /// Adds a record for the frame that was written last. If that fails, no further records are
    /// added, because readers do not use an incomplete index.
    fn add_to_index(&mut self, summary: ReadingSummary, frame: &[u8]) {
        let at = index::offset_of_record(self.readings);
        self.readings += 1;
        let record = checksum(frame).map(|sum| summary.record(sum));
        let written = self.index.as_ref().zip(record);
        let is_written =
            written.is_some_and(|(file, record)| file.write_all_at(&record, at).is_ok());
        if !is_written {
            self.index = None;
        }
    }

    /// Returns the frame for the next reading; `None` if the recording cannot hold another one.
    fn make_frame_of_step(&mut self, step: &Step, now: f64) -> Option<Vec<u8>> {
        self.last_seconds = now;
        // writing into memory cannot fail
        let is_added = self.stream.add_step(step).unwrap_or(false);
        is_added.then(|| make_frame(&self.pending.take())).flatten()
    }
}

fn lock(folder: &TrustedFolder) -> Result<File, RingError> {
    let path = || folder.path().join(LOCK);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(folder.handle(), LOCK, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| RingError::Write { path: path(), source: errno.into() })?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file.into()),
        Err(Errno::WOULDBLOCK) => Err(RingError::InUse { path: folder.path().to_owned() }),
        Err(errno) => Err(RingError::Write { path: path(), source: errno.into() }),
    }
}
