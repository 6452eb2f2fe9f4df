// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only module of this crate that opens files: those below `/proc/PID`, and `/proc/kpage*`, for reading.
//!
//! Memory contents (`/proc/PID/mem`) are not among them: `pagewise-sample` alone opens those.

#![expect(clippy::disallowed_methods, reason = "files are opened here only, for reading")]

use std::fs::File;
use std::io::{self, Read};

use pagewise_model::Name;
use rustix::fs::{Dir, Mode, OFlags};

use crate::backing::Mapping;

/// No text file that is read as a whole is longer than this; the rest is not read.
const MOST_TEXT: u64 = 8 << 20;

/// A file of `/proc/PID`.
///
/// # Errors
/// If the process has ended or the kernel refuses.
pub(crate) fn of_process(pid: u32, name: &str) -> io::Result<File> {
    opened(&format!("/proc/{pid}/{name}"), OFlags::empty())
}

/// A file of `/proc` itself.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn of_proc(name: &str) -> io::Result<File> {
    opened(&format!("/proc/{name}"), OFlags::empty())
}

/// The beginning of a text file of `/proc/PID`, at most 8 MiB of it.
///
/// # Errors
/// If the process has ended or the kernel refuses.
pub fn text_of_process(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    of_process(pid, name)?.take(MOST_TEXT).read_to_end(&mut text)?;
    Ok(text)
}

/// The process's mappings, as lines for [`Mapping::parse`](crate::backing::Mapping::parse).
///
/// # Errors
/// If the process has ended or the kernel refuses.
pub fn maps(pid: u32) -> io::Result<File> {
    of_process(pid, "maps")
}

/// The file of a mapping, to read: the very one, whatever its name means by now. Only root may open it.
///
/// # Errors
/// If the mapping is gone, or the kernel refuses.
pub fn mapped_file(pid: u32, mapping: &Mapping) -> io::Result<File> {
    of_process(pid, &of_mapping(mapping))
}

/// The name of a mapping's file, as the process sees it.
///
/// # Errors
/// If the mapping is gone, or the kernel refuses.
pub fn mapped_name(pid: u32, mapping: &Mapping) -> io::Result<Name> {
    let path = format!("/proc/{pid}/{}", of_mapping(mapping));
    let name = rustix::fs::readlink(path, Vec::new())?;
    Ok(Name::from_bytes(name.as_bytes()))
}

fn of_mapping(mapping: &Mapping) -> String {
    format!("map_files/{:x}-{:x}", mapping.start, mapping.end)
}

/// The ids of a process's threads, in order; empty if it has ended.
pub(crate) fn threads(pid: u32) -> Vec<i32> {
    let folder = opened(&format!("/proc/{pid}/task"), OFlags::DIRECTORY);
    let Ok(entries) = folder.and_then(|folder| Ok(Dir::read_from(folder)?)) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
    let mut threads: Vec<i32> = names.collect();
    threads.sort_unstable();
    threads
}

fn opened(path: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(file))
}
