// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens files below `/proc/PID`, and `/proc/kpage*`, for reading. No other module of this crate
//! opens files.
//!
//! It never opens memory contents (`/proc/PID/mem`), which only `pagewise-sample` does.

#![expect(clippy::disallowed_methods, reason = "files are opened here only, for reading")]

use std::fs::File;
use std::io::{self, Read};

use pagewise_model::Name;
use rustix::fs::{Dir, Mode, OFlags};

use crate::backing::Mapping;

/// Maximum length of a text file that is read, in bytes; what follows is ignored.
const MOST_TEXT: u64 = 8 << 20;

/// Opens a file of `/proc/PID`.
///
/// # Errors
/// If the process has exited or the kernel refuses.
pub(crate) fn open_of_process(pid: u32, name: &str) -> io::Result<File> {
    open_with(&format!("/proc/{pid}/{name}"), OFlags::empty())
}

/// Opens a file directly in `/proc`.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn open_in_proc(name: &str) -> io::Result<File> {
    open_with(&format!("/proc/{name}"), OFlags::empty())
}

/// Reads a text file of `/proc/PID`, at most its first 8 MiB.
///
/// # Errors
/// If the process has exited or the kernel refuses.
pub fn text_of_process(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open_of_process(pid, name)?.take(MOST_TEXT).read_to_end(&mut text)?;
    Ok(text)
}

/// Opens the list of a process's mappings, as lines for
/// [`Mapping::parse`](crate::backing::Mapping::parse).
///
/// # Errors
/// If the process has ended or the kernel refuses.
pub fn maps(pid: u32) -> io::Result<File> {
    open_of_process(pid, "maps")
}

/// Opens the mapped file itself for reading, even if another file has its path now. Only root may
/// do this.
///
/// # Errors
/// If the mapping does not exist any more, or if the kernel refuses.
pub fn open_mapped_file(pid: u32, mapping: &Mapping) -> io::Result<File> {
    open_of_process(pid, &of_mapping(mapping))
}

/// Returns the path of the file of a mapping, as the process sees it.
///
/// # Errors
/// If the mapping does not exist any more, or if the kernel refuses.
pub fn read_mapped_name(pid: u32, mapping: &Mapping) -> io::Result<Name> {
    let path = format!("/proc/{pid}/{}", of_mapping(mapping));
    let name = rustix::fs::readlink(path, Vec::new())?;
    Ok(Name::from_bytes(name.as_bytes()))
}

pub(crate) fn of_mapping(mapping: &Mapping) -> String {
    format!("map_files/{:x}-{:x}", mapping.start, mapping.end)
}

/// Returns the ids of a process's threads, in order; empty if the process has exited.
pub(crate) fn threads(pid: u32) -> Vec<i32> {
    let folder = open_with(&format!("/proc/{pid}/task"), OFlags::DIRECTORY);
    let Ok(entries) = folder.and_then(|folder| Ok(Dir::read_from(folder)?)) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
    let mut threads: Vec<i32> = names.collect();
    threads.sort_unstable();
    threads
}

fn open_with(path: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(File::from(file))
}
