// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies the cached disk of a userland for one guest that is kept from boot to boot; and reads the
//! state that the superblock of the copy shows after a boot.
//!
//! The copy shares blocks with the cached disk (reflink) if the file system supports that;
//! otherwise the data is copied, and holes stay holes. A guest is not trusted, so the host reads
//! only three fields of the superblock of its disk, and does not mount or check the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{SeekFrom, ioctl_ficlone, seek};
use rustix::io::Errno;

use super::outcome::DiskState;
use crate::error::{Error, ErrorContext};

/// Copies the cached disk; `to` must not exist.
pub(super) fn copy(from: &File, to: &Path) -> Result<(), Error> {
    let mut open = File::options();
    let copy = open.read(true).write(true).create_new(true).mode(0o600).open(to).with_path(to)?;
    if ioctl_ficlone(&copy, from).is_ok() {
        return Ok(());
    }
    copy_data(from, &copy).with_path(to)
}

/// Copies the data between the holes of a file.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    while at < length {
        let start = match seek(from, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(()),
            found => found?,
        };
        let end = seek(from, SeekFrom::Hole(start))?;
        copy_range(from, to, start, end)?;
        at = end;
    }
    Ok(())
}

/// Copies through a buffer, because `copy_file_range` does not work between all file systems.
fn copy_range(from: &File, to: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
        from.read_exact_at(&mut piece[..length], at)?;
        to.write_all_at(&piece[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// Reads the state of the ext4 file system from its superblock.
pub(super) fn read_state(disk: &Path) -> Result<DiskState, Error> {
    let mut superblock = [0; 0x100];
    let file = File::open(disk).with_path(disk)?;
    match file.read_exact_at(&mut superblock, 1024) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(DiskState::Unknown),
        read => read.with_path(disk).map(|()| state_of(&superblock)),
    }
}

/// State of an ext4 file system by `s_magic`, `s_state` (0x2: errors) and `s_feature_incompat`
/// (0x4: the journal must be replayed).
fn state_of(superblock: &[u8; 0x100]) -> DiskState {
    let half = |at: usize| u16::from_le_bytes([superblock[at], superblock[at + 1]]);
    if half(0x38) != 0xef53 {
        DiskState::Unknown
    } else if half(0x3a) & 2 != 0 {
        DiskState::Damaged
    } else if half(0x60) & 4 != 0 {
        DiskState::InUse
    } else {
        DiskState::Clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_copy_has_the_same_bytes_and_keeps_holes() {
        // copies to the same file system, and to a tmpfs, which is always a different one
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()];
        let path = folders[0].path().join("disk");
        let disk = File::create_new(&path).unwrap();
        disk.set_len(64 << 20).unwrap();
        let data: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        for (at, length) in [(0, 5000), (20 << 20, data.len()), ((40 << 20) + 123, 1)] {
            disk.write_all_at(&data[..length], at).unwrap();
        }
        for folder in &folders {
            let to = folder.path().join("copy");
            copy(&File::open(&path).unwrap(), &to).unwrap();
            assert!(std::fs::read(&path).unwrap() == std::fs::read(&to).unwrap());
            let blocks = to.metadata().unwrap().blocks();
            assert!(blocks * 512 < 13 << 20, "{blocks} blocks");
            assert!(copy(&File::open(&path).unwrap(), &to).is_err(), "the copy was there");
        }
    }

    #[test]
    fn the_superblock_tells_a_clean_disk_from_one_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let disk = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        assert_eq!(read_state(&path).unwrap(), DiskState::Unknown);
        disk.set_len(8 << 20).unwrap();
        assert_eq!(read_state(&path).unwrap(), DiskState::Unknown);
        let mut command = std::process::Command::new("/usr/sbin/mke2fs");
        let made = command.args(["-q", "-F", "-t", "ext4"]).arg(&path).status().unwrap();
        assert!(made.success() && read_state(&path).unwrap() == DiskState::Clean);
        let mut superblock = [0; 0x100];
        disk.read_exact_at(&mut superblock, 1024).unwrap();
        superblock[0x60] |= 4;
        assert_eq!(state_of(&superblock), DiskState::InUse);
        superblock[0x3a] |= 2;
        assert_eq!(state_of(&superblock), DiskState::Damaged);
    }
}
