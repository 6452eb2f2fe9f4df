// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one door through which this crate opens files, always for reading only.
//!
//! Small text files are read as a whole, up to a limit; everything else is read in pieces.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// No text file that is read as a whole is longer than this; what is beyond is not looked at.
const MOST_TEXT: u64 = 8 << 20;

/// A file of `/proc/PID`.
pub(crate) fn of_process(pid: u32, name: &str) -> io::Result<File> {
    opened(Path::new(&format!("/proc/{pid}/{name}")), OFlags::empty())
}

/// A file of `/proc` itself.
pub(crate) fn of_proc(name: &str) -> io::Result<File> {
    opened(&Path::new("/proc").join(name), OFlags::empty())
}

/// The beginning of a text file of `/proc/PID`.
pub(crate) fn text_of_process(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    of_process(pid, name)?.take(MOST_TEXT).read_to_end(&mut text)?;
    Ok(text)
}

/// A file that the user named. Does not wait for the other end of a pipe.
pub(crate) fn named(path: &Path) -> io::Result<File> {
    opened(path, OFlags::NONBLOCK | OFlags::NOCTTY)
}

/// A device past the page cache: a cached copy would take memory and, where the device is in use
/// as swap, be out of date.
pub(crate) fn direct(path: &Path) -> io::Result<File> {
    opened(path, OFlags::DIRECT | OFlags::NOCTTY)
}

fn opened(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(file))
}
