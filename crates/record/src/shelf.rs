// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a ring, whose readings can be read as recordings over time ([`Shelf`]).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pagewise_hostfs::FolderError;
use pagewise_hostfs::TrustedFolder;
use pagewise_model::Bytes;
use rustix::fs::{Dir, FileType};

use crate::frame::{FrameReader, Unwhole};
use crate::index::{self, ReadingSummary};
use crate::name::FileName;

/// Maximum size of a file that is read. No ring writes larger files.
const MAX_FILE: u64 = 64 << 20;
/// Maximum number of files that are listed.
const MAX_FILES: usize = 10_000;

/// Error for a ring whose files cannot be listed or read.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The folder does not exist, or another user could change it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file or the list of files cannot be read.
    #[error("{}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
}

/// A file of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    /// When the file began, and its place among the others.
    pub name: FileName,
    /// Size of the file together with its index.
    pub size: Bytes,
    /// When the file was last written, in seconds since 1970.
    pub changed_unix_seconds: i64,
}

/// The time and the counters of each reading in a file, and why the file is incomplete, if it is.
pub type Summaries = (Vec<ReadingSummary>, Option<Unwhole>);

/// The folder of a ring, opened for reading. A process may write the ring at the same time.
#[derive(Debug)]
pub struct Shelf {
    folder: TrustedFolder,
}

impl Shelf {
    /// Opens the folder of a ring, which may belong to another user: the service runs as a user of
    /// its own, and root reads its recordings.
    ///
    /// # Errors
    /// If the folder does not exist, or if another user can change its path and the path contains a
    /// link.
    pub fn open(path: &Path) -> Result<Self, ShelfError> {
        Ok(Self { folder: TrustedFolder::open_untrusted(path)? })
    }

    pub(crate) fn from_folder(folder: TrustedFolder) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &TrustedFolder {
        &self.folder
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the names in the folder, as far as they are UTF-8.
    fn list(&self) -> Result<Vec<String>, ShelfError> {
        let fail = |source: rustix::io::Errno| self.error(None, source.into());
        let flags = rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::DIRECTORY
            | rustix::fs::OFlags::CLOEXEC;
        let here = rustix::fs::openat(self.folder.handle(), ".", flags, rustix::fs::Mode::empty());
        let entries = Dir::new(here.map_err(fail)?).map_err(fail)?;
        let mut names = Vec::new();
        for entry in entries.take(MAX_FILES) {
            let entry = entry.map_err(fail)?;
            names.extend(entry.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }

    /// Returns the files of the ring, the oldest first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn files(&self) -> Result<Vec<StoredFile>, ShelfError> {
        let mut files = Vec::new();
        for entry in self.list()? {
            let Some(name) = FileName::parse(&entry) else { continue };
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let stat = rustix::fs::statat(self.folder.handle(), &*entry, flags);
            // the ring has removed the file in the meantime
            let Ok(stat) = stat else { continue };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let index = rustix::fs::statat(self.folder.handle(), name.index_name(), flags);
            let length = stat.st_size.saturating_add(index.map_or(0, |index| index.st_size));
            let size = Bytes::new(u64::try_from(length).unwrap_or(0));
            files.push(StoredFile { name, size, changed_unix_seconds: stat.st_mtime });
        }
        files.sort_by_key(|file| file.name.number);
        Ok(files)
    }

    /// Returns the time and the counters of each reading in a file, from the file's index, and the
    /// reason if the file is incomplete. `None` if the index does not contain all readings that
    /// [`Self::recording`] would return.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn summaries(&self, name: FileName) -> Result<Option<Summaries>, ShelfError> {
        // if there is no index, the file need not be read
        let Ok(index) = self.read(&name.index_name()) else { return Ok(None) };
        let bytes = self.read(&name.to_string())?;
        let mut reader = FrameReader::new(&bytes);
        let frames: Vec<u32> = reader.by_ref().map(crc32fast::hash).collect();
        let summaries = index::parse_summaries(&index, &frames);
        Ok(summaries.map(|summaries| (summaries, reader.reason_if_incomplete())))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, ShelfError> {
        let read = || {
            let file: File = self.folder.open_file(Path::new(name))?;
            let mut bytes = Vec::new();
            file.take(MAX_FILE).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|source| self.error(Some(name), source))
    }

    /// Returns the names of indexes whose files do not exist.
    pub(crate) fn find_orphans(&self) -> Result<Vec<String>, ShelfError> {
        let names: Vec<FileName> = self.files()?.into_iter().map(|file| file.name).collect();
        let is_orphan = |name: &String| {
            FileName::from_index_name(name).is_some_and(|file| !names.contains(&file))
        };
        Ok(self.list()?.into_iter().filter(is_orphan).collect())
    }

    /// Returns the bytes of the recording in a file, which may be incomplete, and the reason if it
    /// is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn recording(&self, name: FileName) -> Result<(Vec<u8>, Option<Unwhole>), ShelfError> {
        let bytes = self.read(&name.to_string())?;
        let mut frames = FrameReader::new(&bytes);
        let mut all = Vec::with_capacity(bytes.len());
        frames.by_ref().for_each(|frame| all.extend_from_slice(frame));
        Ok((all, frames.reason_if_incomplete()))
    }

    fn error(&self, name: Option<&str>, source: std::io::Error) -> ShelfError {
        let path =
            name.map_or_else(|| self.folder.path().to_owned(), |it| self.folder.path().join(it));
        ShelfError::Read { path, source }
    }
}
