// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers for files and folders: listing what lies below a folder, private files and folders, and
//! where temporary files can be kept on a disk.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorContext};

/// The regular files below a folder. Links are not followed.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_path(&folder)? {
            let entry = entry.with_path(&folder)?;
            let kind = entry.file_type().with_path(&folder)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Makes a folder that only this user can enter; makes missing parents too.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).with_path(path)
}

/// Writes a file, replacing one that exists. Neither group nor others may write to it, whatever
/// `mode` and the umask allow.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut open = OpenOptions::new();
    open.write(true).create_new(true).mode(mode & !0o022);
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    removed.and_then(|()| open.open(path)?.write_all(bytes)).with_path(path)
}

/// Removes a folder with its contents; it is not an error if the folder does not exist.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_path(folder),
        _ => Ok(()),
    }
}

/// A hash in lower-case hexadecimal digits, as `sha256sum` prints it.
pub(crate) fn hex_digits(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A folder for temporary files on a disk: on many machines /tmp is a tmpfs and so takes memory.
#[must_use]
pub fn find_folder_on_disk() -> Option<PathBuf> {
    let folders = ["/var/tmp", "/tmp"].map(PathBuf::from);
    folders.into_iter().find(|folder| {
        rustix::fs::statfs(folder).is_ok_and(|stat| !IN_MEMORY.contains(&i128::from(stat.f_type)))
    })
}

/// File system types that keep files in memory: magic numbers of tmpfs and ramfs, from the kernel's
/// `linux/magic.h`.
const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_a_disk_is_on_no_file_system_in_memory() {
        if let Some(folder) = find_folder_on_disk() {
            let stat = rustix::fs::statfs(&folder).unwrap();
            assert!(!IN_MEMORY.contains(&i128::from(stat.f_type)));
        }
        let memory = rustix::fs::statfs("/dev/shm");
        assert!(memory.is_ok_and(|stat| IN_MEMORY.contains(&i128::from(stat.f_type))));
    }
}
