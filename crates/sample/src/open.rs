// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only module of this crate that opens files, always read-only: memory, devices and files that
//! the user named. Text files about processes are opened by `pagewise-procmem`.

#![expect(clippy::disallowed_methods, reason = "files are opened here only, for reading")]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens `/proc/PID/mem`, the memory of a process.
pub(crate) fn open_memory(pid: u32) -> io::Result<File> {
    open_with(Path::new(&format!("/proc/{pid}/mem")), OFlags::empty())
}

/// Opens a file that the user named. Opening a FIFO does not block.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NONBLOCK | OFlags::NOCTTY)
}

/// Opens a device with O_DIRECT. Without it, the pages would be copied into the page cache, which
/// takes memory and, if the device is in use as swap, may hold old contents.
pub(crate) fn open_direct(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::DIRECT | OFlags::NOCTTY)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(file))
}
