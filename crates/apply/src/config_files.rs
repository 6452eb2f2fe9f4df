// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads, writes and removes configuration files below `/etc`, for `live.rs`.
//!
//! No symbolic link is followed, neither in the last part of a path nor before it: otherwise a user
//! who may change one folder of the path could make root write anywhere. Each call opens the folder
//! again and works relative to its file descriptor.
//!
//! A file is written under a temporary name, synced, and renamed: a power cut leaves the old
//! contents or the new.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, StatVfsMountFlags, Uid,
    XattrFlags, fchmod, fchown, fgetxattr, fsetxattr, fstat, fstatvfs, mkdirat, openat, openat2,
    readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use pagewise_model::plan::config_mode;

use crate::host_ops::{Config, Staged};
use crate::journal::FileText;

/// Length limit of a configuration file that is read, in bytes.
pub(crate) const MAX_CONFIG: usize = 256 << 10;

const LABEL: &str = "security.selinux";
/// Length limit of an SELinux context that is read, in bytes; a context is a few words.
const MAX_LABEL: usize = 4096;
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ETC: &str = "/etc";

/// The folder used as `/etc`. Only a debug build can replace it, for tests.
fn etc_folder() -> std::path::PathBuf {
    #[cfg(debug_assertions)]
    if let Some(folder) = std::env::var_os("PAGEWISE_TEST_ETC") {
        return folder.into();
    }
    ETC.into()
}

/// Opens a folder below `/etc` by its path.
fn open_folder(path: &str) -> io::Result<OwnedFd> {
    let below = path.strip_prefix(ETC).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let below = below.ok_or_else(|| io::Error::other(format!("{path} is not below {ETC}")))?;
    let etc = rustix::fs::open(etc_folder(), PASS | OFlags::NOFOLLOW, Mode::empty())?;
    let below = below.trim_matches('/');
    if below.is_empty() {
        return Ok(etc);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(etc, below, PASS, Mode::empty(), resolve).map_err(|errno| match errno {
        Errno::LOOP => {
            io::Error::new(ErrorKind::InvalidInput, format!("{path} leads through a symbolic link"))
        }
        other => other.into(),
    })
}

fn open_parent(path: &str) -> io::Result<(OwnedFd, &str)> {
    let wrong = || io::Error::from(ErrorKind::InvalidInput);
    let (folder, name) = path.rsplit_once('/').ok_or_else(wrong)?;
    Ok((open_folder(folder)?, name))
}

/// Reads the file, link or folder at this path; a link is not followed.
pub(crate) fn read(path: &str) -> io::Result<Config> {
    let (folder, name) = match open_parent(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Config::Missing),
        opened => opened?,
    };
    let found = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Config::Missing),
        found => found?,
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => read_file(&folder, name),
        FileType::Symlink => {
            let to = readlinkat(&folder, name, Vec::new())?;
            Ok(match to.into_string() {
                Ok(to) => Config::Link(to),
                Err(_) => Config::Other("a link whose target is not UTF-8".to_owned()),
            })
        }
        FileType::Directory => Ok(Config::Folder),
        _ => Ok(Config::Other("neither a file nor a link".to_owned())),
    }
}

fn read_file(folder: &OwnedFd, name: &str) -> io::Result<Config> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    let stat: Stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Config::Other("it changed while it was read".to_owned()));
    }
    let label = label(&file);
    let mut bytes = Vec::new();
    File::from(file).take(MAX_CONFIG as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_CONFIG {
        return Ok(Config::Other(format!("a file of more than {MAX_CONFIG} bytes")));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => {
            let mode = stat.st_mode & 0o7777;
            Config::File(FileText { text, mode, user: stat.st_uid, group: stat.st_gid, label })
        }
        Err(_) => Config::Other("a file that is not UTF-8 text".to_owned()),
    })
}

/// The SELinux context of a file; `None` if the file system stores none.
fn label(file: &OwnedFd) -> Option<String> {
    let mut bytes = vec![0; MAX_LABEL];
    let length = fgetxattr(file, LABEL, &mut bytes[..]).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

/// Fails if the folder, or the nearest existing one above it, is not writable.
pub(crate) fn check_writable(folder: &str) -> io::Result<()> {
    let mut path = folder;
    loop {
        match open_folder(path) {
            Ok(open) => {
                let is_read_only = fstatvfs(&open)?.f_flag.contains(StatVfsMountFlags::RDONLY);
                return if is_read_only {
                    Err(ErrorKind::ReadOnlyFilesystem.into())
                } else {
                    Ok(())
                };
            }
            Err(error) if error.kind() == ErrorKind::NotFound && path.len() > ETC.len() => {
                path = path.rsplit_once('/').map_or(ETC, |(above, _)| above);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Creates a configuration file or link under a temporary name; fails if the name exists.
pub(crate) fn stage(path: &str, staged: Staged<'_>) -> io::Result<()> {
    let (folder, name) = open_parent(path)?;
    let (text, like) = match staged {
        Staged::Link { to } => return Ok(symlinkat(to, &folder, name)?),
        Staged::File { text, like } => (text, like),
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    if let Some(like) = like {
        fchown(&file, Some(Uid::from_raw(like.user)), Some(Gid::from_raw(like.group)))?;
        if let Some(label) = &like.label {
            fsetxattr(&file, LABEL, label.as_bytes(), XattrFlags::empty())?;
        }
    }
    fchmod(&file, Mode::from_raw_mode(like.map_or(config_mode(path), |like| like.mode)))?;
    File::from(file).write_all(text.as_bytes())
}

pub(crate) fn sync_file(path: &str) -> io::Result<()> {
    let (folder, name) = open_parent(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    File::from(openat(&folder, name, flags, Mode::empty())?).sync_all()
}

/// Renames a file within one folder.
pub(crate) fn rename(from: &str, to: &str) -> io::Result<()> {
    let (folder, name) = open_parent(to)?;
    let staged = from.rsplit('/').next().unwrap_or(from);
    Ok(renameat(&folder, staged, &folder, name)?)
}

pub(crate) fn sync_folder(path: &str) -> io::Result<()> {
    let folder = open_folder(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    File::from(openat(&folder, ".", flags, Mode::empty())?).sync_all()
}

pub(crate) fn remove(path: &str) -> io::Result<()> {
    let (folder, name) = open_parent(path)?;
    Ok(unlinkat(&folder, name, AtFlags::empty())?)
}

pub(crate) fn make_folder(path: &str) -> io::Result<()> {
    let (folder, name) = open_parent(path)?;
    mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
    // mode as given, whatever the umask of this process: other users must be able to read the
    // configuration
    let made = openat(
        &folder,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    Ok(fchmod(made, Mode::from_raw_mode(0o755))?)
}

pub(crate) fn remove_folder(path: &str) -> io::Result<()> {
    let (folder, name) = open_parent(path)?;
    Ok(unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
}

/// The hash of `/etc/machine-id`, which identifies this machine in plans. The test folder does not
/// replace this file.
pub(crate) fn machine_id_hash() -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, "/etc/machine-id", flags, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(file).take(64).read_to_string(&mut text).ok()?;
    pagewise_observe::machine_id_hash(&text)
}
