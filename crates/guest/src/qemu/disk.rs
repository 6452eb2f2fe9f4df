// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disks of a guest → QEMU's options for them.
//!
//! What a guest writes is gone with it unless the user wants it in the image: an empty disk and the
//! changes to an image lie in the run's folder. A full host disk is an error that the guest sees; QEMU
//! would stop the machine instead. Images are raw: QEMU is told so, and guesses nothing from what
//! a guest may have written there.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pagewise_model::Bytes;
use rustix::fs::OFlags;

use super::files::OpenFiles;
use crate::error::{Error, ErrorContext};

/// A block device of the guest: the first is /dev/vda, the second /dev/vdb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// Empty and as large as this; it takes only what is written to it.
    Empty(Bytes),
    /// An image file (raw) or a block device.
    Image(PathBuf, Access),
    /// An image file that the guest writes to, and a file for a log of all writes and flushes, in the order in
    /// which QEMU got them: the format is that of the kernel's dm-log-writes. The log file is emptied first.
    Recorded {
        /// The image.
        image: PathBuf,
        /// The log.
        log: PathBuf,
    },
}

/// What a guest may do with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It writes, and nobody sees it after the end.
    CopyOnWrite,
    /// It only reads.
    Read,
    /// What it writes stays.
    Write,
}

/// As many as a guest may have: the machine has 32 slots for all its devices.
pub const MOST: usize = 24;

/// The drivers, where they are modules.
pub(super) const MODULES: &[&str] = &["virtio_pci", "virtio_blk"];

/// Where a disk's bytes are.
pub(super) struct Backed {
    /// QEMU's driver for it.
    driver: &'static str,
    /// Where QEMU finds it open.
    path: String,
    access: Access,
    /// The same of the log of its writes.
    log: Option<String>,
}

/// Makes the empty ones, opens the images and checks that they are usable. `root` is the last one, where
/// that is open already.
pub(super) fn back(
    disks: &[Disk],
    mut root: Option<File>,
    folder: &Path,
    files: &mut OpenFiles,
) -> Result<Vec<Backed>, Error> {
    let mut backed = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let opened = if number + 1 == disks.len() { root.take() } else { None };
        backed.push(back_disk(disk, opened, &folder.join(format!("disk{number}")), files)?);
    }
    Ok(backed)
}

fn back_disk(
    disk: &Disk,
    opened: Option<File>,
    empty: &Path,
    files: &mut OpenFiles,
) -> Result<Backed, Error> {
    let mut open = OpenOptions::new();
    let (path, access, file) = match (disk, opened) {
        (Disk::Empty(size), _) => {
            let file = open
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(empty)
                .with_path(empty)?;
            file.set_len(size.get()).with_path(empty)?;
            (empty, Access::Write, file)
        }
        (Disk::Image(path, access), Some(file)) => (path.as_path(), *access, file),
        (Disk::Image(path, access), None) => {
            // A FIFO would let us wait.
            let wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
            let file = open.read(true).custom_flags(wait).open(path).with_path(path)?;
            (path.as_path(), *access, file)
        }
        (Disk::Recorded { image, .. }, _) => {
            (image.as_path(), Access::Write, File::open(image).with_path(image)?)
        }
    };
    let driver = check(&file, path, disk)?;
    let to_write = match access {
        Access::Write => Some(again(&file, true).with_path(path)?),
        Access::CopyOnWrite | Access::Read => None,
    };
    let to_read = again(&file, false).with_path(path)?;
    let both = [Some(to_read), to_write].into_iter().flatten().map(OwnedFd::from);
    let path = files.add(both);
    let log = match disk {
        Disk::Recorded { log, .. } => Some(open_log(log, files).with_path(log)?),
        Disk::Empty(_) | Disk::Image(..) => None,
    };
    Ok(Backed { driver, path, access, log })
}

/// Empties the log; answers where QEMU finds it open.
fn open_log(path: &Path, files: &mut OpenFiles) -> std::io::Result<String> {
    let mut open = OpenOptions::new();
    let log = open.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let both = [again(&log, false)?, again(&log, true)?];
    Ok(files.add(both.map(OwnedFd::from)))
}

/// The same file, opened once more: the path may lead elsewhere by now.
fn again(file: &File, to_write: bool) -> std::io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(to_write).open(path)
}

/// QEMU's driver for this file.
fn check(file: &File, path: &Path, disk: &Disk) -> Result<&'static str, Error> {
    let kind = file.metadata().with_path(path)?.file_type();
    let driver = match (kind.is_file(), kind.is_block_device()) {
        (true, _) => "file",
        (_, true) => "host_device",
        _ => {
            let what = "expected a disk image or a block device".to_owned();
            return Err(Error::Unusable { path: path.to_owned(), what });
        }
    };
    let mut start = [0; 4];
    let read = match disk {
        Disk::Empty(_) => return Ok(driver),
        Disk::Image(..) | Disk::Recorded { .. } => file.read_exact_at(&mut start, 0),
    };
    let what = match read {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "expected a disk image, found an empty file"
        }
        Err(error) => return Err(error).with_path(path),
        Ok(()) if &start == b"QFI\xfb" => {
            "expected a raw image, found qcow2 (qemu-img convert -O raw makes one)"
        }
        Ok(()) => return Ok(driver),
    };
    Err(Error::Unusable { path: path.to_owned(), what: what.to_owned() })
}

/// The options, for a machine with PCI.
pub(super) fn arguments(disks: &[Backed]) -> Vec<OsString> {
    let mut line = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let access = match disk.access {
            Access::CopyOnWrite => "snapshot=on",
            Access::Read => "readonly=on",
            Access::Write => "readonly=off",
        };
        let (driver, path) = (disk.driver, &disk.path);
        let file = match &disk.log {
            None => format!("file.driver={driver},file.filename={path}"),
            Some(log) => format!(
                "file.driver=blklogwrites,file.file.driver={driver},file.file.filename={path},\
                 file.log.driver=file,file.log.filename={log}"
            ),
        };
        let drive = format!(
            "if=none,id=disk{number},format=raw,{access},rerror=report,werror=report,{file}"
        );
        line.extend(["-drive".into(), drive.into()]);
        line.extend(["-device".into(), format!("virtio-blk-pci,drive=disk{number}").into()]);
    }
    line
}

/// QEMU parts an option at its commas.
pub(super) fn comma_doubled(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    let doubled = bytes.flat_map(|byte| std::iter::repeat_n(*byte, 1 + usize::from(*byte == b',')));
    OsString::from_vec(doubled.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_disk_is_as_large_as_asked_and_takes_nothing() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let size = Bytes::new(1 << 40);
        let mut files = OpenFiles::default();
        let backed = back(&[Disk::Empty(size)], None, folder.path(), &mut files).unwrap();
        let data = folder.path().join("disk0").metadata().unwrap();
        assert_eq!((data.len(), data.blocks(), data.mode() & 0o777), (size.get(), 0, 0o600));
        // To read, and to write.
        assert_eq!((backed[0].path.as_str(), files.into_parts().1.len()), ("/dev/fdset/1", 2));
    }

    #[test]
    fn a_recorded_disk_is_written_and_its_log_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let [image, log] = ["image", "log"].map(|name| folder.path().join(name));
        std::fs::write(&image, [1; 4096]).unwrap();
        std::fs::write(&log, "of an earlier guest").unwrap();
        let mut files = OpenFiles::default();
        let disk = Disk::Recorded { image, log: log.clone() };
        let backed = back(&[disk], None, folder.path(), &mut files).unwrap();
        assert_eq!((log.metadata().unwrap().len(), files.into_parts().1.len()), (0, 4));
        let line = arguments(&backed);
        let line = line[1].to_str().unwrap();
        let expected = "file.driver=blklogwrites,file.file.driver=file,file.file.filename=/dev/fdset/1,\
                        file.log.driver=file,file.log.filename=/dev/fdset/2";
        assert!(line.contains("readonly=off") && line.contains(expected), "{line}");
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let backed = |disk| back(&[disk], None, folder.path(), &mut OpenFiles::default());
        for (bytes, told) in [(&b""[..], "empty"), (b"QFI\xfb\0\0\0\x03", "qcow2")] {
            std::fs::write(&path, bytes).unwrap();
            let disk = Disk::Image(path.clone(), Access::Read);
            let Err(error) = backed(disk) else { panic!("{told} was taken") };
            assert!(error.to_string().contains(told), "{error}");
        }
        let fifo = folder.path().join("fifo");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
        for path in [fifo, "/dev/null".into(), folder.path().to_owned()] {
            let error = backed(Disk::Image(path, Access::Read)).err().unwrap();
            assert!(
                error.to_string().contains("expected a disk image or a block device"),
                "{error}"
            );
        }
        let absent = Disk::Image(folder.path().join("absent"), Access::Read);
        assert!(matches!(backed(absent), Err(Error::At { .. })));
    }

    #[test]
    fn commas_in_names_stay_part_of_them() {
        assert_eq!(comma_doubled(Path::new("/a,b,,c")), "/a,,b,,,,c");
    }
}
