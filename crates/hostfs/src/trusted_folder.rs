// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a folder that only we and root can change, and keeps it open.
//!
//! The contents of such a folder are trusted: kernels, apt's settings and busybox in lab's cache
//! are executed, and journals name files that are written, as root if root runs us. So each part of
//! the path, from `/` on, is opened relative to the part before it, and must belong to us or to
//! root and be writable by nobody else. A folder like /tmp (root's, with the sticky bit) is allowed
//! before the last part: only the owner of an entry in it can replace that entry. Symbolic links
//! are read and followed here, under the same rules.
//!
//! An owner that has no id in this user namespace counts as another user. Nothing is written here:
//! a caller that may create folders passes the function that creates them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Maximum number of symbolic links in a path that are followed, as in the kernel.
pub(crate) const LINKS: usize = 40;
pub(crate) const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Flags for opening a part of a path only to continue from it.
pub(crate) const PASS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A function that creates a folder of this name in an open folder, accessible only to us.
pub type MakeFolder = fn(BorrowedFd<'_>, &OsStr) -> rustix::io::Result<()>;

/// Why a folder cannot be used as a [`TrustedFolder`].
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A part of the path could not be opened or created.
    #[error("{}", path.display())]
    At {
        /// The part of the path, with the parts before it.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another user could change what is in the folder.
    #[error("{}: {why}", path.display())]
    Untrusted {
        /// The folder that another user could change: the one to open, or one above it.
        path: PathBuf,
        /// Who owns that folder, or who may write to it.
        why: String,
    },
}

/// An open folder that only we and root can change: it stays the same one even if its path is
/// changed.
#[derive(Debug)]
pub struct TrustedFolder {
    handle: OwnedFd,
    path: PathBuf,
}

impl TrustedFolder {
    /// Opens the folder at this path, and creates it and its missing parents.
    ///
    /// # Errors
    /// If it cannot be opened or created, or another user could change it.
    pub fn open_or_make(path: &Path, make: MakeFolder) -> Result<Self, FolderError> {
        let path = std::path::absolute(path).map_err(|source| with_path(path, source))?;
        Self::root()?.walk(&path, make, PathPosition::Last)
    }

    /// Opens an existing folder to read what another user wrote there, as root: for contents that
    /// nobody trusts. If another user can change the path, no part of it may be a link.
    ///
    /// # Errors
    /// If it is missing, or there is a link in a path that another user can change.
    pub fn open_untrusted(path: &Path) -> Result<Self, FolderError> {
        match Self::open(path) {
            Err(FolderError::Untrusted { .. }) => {}
            opened => return opened,
        }
        let flags = PASS | OFlags::DIRECTORY;
        let links = rustix::fs::ResolveFlags::NO_SYMLINKS;
        let handle = rustix::fs::openat2(CWD, path, flags, Mode::empty(), links);
        let handle = handle.map_err(|errno| with_path(path, errno))?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// Opens an existing folder that only we and root can change.
    ///
    /// # Errors
    /// If it is missing, or another user could change it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        Self::open_or_make(path, |_, _| Err(Errno::NOENT))
    }

    /// Opens an existing folder in which no other user can replace our entries. Others may create
    /// entries of their own there if it is like /tmp (root's, with the sticky bit).
    ///
    /// # Errors
    /// If it is missing, or another user could replace our entries.
    pub fn open_for_entries(path: &Path) -> Result<Self, FolderError> {
        let path = std::path::absolute(path).map_err(|source| with_path(path, source))?;
        Self::root()?.walk(&path, |_, _| Err(Errno::NOENT), PathPosition::Between)
    }

    /// Opens a folder below this one, and creates it if it is missing.
    ///
    /// # Errors
    /// The errors of [`TrustedFolder::open_or_make`].
    pub fn open_subfolder(&self, name: &str, make: MakeFolder) -> Result<Self, FolderError> {
        let handle = self.handle.try_clone().map_err(|source| with_path(&self.path, source))?;
        Self { handle, path: self.path.clone() }.walk(Path::new(name), make, PathPosition::Last)
    }

    /// Opens an existing folder in this one; the name must not be that of a link.
    ///
    /// # Errors
    /// If it is missing or a link, or another user could change it.
    pub fn child(&self, name: &str) -> Result<Self, FolderError> {
        let path = self.path.join(name);
        let flags = PASS | OFlags::DIRECTORY;
        let handle = rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        let folder = Self { handle: handle.map_err(|errno| with_path(&path, errno))?, path };
        folder.check(PathPosition::Last)?;
        Ok(folder)
    }

    /// The open folder, for system calls that take a name in it.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// The path of the folder, with links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file below this folder that no user can change but us, root and the owner of
    /// this folder, on a path without links.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn open_file(&self, below: &Path) -> io::Result<File> {
        let mut names = Vec::new();
        for part in below.components() {
            let Component::Normal(name) = part else { return Err(Errno::INVAL.into()) };
            names.push(name);
        }
        let last = names.pop().ok_or(Errno::INVAL)?;
        let mut folder = self.handle.try_clone()?;
        for name in names {
            let flags = PASS | OFlags::DIRECTORY;
            folder = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, last, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let owner = rustix::fs::fstat(&self.handle)?.st_uid;
        let is_trusted = is_ours_or_roots(&stat) || stat.st_uid == owner;
        if is_regular && is_trusted && stat.st_mode & OTHERS_WRITE == 0 {
            return Ok(file.into());
        }
        let what = "expected a regular file that nobody else owns or may write";
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    fn root() -> Result<Self, FolderError> {
        let path = PathBuf::from("/");
        let flags = PASS | OFlags::DIRECTORY;
        let handle = rustix::fs::openat(CWD, &path, flags, Mode::empty());
        let root = Self { handle: handle.map_err(|errno| with_path(&path, errno))?, path };
        root.check(PathPosition::Between)?;
        Ok(root)
    }

    /// Follows a path from this folder, or from the root if it is absolute.
    fn walk(self, path: &Path, make: MakeFolder, last: PathPosition) -> Result<Self, FolderError> {
        let mut here = self;
        let mut waiting = parts(path);
        let mut links = 0;
        while let Some(part) = waiting.pop() {
            match here.step(&part, make)? {
                Step::Into(folder) => here = folder,
                Step::Link(target) if links < LINKS => {
                    links += 1;
                    waiting.extend(parts(&target));
                }
                Step::Link(_) => return Err(with_path(path, Errno::LOOP)),
            }
        }
        here.check(last)?;
        Ok(here)
    }

    fn step(&self, part: &OsStr, make: MakeFolder) -> Result<Step, FolderError> {
        if part == "/" {
            return Self::root().map(Step::Into);
        }
        let mut path = self.path.clone();
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
        let handle = self.open_part(part, make).map_err(|errno| with_path(&path, errno))?;
        let stat = rustix::fs::fstat(&handle).map_err(|errno| with_path(&path, errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let folder = Self { handle, path };
                folder.check(PathPosition::Between)?;
                Ok(Step::Into(folder))
            }
            FileType::Symlink => {
                if !is_ours_or_roots(&stat) {
                    let why = format!("it is a link of user {}", stat.st_uid);
                    return Err(FolderError::Untrusted { path, why });
                }
                let target = rustix::fs::readlinkat(&handle, "", Vec::new());
                let target = target.map_err(|errno| with_path(&path, errno))?;
                Ok(Step::Link(OsString::from_vec(target.into_bytes()).into()))
            }
            _ => Err(with_path(&path, Errno::NOTDIR)),
        }
    }

    /// Opens the entry of this name in the folder, even if the entry is a link; if it does not
    /// exist, a folder is created.
    fn open_part(&self, name: &OsStr, make: MakeFolder) -> rustix::io::Result<OwnedFd> {
        match rustix::fs::openat(&self.handle, name, PASS, Mode::empty()) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        match make(self.handle.as_fd(), name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        rustix::fs::openat(&self.handle, name, PASS, Mode::empty())
    }

    fn check(&self, place: PathPosition) -> Result<(), FolderError> {
        let stat = rustix::fs::fstat(&self.handle).map_err(|errno| with_path(&self.path, errno))?;
        let us = rustix::process::geteuid().as_raw();
        match why_unsafe(stat.st_uid, stat.st_mode & 0o7777, us, place) {
            Some(why) => Err(FolderError::Untrusted { path: self.path.clone(), why }),
            None => Ok(()),
        }
    }
}

fn with_path(path: &Path, source: impl Into<io::Error>) -> FolderError {
    FolderError::At { path: path.to_owned(), source: source.into() }
}

/// The position of a folder in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathPosition {
    Between,
    Last,
}

enum Step {
    Into(TrustedFolder),
    Link(PathBuf),
}

/// The parts of a path, the first part last.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

pub(crate) fn is_ours_or_roots(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Why a user other than `us` and root could change what is in a folder; `None` if no other can.
fn why_unsafe(owner: u32, mode: u32, us: u32, place: PathPosition) -> Option<String> {
    if owner != 0 && owner != us {
        return Some(format!("it belongs to user {owner}, and we run as user {us}"));
    }
    let is_like_tmp = owner == 0 && mode & STICKY != 0 && place == PathPosition::Between;
    (mode & OTHERS_WRITE != 0 && !is_like_tmp)
        .then(|| format!("its mode is {mode:04o}: others may write there"))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the folders that they look at")]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn make(below: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::mkdirat(below, name, Mode::RWXU)
    }

    fn open_or_make(path: &Path) -> Result<TrustedFolder, FolderError> {
        TrustedFolder::open_or_make(path, make)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn only_ours_and_roots_folders_that_others_cannot_write_are_taken() {
        for (owner, mode, us, between, last) in [
            (0, 0o755, 0, true, true),
            (0, 0o755, 1000, true, true),
            (1000, 0o755, 1000, true, true),
            (1000, 0o700, 0, false, false),
            (65534, 0o755, 0, false, false),
            (0, 0o775, 0, false, false),
            (0, 0o757, 0, false, false),
            (1000, 0o1777, 1000, false, false),
            (0, 0o1777, 0, true, false),
            (0, 0o1777, 1000, true, false),
        ] {
            let is_taken = |place| why_unsafe(owner, mode, us, place).is_none();
            let found = (is_taken(PathPosition::Between), is_taken(PathPosition::Last));
            assert_eq!(found, (between, last), "{owner} {mode:o} as {us}");
        }
    }

    #[test]
    fn a_folder_is_made_for_us_alone_and_again_is_the_same() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        let made = open_or_make(&path).unwrap();
        assert_eq!((mode(&path), mode(&top.path().join("a"))), (0o700, 0o700));
        assert_eq!(open_or_make(&path).unwrap().path(), made.path());
        assert_eq!(made.open_subfolder("c", make).unwrap().path(), made.path().join("c"));
        assert!(made.child("c").is_ok() && made.child("d").is_err());
    }

    #[test]
    fn a_folder_or_a_parent_that_others_may_write_is_refused_and_named() {
        let top = tempfile::tempdir().unwrap();
        let (open, inner) = (top.path().join("open"), top.path().join("open/a/cache"));
        fs::create_dir_all(&inner).unwrap();
        set_mode(&open, 0o777);
        for path in [&inner, &open] {
            let text = open_or_make(path).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{}: its mode is 0777", open.display())), "{text}");
        }
        // Nothing was created on the way.
        assert!(open_or_make(&open.join("new/cache")).is_err() && !open.join("new").exists());
    }

    #[test]
    fn links_are_followed_to_folders_that_are_as_safe() {
        let top = tempfile::tempdir().unwrap();
        let (real, open) = (top.path().join("real"), top.path().join("open"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        for (link, target) in [
            ("absolute", real.as_os_str()),
            ("relative", "../x/../real".as_ref()),
            ("unsafe", open.as_os_str()),
            ("endless", "endless".as_ref()),
        ] {
            fs::create_dir_all(top.path().join("x")).unwrap();
            symlink(target, top.path().join("x").join(link)).unwrap();
        }
        let top = open_or_make(&top.path().join("x")).unwrap();
        for name in ["absolute", "relative"] {
            assert_eq!(
                top.open_subfolder(name, make).unwrap().path(),
                real.canonicalize().unwrap()
            );
            assert!(top.child(name).is_err(), "{name} is a link");
        }
        assert!(matches!(top.open_subfolder("unsafe", make), Err(FolderError::Untrusted { .. })));
        assert!(top.open_subfolder("endless", make).is_err());
    }

    #[test]
    fn a_file_is_opened_without_links_and_only_if_it_is_ours_alone() {
        let top = tempfile::tempdir().unwrap();
        let folder = open_or_make(&top.path().join("cache")).unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("a")).unwrap();
        for name in ["a/file", "a/open"] {
            fs::write(path(name), b"contents").unwrap();
            set_mode(&path(name), 0o644);
        }
        set_mode(&path("a/open"), 0o646);
        symlink("a", path("link")).unwrap();
        symlink("file", path("a/link")).unwrap();
        rustix::fs::mknodat(CWD, path("a/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(folder.open_file(Path::new("a/file")).is_ok());
        for name in
            ["a/open", "a/link", "link/file", "a/fifo", "a", "../cache/a/file", "/etc/passwd", ""]
        {
            assert!(folder.open_file(Path::new(name)).is_err(), "{name}");
        }
    }
}
