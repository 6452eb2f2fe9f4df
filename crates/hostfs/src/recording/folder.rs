// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a folder with `host.toml` into [`Parts`].
//!
//! The folder may be hostile: nothing is opened through a symbolic link or outside of the folder
//! (`openat2`), and only regular files are opened for reading, because opening a device can have
//! effects.

use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::limits::{MAX_DEPTH, MAX_FILE, refused_path};
use super::manifest::FILE;
use super::parts::{Full, Parts};
use crate::kind::kind;

/// Whether the folder of a recording contains an entry `name`.
pub(super) fn has_entry(folder: &OwnedFd, name: &str) -> bool {
    open_beneath(folder, name, OFlags::PATH).is_ok()
}

/// Reads everything that a recording may contain.
pub(super) fn load(folder: &OwnedFd) -> Parts {
    let mut parts = Parts::default();
    for name in [FILE, "start", "end"] {
        if visit(folder, name, 0, &mut parts).is_err() {
            break;
        }
    }
    parts
}

fn visit(root: &OwnedFd, path: &str, depth: usize, parts: &mut Parts) -> Result<(), Full> {
    let file_type = match type_of(root, path) {
        Ok(file_type) => file_type,
        // a recording of one time has no folder `start`
        Err(Errno::NOENT) if depth == 0 => return Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => return parts.deny(path),
        Err(errno) => {
            parts.trouble(
                path,
                "a file that can be read",
                &std::io::Error::from(errno).to_string(),
            );
            return Ok(());
        }
    };
    parts.count()?;
    match file_type {
        FileType::Directory if depth < MAX_DEPTH => visit_folder(root, path, depth, parts),
        FileType::RegularFile => take_file(root, path, parts),
        other => {
            parts.trouble(path, "a plain file or folder, at most 64 deep", kind(other));
            Ok(())
        }
    }
}

fn visit_folder(root: &OwnedFd, path: &str, depth: usize, parts: &mut Parts) -> Result<(), Full> {
    let opened = open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY).and_then(Dir::new);
    let entries = match opened {
        Ok(entries) => entries,
        Err(Errno::ACCESS | Errno::PERM) => return parts.deny(path),
        Err(errno) => {
            let found = std::io::Error::from(errno).to_string();
            parts.trouble(path, "a folder that can be listed", &found);
            return Ok(());
        }
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
    for name in names.filter(|name| name != b"." && name != b"..") {
        let Ok(name) = std::str::from_utf8(&name) else {
            parts.trouble(path, "names in UTF-8", "a name that is not");
            continue;
        };
        let inner = format!("{path}/{name}");
        match refused_path(&inner) {
            Some(found) => parts.trouble(&inner, "a path of a recording", found),
            None => visit(root, &inner, depth + 1, parts)?,
        }
    }
    Ok(())
}

fn take_file(root: &OwnedFd, path: &str, parts: &mut Parts) -> Result<(), Full> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut bytes = Vec::new();
    let read = open_beneath(root, path, flags).map_err(std::io::Error::from).and_then(|file| {
        std::fs::File::from(file).take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)
    });
    match read {
        Ok(_) => parts.take(path, bytes),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => parts.deny(path),
        Err(error) => {
            parts.trouble(path, "a file that can be read", &error.to_string());
            Ok(())
        }
    }
}

fn type_of(root: &OwnedFd, path: &str) -> Result<FileType, Errno> {
    let opened = open_beneath(root, path, OFlags::PATH | OFlags::NOFOLLOW)?;
    Ok(FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode))
}

fn open_beneath(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    // NO_SYMLINKS would also refuse a link at the end of the path that is opened only to be
    // examined.
    let resolve = if flags.contains(OFlags::NOFOLLOW) {
        ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS
    } else {
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS
    };
    rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}
