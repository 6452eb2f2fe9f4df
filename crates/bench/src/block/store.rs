// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What receives requests: a device or file opened with O_DIRECT, or anything that can be read and
//! written.

#![expect(
    clippy::disallowed_methods,
    reason = "it opens a device that was lent, or the disk that the user named"
)]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::{Errno, pread, pwrite};

/// Receives requests from any number of jobs at the same time.
pub trait Store: Sync {
    /// Fills `into` with the contents at `offset`.
    ///
    /// # Errors
    /// If not all of the contents can be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes of `from` at `offset`.
    ///
    /// # Errors
    /// If not all of the bytes can be written.
    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()>;

    /// A handle of the same store for one job alone. A device opens its file again, because jobs
    /// that shared an open file would move the cache line of its reference count between CPUs with
    /// every request; a codec has its working memory in the handle.
    ///
    /// # Errors
    /// If the store cannot be opened again.
    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>>;

    /// Whether a request is exactly one system call.
    fn is_system_call(&self) -> bool {
        false
    }
}

/// A device or file, opened with O_DIRECT if possible.
#[derive(Debug)]
pub struct Device {
    file: OwnedFd,
    /// Position in the file that the store presents as offset 0, in bytes.
    base: u64,
    direct: bool,
    write: bool,
}

impl Device {
    /// Opens a device or file for reading and writing, with O_DIRECT.
    ///
    /// # Errors
    /// If the system refuses, for example because direct I/O is not supported.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, true, true)
    }

    /// Opens a device or file read-only, with O_DIRECT.
    pub(super) fn open_to_read(path: &Path) -> io::Result<Self> {
        Self::open_with(path, false, true)
    }

    /// Opens a file with O_DIRECT if its file system supports that, otherwise without.
    pub(super) fn open_file(path: &Path) -> io::Result<Self> {
        Self::open_with(path, true, true).or_else(|_| Self::open_with(path, true, false))
    }

    fn open_with(path: &Path, write: bool, direct: bool) -> io::Result<Self> {
        let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
        Ok(Self { file: OwnedFd::from(file), base: 0, direct, write })
    }

    /// The part of this store after the first `base` bytes, as a store.
    pub(super) fn at_offset(&self, base: u64) -> io::Result<Self> {
        Ok(Self { base: self.base + base, ..self.reopen()? })
    }

    /// Opens the device or file again, so that only the underlying file is shared.
    pub(super) fn reopen(&self) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(Self { base: self.base, ..Self::open_with(path.as_ref(), self.write, self.direct)? })
    }

    /// Size of the device or file in bytes.
    ///
    /// # Errors
    /// If the file has no size.
    pub fn size(&self) -> io::Result<u64> {
        // seek to the end, because the metadata of a device has no size
        Ok(seek(&self.file, SeekFrom::End(0))?)
    }
}

impl Store for Device {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let requested = into.len();
        repeat_until_whole(requested, || pread(&self.file, &mut *into, self.base + offset))
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        repeat_until_whole(from.len(), || pwrite(&self.file, from, self.base + offset))
    }

    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>> {
        Ok(Box::new(self.reopen()?))
    }

    fn is_system_call(&self) -> bool {
        true
    }
}

/// Repeats an interrupted call. A short read or write is an error, because block devices do not
/// return any.
fn repeat_until_whole(
    requested: usize,
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> io::Result<()> {
    loop {
        match call() {
            Ok(done) if done == requested => return Ok(()),
            Ok(done) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("expected {requested} bytes, found {done}"),
                ));
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
