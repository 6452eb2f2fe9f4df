// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folders and files that several parts of the lab need: what lies below a folder, where things that pass
//! may lie on a disk, and a file of which nothing is left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::{At, Error};

/// The regular files below a folder. Links are not followed.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let kind = entry.file_type().at(&folder)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// A folder for us alone, with the parents that are missing.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).at(path)
}

/// Writes a file that we alone may write, whatever the umask, in place of what is there.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut open = OpenOptions::new();
    open.write(true).create_new(true).mode(mode & !0o022);
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    removed.and_then(|()| open.open(path)?.write_all(bytes)).at(path)
}

/// A folder for things that pass, on a file system that is no memory: /tmp is memory on many machines.
pub(crate) fn on_disk() -> Option<PathBuf> {
    let folders = ["/var/tmp", "/tmp"].map(PathBuf::from);
    folders.into_iter().find(|folder| {
        rustix::fs::statfs(folder).is_ok_and(|stat| !IN_MEMORY.contains(&i128::from(stat.f_type)))
    })
}

/// tmpfs and ramfs, by the kernel's `linux/magic.h`.
const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];

/// A file without a name, of which nothing is left however we end. Where the file system knows none of
/// those, its name is removed at once.
pub(crate) fn nameless(folder: &Path) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).mode(0o600);
    let flag = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or(0);
    open.clone().custom_flags(flag).open(folder).or_else(|_| {
        let path = folder.join(format!("pagewise-{}", std::process::id()));
        let file = open.create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_a_disk_is_on_no_file_system_in_memory() {
        if let Some(folder) = on_disk() {
            let stat = rustix::fs::statfs(&folder).unwrap();
            assert!(!IN_MEMORY.contains(&i128::from(stat.f_type)));
        }
        let memory = rustix::fs::statfs("/dev/shm");
        assert!(memory.is_ok_and(|stat| IN_MEMORY.contains(&i128::from(stat.f_type))));
    }

    #[test]
    fn a_nameless_file_is_not_to_be_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = nameless(folder.path()).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert!(below(folder.path()).unwrap().is_empty());
    }
}
