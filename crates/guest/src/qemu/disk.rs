// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares the disks of a guest, and QEMU's options for them.
//!
//! Writes of a guest are discarded at its end unless the user wants them in the image: empty disks,
//! and the changes to an image, are files in the run's folder. If the host's disk is full, the
//! guest gets an I/O error (by default QEMU would pause the machine). Images are raw, and
//! QEMU is given that format; otherwise it would guess the format from what a guest wrote.

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
    /// An empty disk of this size; the file behind it is sparse.
    Empty(Bytes),
    /// An image file (raw) or a block device.
    Image(PathBuf, Access),
    /// An image file that the guest writes to, and a file that logs all writes and flushes in the
    /// order in which QEMU received them, in the format of the kernel's dm-log-writes. The log file
    /// is truncated first.
    Recorded {
        /// Path of the image.
        image: PathBuf,
        /// Path of the log of writes.
        log: PathBuf,
    },
}

/// How a guest may use an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The guest may write; what it wrote is discarded at its end.
    CopyOnWrite,
    /// The guest can only read the disk.
    Read,
    /// The guest's writes go to the image.
    Write,
}

/// Maximum number of disks of a guest: the machine has 32 slots for all its devices.
pub const MOST: usize = 24;

/// Modules that a guest with disks needs, if its kernel has them as modules.
pub(super) const MODULES: &[&str] = &["virtio_pci", "virtio_blk"];

/// An open disk: what QEMU needs for its options.
pub(super) struct Backed {
    /// QEMU's driver for the format of the disk.
    driver: &'static str,
    /// The path under which QEMU finds the open file of the disk.
    path: String,
    access: Access,
    /// The path under which QEMU finds the log of the disk's writes.
    log: Option<String>,
}

/// Makes the empty disks, and opens and checks the images. `root` is the last disk, if the caller
/// has opened it already.
pub(super) fn open_disks(
    disks: &[Disk],
    mut root: Option<File>,
    folder: &Path,
    files: &mut OpenFiles,
) -> Result<Vec<Backed>, Error> {
    let mut backed = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let opened = if number + 1 == disks.len() { root.take() } else { None };
        backed.push(open_disk(disk, opened, &folder.join(format!("disk{number}")), files)?);
    }
    Ok(backed)
}

fn open_disk(
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
            // A FIFO would block the open.
            let wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
            let file = open.read(true).custom_flags(wait).open(path).with_path(path)?;
            (path.as_path(), *access, file)
        }
        (Disk::Recorded { image, .. }, _) => {
            (image.as_path(), Access::Write, File::open(image).with_path(image)?)
        }
    };
    let driver = check_file(&file, path, disk)?;
    let to_write = match access {
        Access::Write => Some(reopen(&file, true).with_path(path)?),
        Access::CopyOnWrite | Access::Read => None,
    };
    let to_read = reopen(&file, false).with_path(path)?;
    let both = [Some(to_read), to_write].into_iter().flatten().map(OwnedFd::from);
    let path = files.add(both);
    let log = match disk {
        Disk::Recorded { log, .. } => Some(open_log(log, files).with_path(log)?),
        Disk::Empty(_) | Disk::Image(..) => None,
    };
    Ok(Backed { driver, path, access, log })
}

/// Truncates the log file; returns the path under which QEMU finds it open.
fn open_log(path: &Path, files: &mut OpenFiles) -> std::io::Result<String> {
    let mut open = OpenOptions::new();
    let log = open.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let both = [reopen(&log, false)?, reopen(&log, true)?];
    Ok(files.add(both.map(OwnedFd::from)))
}

/// Opens the same file once more, by its descriptor: the path may refer to another file by now.
fn reopen(file: &File, to_write: bool) -> std::io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(to_write).open(path)
}

/// Checks the disk's file and returns QEMU's driver for it.
fn check_file(file: &File, path: &Path, disk: &Disk) -> Result<&'static str, Error> {
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

/// QEMU's options for the disks, for a machine with PCI.
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

/// Doubles commas, as QEMU requires in the value of an option.
pub(super) fn double_commas(path: &Path) -> OsString {
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
        let backed = open_disks(&[Disk::Empty(size)], None, folder.path(), &mut files).unwrap();
        let data = folder.path().join("disk0").metadata().unwrap();
        assert_eq!((data.len(), data.blocks(), data.mode() & 0o777), (size.get(), 0, 0o600));
        // two descriptors in the set: one opened for reading, one for writing
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
        let backed = open_disks(&[disk], None, folder.path(), &mut files).unwrap();
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
        let backed = |disk| open_disks(&[disk], None, folder.path(), &mut OpenFiles::default());
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
        assert_eq!(double_commas(Path::new("/a,b,,c")), "/a,,b,,,,c");
    }
}
