// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The [`Memory`] of a process: its open pagemap, and functions to read its mappings.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use pagewise_model::Advice;

use crate::maps::{self, Line, Mapping};
use crate::open;
use crate::pagemap::Pagemap;

/// Maximum length of a line that is parsed, in bytes. A path has at most 4096 bytes, each of which
/// may be escaped as four bytes.
const MOST_LINE: u64 = 1 << 15;
/// Maximum number of mappings of a process that are read; the kernel's default limit is 65,530.
const MOST_MAPPINGS: usize = 1 << 20;
/// Maximum number of lines of smaps that are read for each mapping.
const LINES_EACH: usize = 32;

/// Why a process could not be examined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// No process has this id, or the process has no memory any more.
    #[error("process {0}: it has ended")]
    Gone(u32),
    /// The process belongs to another user.
    #[error("process {0}: not allowed to look at its memory")]
    Denied(u32),
    /// Another task holds the mmap lock of the process.
    #[error("process {0}: no answer in time: something holds its memory lock")]
    Stuck(u32),
    /// Any other error that the kernel returned.
    #[error("process {pid}: {what}")]
    Kernel {
        /// The id of the process.
        pid: u32,
        /// The name of the file below `/proc/PID` that was read.
        what: &'static str,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

impl Advice for LookError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Denied(_) => "run as root",
            Self::Stuck(_) => "see what it waits for: cat /proc/PID/stack, as root",
            Self::Gone(_) => "ps -eo pid,comm lists processes",
            Self::Kernel { .. } => return None,
        };
        Some(next.to_owned())
    }
}

/// The memory of a process that was alive when this was created.
#[derive(Debug)]
pub struct Memory {
    pub(super) pid: u32,
    pub(super) pagemap: Pagemap,
    pub(super) page: u64,
    pub(super) block: u64,
}

impl Memory {
    /// Opens the memory of a process; blocks have `block` bytes, the size of a huge page.
    ///
    /// # Errors
    /// If the process has exited or belongs to another user.
    pub fn open(pid: u32, block: u64) -> Result<Self, LookError> {
        let pagemap = Pagemap::open(pid).map_err(|error| error_for(pid, "pagemap", error))?;
        let page = rustix::param::page_size() as u64;
        let block = block.max(page).next_power_of_two();
        let memory = Self { pid, pagemap, page, block };
        // a pagemap that can be opened but is empty belongs to a kernel thread, or to a process
        // that has just exited
        if memory.is_alive() { Ok(memory) } else { Err(LookError::Gone(pid)) }
    }

    /// The id of the process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Size of a block in bytes: that of a huge page.
    pub const fn block(&self) -> u64 {
        self.block
    }

    /// Whether the memory that the pagemap was opened for still exists.
    pub fn is_alive(&self) -> bool {
        self.pagemap.is_alive()
    }

    /// Returns the mappings of the process in order of address. If `detailed` is true, they have
    /// the values that only smaps contains.
    pub(super) fn mappings(&self, detailed: bool) -> Result<Vec<Mapping>, LookError> {
        let mut found = Vec::<Mapping>::new();
        let (name, lines) = if detailed { ("smaps", LINES_EACH) } else { ("maps", 1) };
        self.for_each_line(name, MOST_MAPPINGS * lines, |line| {
            if let Line::Mapping(mapping) = maps::parse_line(line, found.last_mut()) {
                found.push(mapping);
            }
        })?;
        Ok(found)
    }

    /// Returns the mappings that are large enough to contain a block. Of all others, of which there
    /// may be thousands, only the addresses are parsed.
    pub(super) fn large_mappings(&self) -> Result<Vec<Mapping>, LookError> {
        let mut found = Vec::new();
        self.for_each_line("maps", MOST_MAPPINGS, |line| {
            let large =
                maps::parse_range(line).is_some_and(|(start, end, _)| end - start >= self.block);
            if let Some(Line::Mapping(mapping)) = large.then(|| maps::parse_line(line, None)) {
                found.push(mapping);
            }
        })?;
        Ok(found)
    }

    fn for_each_line(
        &self,
        name: &'static str,
        most: usize,
        see: impl FnMut(&[u8]),
    ) -> Result<(), LookError> {
        let file = open_file(self.pid, name)?;
        match read(file, most, see).map_err(|error| error_for(self.pid, name, error))? {
            0 if !self.is_alive() => Err(LookError::Gone(self.pid)),
            _ => Ok(()),
        }
    }
}

/// Calls `see` with each line of a file, for at most `most` lines. Returns the number of lines.
fn read(file: File, most: usize, mut see: impl FnMut(&[u8])) -> io::Result<usize> {
    let mut lines = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::with_capacity(256);
    for seen in 0..most {
        line.clear();
        if lines.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(seen);
        }
        see(line.trim_ascii_end());
    }
    Ok(most)
}

/// Opens a file of `/proc/PID`.
pub(super) fn open_file(pid: u32, name: &'static str) -> Result<File, LookError> {
    open::open_of_process(pid, name).map_err(|error| error_for(pid, name, error))
}

pub(super) fn error_for(pid: u32, what: &'static str, source: io::Error) -> LookError {
    use rustix::io::Errno;
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::SRCH) => LookError::Gone(pid),
        Some(Errno::ACCESS | Errno::PERM) => LookError::Denied(pid),
        _ => LookError::Kernel { pid, what, source },
    }
}
