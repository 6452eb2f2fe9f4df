// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disks of a guest → QEMU's options for them.
//!
//! What a guest writes is gone with it unless the user wants it in the image: an empty disk and the
//! changes to an image lie in the run's folder. A full host disk is an error that the guest sees; QEMU
//! would stop the machine instead. Images are raw: QEMU is told so, and guesses nothing from what
//! a guest may have written there.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pagewise_model::Bytes;

use crate::error::{At, Error};

/// A block device of the guest: the first is /dev/vda, the second /dev/vdb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// Empty and as large as this; it takes only what is written to it.
    Empty(Bytes),
    /// An image file (raw) or a block device.
    Image(PathBuf, Access),
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
    path: PathBuf,
    access: Access,
}

/// Makes the empty ones, and looks whether the images are usable.
pub(super) fn back(disks: &[Disk], folder: &Path) -> Result<Vec<Backed>, Error> {
    disks.iter().enumerate().map(|(number, disk)| one(disk, number, folder)).collect()
}

fn one(disk: &Disk, number: usize, folder: &Path) -> Result<Backed, Error> {
    match disk {
        Disk::Empty(size) => {
            let path = folder.join(format!("disk{number}"));
            File::create_new(&path).and_then(|file| file.set_len(size.get())).at(&path)?;
            Ok(Backed { path, access: Access::Write })
        }
        Disk::Image(path, access) => {
            let path = path.canonicalize().at(path)?;
            check(&path)?;
            Ok(Backed { path, access: *access })
        }
    }
}

fn check(path: &Path) -> Result<(), Error> {
    let mut file = File::open(path).at(path)?;
    let mut start = [0; 4];
    let what = match file.read_exact(&mut start) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "expected a disk image, found an empty file"
        }
        Err(error) => return Err(error).at(path),
        Ok(()) if &start == b"QFI\xfb" => {
            "expected a raw image, found qcow2 (qemu-img convert -O raw makes one)"
        }
        Ok(()) => return Ok(()),
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
        let mut drive = OsString::from(format!(
            "if=none,id=disk{number},format=raw,{access},rerror=report,werror=report,file="
        ));
        drive.push(comma_doubled(&disk.path));
        line.extend(["-drive".into(), drive]);
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
        let backed = back(&[Disk::Empty(size)], folder.path()).unwrap();
        let data = backed[0].path.metadata().unwrap();
        assert_eq!((data.len(), data.blocks()), (size.get(), 0));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        for (bytes, told) in [(&b""[..], "empty"), (b"QFI\xfb\0\0\0\x03", "qcow2")] {
            std::fs::write(&path, bytes).unwrap();
            let disk = Disk::Image(path.clone(), Access::Read);
            let Err(error) = back(&[disk], folder.path()) else { panic!("{told} was taken") };
            assert!(error.to_string().contains(told), "{error}");
        }
        let absent = Disk::Image(folder.path().join("absent"), Access::Read);
        assert!(matches!(back(&[absent], folder.path()), Err(Error::At { .. })));
    }

    #[test]
    fn commas_in_names_stay_part_of_them() {
        assert_eq!(comma_doubled(Path::new("/a,b,,c")), "/a,,b,,,,c");
    }
}
