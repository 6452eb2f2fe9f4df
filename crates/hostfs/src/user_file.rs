// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a file that the user names, within a size limit.
//!
//! This is the only way in which the program opens an input that belongs neither to the host nor to
//! Pagewise: evidence, experiments, its settings. The file may come from anywhere and its name may
//! refer to anything: a plain `open` of a pipe without a writer would hang, and `/dev/zero` never
//! ends. So it is opened without blocking, must be a regular file, and is refused at once if it is
//! longer than any file of its kind. If it grows while it is read, no more than the limit is read
//! either.
//!
//! Recordings have limits of their own, see `recording`.

use std::fs::File;
use std::io::{Read, Take};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use pagewise_model::{Advice, Bytes};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::kind::kind;
use crate::pieces::Pieces;
use crate::trusted_folder::{OTHERS_WRITE, is_ours_or_roots};

/// Why a file that the user named cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UserFileError {
    /// The file cannot be opened or read.
    #[error("{}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The path is not that of a regular file.
    #[error("{}: expected a file, found {found}", path.display())]
    WrongKind {
        /// The path of the file.
        path: PathBuf,
        /// What the path is instead, such as a folder.
        found: &'static str,
    },
    /// The file is longer than any file of its kind.
    #[error("{}: expected a file of at most {limit}, found more", path.display())]
    TooLong {
        /// The path of the file.
        path: PathBuf,
        /// The maximum length of the file.
        limit: Bytes,
    },
    /// The file has more values than any file of its kind.
    #[error("{}: expected JSON with at most {most} values, found more", path.display())]
    TooManyValues {
        /// The path of the file.
        path: PathBuf,
        /// The maximum number of values.
        most: usize,
    },
    /// Another user could change the file, or a folder of its path.
    #[error("{}: {why}", path.display())]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// Who owns it, or who may write to it.
        why: String,
    },
    /// The folder has more files of this kind than are read.
    #[error("{}: expected at most {most} files that end in .toml or .conf, found more", path.display())]
    TooManyFiles {
        /// The path of the folder.
        path: PathBuf,
        /// The maximum number of files.
        most: usize,
    },
    /// The file is not text in UTF-8.
    #[error("{}: expected text in UTF-8, found other bytes", path.display())]
    NoText {
        /// The path of the file.
        path: PathBuf,
    },
}

impl UserFileError {
    /// Whether the error is that the file does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl Advice for UserFileError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Io { .. } => "check the path and your right to read it",
            Self::WrongKind { .. } => {
                "give the path of a regular file; save what a pipe gives first"
            }
            Self::Untrusted { .. } => {
                "check its contents, then give it to root alone: chown root:root and chmod go-w"
            }
            Self::TooManyFiles { .. } => "join some of them",
            Self::TooLong { .. } | Self::TooManyValues { .. } | Self::NoText { .. } => {
                "check that it is the file you meant; this program writes none like it"
            }
        };
        Some(next.to_owned())
    }
}

/// A regular file of limited length, opened for reading.
#[derive(Debug)]
pub struct UserFile {
    path: PathBuf,
    bytes: Take<File>,
    limit: u64,
}

const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl UserFile {
    /// Opens a file, unless it is longer than `limit` bytes. Links are followed, because the user
    /// named the file.
    ///
    /// # Errors
    /// If it cannot be opened, is not a regular file, or is too long.
    pub fn open(path: &Path, limit: u64) -> Result<Self, UserFileError> {
        let opened = rustix::fs::open(path, FLAGS, Mode::empty());
        Self::check(path.to_owned(), limit, opened)
    }

    /// Opens a file in a folder that the user named. Links are not followed: they come from
    /// whoever made the folder.
    ///
    /// # Errors
    /// The errors of [`UserFile::open`].
    pub fn open_in(folder: &Path, name: &str, limit: u64) -> Result<Self, UserFileError> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty())
            .and_then(|opened| rustix::fs::openat2(opened, name, FLAGS, Mode::empty(), resolve));
        let path = folder.join(name);
        if opened.as_ref().is_err_and(|errno| *errno == Errno::LOOP) {
            return Err(UserFileError::WrongKind { path, found: "a symbolic link" });
        }
        Self::check(path, limit, opened)
    }

    /// Opens the file with the last name of `path` in an open folder. With `is_guarded`, a link is
    /// refused, and so is a file that another user owns or may write.
    ///
    /// # Errors
    /// As [`UserFile::open`], or if the file is refused.
    pub(crate) fn open_at(
        folder: BorrowedFd<'_>,
        path: PathBuf,
        limit: u64,
        is_guarded: bool,
    ) -> Result<Self, UserFileError> {
        let link = if is_guarded { OFlags::NOFOLLOW } else { OFlags::empty() };
        let name = path.file_name().unwrap_or_default();
        let opened = rustix::fs::openat(folder, name, FLAGS | link, Mode::empty());
        if is_guarded && opened.as_ref().is_err_and(|errno| *errno == Errno::LOOP) {
            return Err(UserFileError::WrongKind { path, found: "a symbolic link" });
        }
        let file = Self::check(path, limit, opened)?;
        if is_guarded {
            let stat = rustix::fs::fstat(file.bytes.get_ref());
            let stat = stat.map_err(|errno| UserFileError::Io {
                path: file.path.clone(),
                source: errno.into(),
            })?;
            let why = if !is_ours_or_roots(&stat) {
                Some(format!("it belongs to user {}", stat.st_uid))
            } else if stat.st_mode & OTHERS_WRITE != 0 {
                let mode = stat.st_mode & 0o7777;
                Some(format!("its mode is {mode:04o}: others may write to it"))
            } else {
                None
            };
            if let Some(why) = why {
                return Err(UserFileError::Untrusted { path: file.path, why });
            }
        }
        Ok(file)
    }

    fn check(
        path: PathBuf,
        limit: u64,
        opened: Result<OwnedFd, Errno>,
    ) -> Result<Self, UserFileError> {
        let stat = opened.and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        let (stat, file) = match stat {
            Ok(both) => both,
            Err(errno) => return Err(UserFileError::Io { path, source: errno.into() }),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            other => {
                return Err(UserFileError::WrongKind { path, found: kind(other) });
            }
        }
        if u64::try_from(stat.st_size).unwrap_or(0) > limit {
            return Err(UserFileError::TooLong { path, limit: Bytes::new(limit) });
        }
        let bytes = File::from(file).take(limit.saturating_add(1));
        Ok(Self { path, bytes, limit })
    }

    /// The contents of the file.
    ///
    /// # Errors
    /// If it cannot be read, or has grown beyond the limit.
    pub fn into_bytes(mut self) -> Result<Vec<u8>, UserFileError> {
        let mut bytes = Vec::new();
        match self.bytes.read_to_end(&mut bytes) {
            Err(source) => Err(UserFileError::Io { path: self.path, source }),
            Ok(_) if self.bytes.limit() == 0 => {
                Err(UserFileError::TooLong { path: self.path, limit: Bytes::new(self.limit) })
            }
            Ok(_) => Ok(bytes),
        }
    }

    /// Reads the whole file as text.
    ///
    /// # Errors
    /// The errors of [`UserFile::into_bytes`], and an error if it is not UTF-8.
    pub fn into_text(self) -> Result<String, UserFileError> {
        let path = self.path.clone();
        String::from_utf8(self.into_bytes()?).map_err(|_| UserFileError::NoText { path })
    }

    /// Reads the whole file as text, unless its JSON has more than `most` values. A parsed value
    /// can take a hundred times the memory of its text, which may be a single byte.
    ///
    /// # Errors
    /// The errors of [`UserFile::into_text`], and an error if there are more values.
    pub fn into_json(self, most: usize) -> Result<String, UserFileError> {
        let path = self.path.clone();
        let text = self.into_text()?;
        if json_values(text.as_bytes()) > most {
            return Err(UserFileError::TooManyValues { path, most });
        }
        Ok(text)
    }

    /// Whether the file begins with these bytes.
    pub fn begins_with(&self, mark: &[u8]) -> bool {
        let mut found = vec![0; mark.len()];
        let read =
            rustix::io::retry_on_intr(|| rustix::io::pread(self.bytes.get_ref(), &mut found, 0));
        read == Ok(mark.len()) && found == mark
    }

    /// The file, to be read in pieces.
    pub fn into_pieces(self) -> Pieces<'static> {
        Pieces::of_file(self.bytes.into_inner().into())
    }

    /// A reader of the file, which returns at most one byte more than the limit.
    pub fn into_reader(self) -> impl Read {
        self.bytes
    }
}

/// An upper bound of the number of values in a JSON text: of elements, of entries, and of lists and
/// objects.
#[must_use]
pub fn json_values(text: &[u8]) -> usize {
    let (mut values, mut is_text, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files that are read")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn describe(result: Result<UserFile, UserFileError>) -> String {
        result.and_then(UserFile::into_bytes).unwrap_err().to_string()
    }

    #[test]
    fn only_a_regular_file_within_its_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(UserFile::open(&at("file"), 5).unwrap().into_text().unwrap(), "12345");
        let found = |path: &Path| describe(UserFile::open(path, 4));
        assert!(found(&at("file")).ends_with("expected a file of at most 4 B, found more"));
        assert!(found(&at("pipe")).ends_with("expected a file, found a pipe"));
        assert!(found(folder.path()).ends_with("expected a file, found a folder"));
        let zero = Path::new("/dev/zero");
        assert_eq!(found(zero), "/dev/zero: expected a file, found a character device");
        assert!(UserFile::open(&at("none"), 4).unwrap_err().is_missing());
    }

    /// A file of `/proc` states a size of 0 but contains more.
    #[test]
    fn a_file_that_is_longer_than_it_says_is_refused_too() {
        let status = UserFile::open(Path::new("/proc/self/status"), 10);
        assert!(describe(status).ends_with("expected a file of at most 10 B, found more"));
    }

    #[test]
    fn links_in_a_folder_are_refused_and_those_that_were_named_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/etc/hostname", folder.path().join("link")).unwrap();
        symlink(folder.path(), folder.path().join("self")).unwrap();
        std::fs::write(folder.path().join("file"), [0xff]).unwrap();
        let inside = |name: &str| UserFile::open_in(folder.path(), name, 4096);
        for link in ["link", "self/file"] {
            assert!(
                describe(inside(link)).ends_with("expected a file, found a symbolic link"),
                "{link}"
            );
        }
        assert!(inside("../etc").is_err());
        let named = UserFile::open_in(&folder.path().join("self"), "file", 4096).unwrap();
        assert!(named.into_text().unwrap_err().to_string().contains("UTF-8"));
        assert!(UserFile::open(&folder.path().join("link"), 4096).is_ok());
    }

    #[test]
    fn values_of_json_are_counted_and_limited() {
        for (text, values) in
            [("7", 1), ("[1,2,3]", 4), (r#"{"a":{"b":[]},"c":1}"#, 5), (r#"["[{,\"[,","\\",1]"#, 4)]
        {
            assert_eq!(json_values(text.as_bytes()), values, "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "[1,2,3]").unwrap();
        let read = |most| UserFile::open(&path, 100).and_then(|file| file.into_json(most));
        assert_eq!(read(4).unwrap(), "[1,2,3]");
        let error = read(3).unwrap_err().to_string();
        assert!(error.ends_with("expected JSON with at most 3 values, found more"), "{error}");
    }
}
