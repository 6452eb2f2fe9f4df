// SPDX-License-Identifier: Apache-2.0 OR MIT
//! References to compare the algorithms with, each with the layer that its requests reach.
//!
//! The references are:
//!
//! - incompressible data on zram: reading costs the block layer and one copy; writing also costs
//!   the attempt to compress;
//! - a part of a zram device that was never written: reading costs the block layer and filling a
//!   page with zeros;
//! - a file on tmpfs: in memory, behind a file system instead of a block device;
//! - a copy of memory: no request at all; it shows the speed of memory, and nothing about zram;
//! - a disk: where swap would be without zram.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewise_model::Bytes;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};

use super::pages::Pages;
use super::store::{Device, Store};
use crate::stand_in::StandIn;

/// Maximum size of a reference in bytes.
pub(super) const MOST: u64 = 64 << 20;
/// Number of bytes of noise. To fill more, the noise is repeated, which does not matter because
/// zram does not deduplicate pages.
const NOISE: usize = 8 << 20;
/// Maximum number of bytes written to a disk in total.
const WEAR: u64 = 256 << 20;

/// A disk to measure as a reference, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// A block device, or a file on the disk: only read, at most 64 MiB. The contents are not used.
    Read(PathBuf),
    /// A folder on the disk: an unnamed file of at most 64 MiB is written there, repeatedly, at
    /// most 256 MiB in total. The kernel deletes the file when this process ends. The file never
    /// contains the pages that are measured, but stand-in pages that compress like them.
    Write(PathBuf),
}

/// Makes pages of random bytes, which do not compress.
pub(super) fn make_noise(seed: u64) -> Pages {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pages = Pages::with_room(NOISE / rustix::param::page_size());
    let words = || random.u64(..).to_ne_bytes();
    let page: Vec<u8> = std::iter::repeat_with(words).take(NOISE / 8).flatten().collect();
    page.chunks_exact(rustix::param::page_size()).for_each(|page| _ = pages.push(page));
    pages
}

/// Stand-in pages for a reference that must not hold the real contents.
pub(super) fn make_stand_in(made: &StandIn, count: u64) -> Pages {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut pages = Pages::with_room(count);
    made.each(count, rustix::param::page_size(), |page| _ = pages.push(page));
    pages
}

/// Creates an unnamed file of `size` bytes on a tmpfs.
pub(super) fn create_on_tmpfs(size: u64) -> io::Result<Device> {
    let file = memfd_create("pagewise-bench", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, size)?;
    Device::open_file(&proc_path(&file))
}

fn proc_path(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A store in memory: a read request copies from the pages.
#[derive(Debug)]
pub(super) struct Copy<'a>(pub(super) &'a Pages);

impl Store for Copy<'_> {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(self.0.slice_at(offset, into.len()));
        // otherwise the compiler could remove the copy, because nothing uses it
        std::hint::black_box(into);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>> {
        Ok(Box::new(Self(self.0)))
    }
}

/// A disk that refuses further writes once its limit of written bytes is reached.
#[derive(Debug)]
pub(super) struct Bounded {
    device: Device,
    left: Arc<AtomicU64>,
}

impl Store for Bounded {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.device.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(from.len() as u64);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => self.device.write_at(offset, from),
            Err(_) => Err(io::Error::other(format!(
                "all {} that may be written to it are",
                Bytes::new(WEAR)
            ))),
        }
    }

    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>> {
        Ok(Box::new(Self { device: self.device.reopen()?, left: Arc::clone(&self.left) }))
    }

    fn is_system_call(&self) -> bool {
        true
    }
}

/// Opens a disk; also returns how many bytes of it are measured.
pub(super) fn open_disk(disk: &Disk, span: u64) -> io::Result<(Bounded, u64)> {
    let (device, size) = match disk {
        Disk::Read(path) => {
            let device = Device::open_to_read(path)?;
            let size = device.size()?;
            (device, size.min(MOST))
        }
        Disk::Write(folder) => (create_unnamed(folder)?, span.min(MOST)),
    };
    Ok((Bounded { device, left: Arc::new(AtomicU64::new(WEAR)) }, size))
}

/// Creates a file without a name, which the kernel deletes when this process ends for whatever
/// reason.
fn create_unnamed(folder: &Path) -> io::Result<Device> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = open(folder, flags, Mode::RUSR | Mode::WUSR)?;
    Device::open_file(&proc_path(&file))
}
