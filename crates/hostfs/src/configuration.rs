// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a configuration file and its drop-ins: for root, only such that no other user can change.
//!
//! Root does what the files say. So the folders must be [`TrustedFolder`]s, and each file must be
//! root's own and writable by nobody else; a link is refused. Other users can read any file here,
//! for example to check a draft: they can do no more than their own rights allow. Files are opened
//! in an open folder, so that no folder of the path can be replaced in between.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags};

use crate::trusted_folder::{FolderError, TrustedFolder};
use crate::trusted_program::acts_as_root;
use crate::user_file::{UserFile, UserFileError};

/// Endings of the names of drop-ins.
const ENDINGS: [&[u8]; 2] = [b".toml", b".conf"];

/// A configuration file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationFile {
    /// Its path.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

/// How many configuration files are read, and how long they may be.
#[derive(Debug, Clone, Copy)]
pub struct ConfigurationLimits {
    /// Maximum length of a file in bytes.
    pub bytes: u64,
    /// Maximum number of drop-ins.
    pub drop_ins: usize,
}

/// Reads the file `main`, and then the files in the folder `MAIN.d` whose names end in `.toml` or
/// `.conf`, in the order of their names. The folder may be missing, and `main` as well unless
/// `is_required`.
///
/// # Errors
/// If a file cannot be read, or, for root, if another user can change it.
pub fn read_configuration(
    main: &Path,
    is_required: bool,
    limits: ConfigurationLimits,
) -> Result<Vec<ConfigurationFile>, UserFileError> {
    read_as(main, is_required, limits, acts_as_root())
}

fn read_as(
    main: &Path,
    is_required: bool,
    limits: ConfigurationLimits,
    is_guarded: bool,
) -> Result<Vec<ConfigurationFile>, UserFileError> {
    let main = std::path::absolute(main).map_err(|source| io(main, source))?;
    let (Some(above), Some(name)) = (main.parent(), main.file_name()) else {
        return Err(UserFileError::WrongKind { path: main, found: "a folder" });
    };
    let mut files = Vec::new();
    let read = Folder::open(above, is_guarded).and_then(|folder| folder.read(name, limits.bytes));
    match read {
        Err(error) if !is_required && error.is_missing() => {}
        read => files.push(read?),
    }
    let mut drop_ins = main.clone().into_os_string();
    drop_ins.push(".d");
    let folder = match Folder::open(Path::new(&drop_ins), is_guarded) {
        Err(error) if error.is_missing() => return Ok(files),
        folder => folder?,
    };
    for name in folder.drop_ins(limits.drop_ins)? {
        files.push(folder.read(&name, limits.bytes)?);
    }
    Ok(files)
}

struct Folder {
    handle: FolderHandle,
    path: PathBuf,
}

enum FolderHandle {
    /// A folder that no other user can change.
    Guarded(TrustedFolder),
    Any(OwnedFd),
}

impl Folder {
    fn open(path: &Path, is_guarded: bool) -> Result<Self, UserFileError> {
        let handle = if is_guarded {
            FolderHandle::Guarded(TrustedFolder::open(path).map_err(describe)?)
        } else {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(CWD, path, flags, Mode::empty());
            FolderHandle::Any(opened.map_err(|errno| io(path, errno))?)
        };
        Ok(Self { handle, path: path.to_owned() })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.handle {
            FolderHandle::Guarded(folder) => folder.handle(),
            FolderHandle::Any(handle) => handle.as_fd(),
        }
    }

    fn read(&self, name: &OsStr, limit: u64) -> Result<ConfigurationFile, UserFileError> {
        let path = self.path.join(name);
        let is_guarded = matches!(self.handle, FolderHandle::Guarded(_));
        let file = UserFile::open_at(self.fd(), path.clone(), limit, is_guarded)?;
        Ok(ConfigurationFile { path, text: file.into_text()? })
    }

    /// The names of the drop-ins in their order.
    fn drop_ins(&self, most: usize) -> Result<Vec<OsString>, UserFileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(self.fd(), ".", flags, Mode::empty());
        let entries = opened.and_then(Dir::new).map_err(|errno| io(&self.path, errno))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|errno| io(&self.path, errno))?;
            let name = entry.file_name().to_bytes();
            if name.starts_with(b".") || !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                continue;
            }
            if names.len() == most {
                return Err(UserFileError::TooManyFiles { path: self.path.clone(), most });
            }
            names.push(OsStr::from_bytes(name).to_owned());
        }
        names.sort();
        Ok(names)
    }
}

fn io(path: &Path, source: impl Into<std::io::Error>) -> UserFileError {
    UserFileError::Io { path: path.to_owned(), source: source.into() }
}

fn describe(error: FolderError) -> UserFileError {
    match error {
        FolderError::At { path, source } => UserFileError::Io { path, source },
        FolderError::Untrusted { path, why } => UserFileError::Untrusted { path, why },
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    const LIMITS: ConfigurationLimits = ConfigurationLimits { bytes: 100, drop_ins: 3 };

    struct Place {
        _folder: tempfile::TempDir,
        main: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let main = folder.path().join("a.toml");
            let place = Self { _folder: folder, main };
            fs::create_dir(place.drop_in("")).unwrap();
            place.write(&place.main, "main");
            place
        }

        fn drop_in(&self, name: &str) -> PathBuf {
            self.main.with_extension("toml.d").join(name)
        }

        fn write(&self, path: &Path, text: &str) {
            fs::write(path, text).unwrap();
            set_mode(path, 0o644);
        }

        fn texts(&self, is_guarded: bool) -> Result<Vec<String>, String> {
            let read = read_as(&self.main, true, LIMITS, is_guarded);
            let read = read.map_err(|error| error.to_string())?;
            Ok(read.into_iter().map(|file| file.text).collect())
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn drop_ins_follow_the_main_file_in_the_order_of_their_names() {
        let place = Place::new();
        for name in ["20.conf", "10.toml", ".30.toml", "40.toml.bak"] {
            place.write(&place.drop_in(name), name);
        }
        for is_guarded in [false, true] {
            assert_eq!(place.texts(is_guarded).unwrap(), ["main", "10.toml", "20.conf"]);
        }
        fs::remove_file(&place.main).unwrap();
        assert!(place.texts(true).is_err());
        assert_eq!(read_as(&place.main, false, LIMITS, true).unwrap().len(), 2);
        let none = place.main.with_file_name("none/a.toml");
        assert_eq!(read_as(&none, false, LIMITS, true).unwrap(), []);
    }

    #[test]
    fn limits_hold() {
        let place = Place::new();
        for name in ["1.toml", "2.toml", "3.toml"] {
            place.write(&place.drop_in(name), name);
        }
        assert_eq!(place.texts(true).unwrap().len(), 4);
        place.write(&place.drop_in("4.toml"), "");
        assert!(place.texts(true).unwrap_err().contains("at most 3 files"));
        fs::remove_file(place.drop_in("4.toml")).unwrap();
        place.write(&place.main, &"x".repeat(101));
        assert!(place.texts(true).unwrap_err().contains("at most 100 B"));
    }

    /// What root refuses, another user can read.
    #[test]
    fn root_refuses_what_others_can_change() {
        let place = Place::new();
        let drop_in = place.drop_in("10.toml");
        place.write(&drop_in, "drop-in");
        let refused = |expected: &str| {
            let error = place.texts(true).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert_eq!(place.texts(false).unwrap(), ["main", "drop-in"]);
        };
        set_mode(&drop_in, 0o664);
        refused("10.toml: its mode is 0664: others may write to it");
        set_mode(&drop_in, 0o644);
        set_mode(&place.drop_in(""), 0o775);
        refused("a.toml.d: its mode is 0775: others may write there");
        set_mode(&place.drop_in(""), 0o755);
        let elsewhere = place.main.with_file_name("elsewhere");
        fs::rename(&drop_in, &elsewhere).unwrap();
        symlink(&elsewhere, &drop_in).unwrap();
        refused("10.toml: expected a file, found a symbolic link");
        fs::rename(&elsewhere, &drop_in).unwrap();
        let above = place.main.parent().unwrap();
        set_mode(above, 0o777);
        refused("its mode is 0777: others may write there");
        set_mode(above, 0o700);
        assert_eq!(place.texts(true).unwrap(), ["main", "drop-in"]);
    }

    /// Only root can give files away; the test has no meaning for others.
    #[test]
    fn root_refuses_files_and_folders_of_another_user() {
        let place = Place::new();
        if !acts_as_root() {
            return;
        }
        for path in [place.main.clone(), place.drop_in("")] {
            chown(&path, Some(4242), None).unwrap();
            let error = place.texts(true).unwrap_err();
            assert!(error.contains("belongs to user 4242"), "{error}");
            chown(&path, Some(0), None).unwrap();
        }
        place.texts(true).unwrap();
    }
}
