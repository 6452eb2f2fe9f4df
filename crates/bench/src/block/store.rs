// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What requests go to: a device or file past the page cache, or anything that reads and writes.

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

/// Takes requests of any number of jobs at a time.
pub trait Store: Sync {
    /// Fills `into` with what is at `offset`.
    ///
    /// # Errors
    /// Where not all of it can be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Puts `from` at `offset`.
    ///
    /// # Errors
    /// Where not all of it can be written.
    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()>;

    /// The same for one job alone. Jobs that share an open file pass its reference count from one
    /// processor to the other with every request; a codec keeps its working memory here.
    ///
    /// # Errors
    /// Where it cannot be opened once more.
    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>>;

    /// Whether a request is a system call and nothing else.
    fn in_kernel(&self) -> bool {
        false
    }
}

/// A device or file, past the page cache.
#[derive(Debug)]
pub struct Device {
    file: OwnedFd,
    /// What offsets count from.
    base: u64,
    direct: bool,
    write: bool,
}

impl Device {
    /// Opens it for reading and writing.
    ///
    /// # Errors
    /// Where the system refuses, as where direct I/O is not known.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::opened(path, true, true)
    }

    /// Opens for reading only.
    pub(super) fn open_to_read(path: &Path) -> io::Result<Self> {
        Self::opened(path, false, true)
    }

    /// Opens a file past the page cache where its file system knows that, else through it.
    pub(super) fn open_file(path: &Path) -> io::Result<Self> {
        Self::opened(path, true, true).or_else(|_| Self::opened(path, true, false))
    }

    fn opened(path: &Path, write: bool, direct: bool) -> io::Result<Self> {
        let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
        Ok(Self { file: OwnedFd::from(file), base: 0, direct, write })
    }

    /// What lies behind `base` bytes of it.
    pub(super) fn behind(&self, base: u64) -> io::Result<Self> {
        Ok(Self { base: self.base + base, ..self.again()? })
    }

    /// Opened once more: nothing is shared but what it leads to.
    pub(super) fn again(&self) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(Self { base: self.base, ..Self::opened(path.as_ref(), self.write, self.direct)? })
    }

    /// Its size.
    ///
    /// # Errors
    /// Where it has none.
    pub fn size(&self) -> io::Result<u64> {
        // of a device, metadata has no size
        Ok(seek(&self.file, SeekFrom::End(0))?)
    }
}

impl Store for Device {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let requested = into.len();
        whole(requested, || pread(&self.file, &mut *into, self.base + offset))
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        whole(from.len(), || pwrite(&self.file, from, self.base + offset))
    }

    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>> {
        Ok(Box::new(self.again()?))
    }

    fn in_kernel(&self) -> bool {
        true
    }
}

/// A request that was cut short is a failure: a device is not supposed to.
fn whole(requested: usize, mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<()> {
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
