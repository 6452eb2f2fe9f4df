// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a ring, and their readings as a recording over time ([`Shelf`]).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pagewise_hostfs::FolderError;
use pagewise_hostfs::TrustedFolder;
use pagewise_model::Bytes;
use rustix::fs::{Dir, FileType};

use crate::frame::{FrameReader, Unwhole};
use crate::name::FileName;

/// Larger files are not read: no ring writes one.
const MAX_FILE: u64 = 64 << 20;
/// More files than this are not listed.
const MAX_FILES: usize = 10_000;

/// Why the files of a ring cannot be listed or read.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The folder is missing, or another user could change it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file or the list of files cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or folder.
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
    /// Its size.
    pub size: Bytes,
    /// When it was last written, in seconds since 1970.
    pub changed_unix_seconds: i64,
}

/// The folder of a ring, for reading. The ring may be in use meanwhile.
#[derive(Debug)]
pub struct Shelf {
    folder: TrustedFolder,
}

impl Shelf {
    /// Opens the folder of a ring.
    ///
    /// # Errors
    /// If it is missing, or another user could change it.
    pub fn open(path: &Path) -> Result<Self, ShelfError> {
        Ok(Self { folder: TrustedFolder::open(path)? })
    }

    pub(crate) fn of(folder: TrustedFolder) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &TrustedFolder {
        &self.folder
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The files of the ring, the oldest first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn files(&self) -> Result<Vec<StoredFile>, ShelfError> {
        let fail = |source: rustix::io::Errno| self.error(None, source.into());
        let flags = rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::DIRECTORY
            | rustix::fs::OFlags::CLOEXEC;
        let here = rustix::fs::openat(self.folder.handle(), ".", flags, rustix::fs::Mode::empty());
        let entries = Dir::new(here.map_err(fail)?).map_err(fail)?;
        let mut files = Vec::new();
        for entry in entries.take(MAX_FILES) {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_str().ok().and_then(FileName::parse);
            let Some(name) = name else { continue };
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let stat = rustix::fs::statat(self.folder.handle(), entry.file_name(), flags);
            // a file that the ring has removed meanwhile
            let Ok(stat) = stat else { continue };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let size = Bytes::new(u64::try_from(stat.st_size).unwrap_or(0));
            files.push(StoredFile { name, size, changed_unix_seconds: stat.st_mtime });
        }
        files.sort_by_key(|file| file.name.number);
        Ok(files)
    }

    /// The bytes of the recording in a file, which may end in the middle, and why the file is not
    /// whole.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn recording(&self, name: FileName) -> Result<(Vec<u8>, Option<Unwhole>), ShelfError> {
        let path = name.to_string();
        let read = || {
            let file: File = self.folder.open_file(Path::new(&path))?;
            let mut bytes = Vec::new();
            file.take(MAX_FILE).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|source| self.error(Some(&path), source))?;
        let mut frames = FrameReader::new(&bytes);
        let mut all = Vec::with_capacity(bytes.len());
        frames.by_ref().for_each(|frame| all.extend_from_slice(frame));
        Ok((all, frames.unwhole()))
    }

    fn error(&self, name: Option<&str>, source: std::io::Error) -> ShelfError {
        let path =
            name.map_or_else(|| self.folder.path().to_owned(), |it| self.folder.path().join(it));
        ShelfError::Read { path, source }
    }
}
