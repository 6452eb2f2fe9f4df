// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process id → its [`Memory`]: pagemap held open, and mappings when they are asked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use crate::maps::{self, Line, Mapping};
use crate::open;
use crate::pagemap::Pagemap;

/// Longest line that is understood: a path has at most 4096 bytes, escaped four times as many.
const MOST_LINE: u64 = 1 << 15;
/// Mappings looked at; the kernel's own limit is 65,530 unless it was raised.
const MOST_MAPPINGS: usize = 1 << 20;
/// Lines of smaps for each, at most.
const LINES_EACH: usize = 32;

/// Why a process could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// There is no such process, or it has no memory any more.
    #[error("process {0}: it has ended")]
    Gone(u32),
    /// Another user's.
    #[error("process {0}: not allowed to look at its memory")]
    Denied(u32),
    /// Something holds its memory lock.
    #[error("process {0}: no answer in time: something holds its memory lock")]
    Stuck(u32),
    /// The kernel said something else.
    #[error("process {pid}: {what}")]
    Kernel {
        /// The process.
        pid: u32,
        /// Which file.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The memory of a process that is alive when this is made.
#[derive(Debug)]
pub struct Memory {
    pub(super) pid: u32,
    pub(super) pagemap: Pagemap,
    pub(super) page: u64,
    pub(super) block: u64,
}

impl Memory {
    /// Opens it; blocks are `block` bytes large, the size of a huge page.
    ///
    /// # Errors
    /// Where the process is gone or another user's.
    pub fn open(pid: u32, block: u64) -> Result<Self, LookError> {
        let pagemap = Pagemap::open(pid).map_err(|error| refused(pid, "pagemap", error))?;
        let page = rustix::param::page_size() as u64;
        let block = block.max(page).next_power_of_two();
        let memory = Self { pid, pagemap, page, block };
        // opened and empty: a kernel thread, or a process that has just ended
        if memory.is_alive() { Ok(memory) } else { Err(LookError::Gone(pid)) }
    }

    /// The process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Size of a block.
    pub const fn block(&self) -> u64 {
        self.block
    }

    /// Whether the memory that this was opened for still exists.
    pub fn is_alive(&self) -> bool {
        self.pagemap.is_alive()
    }

    /// Its mappings by address; with what only smaps says, where that is wanted.
    pub(super) fn mappings(&self, detailed: bool) -> Result<Vec<Mapping>, LookError> {
        let mut found = Vec::<Mapping>::new();
        let (name, lines) = if detailed { ("smaps", LINES_EACH) } else { ("maps", 1) };
        self.each_line(name, MOST_MAPPINGS * lines, |line| {
            if let Line::Mapping(mapping) = maps::line(line, found.last_mut()) {
                found.push(mapping);
            }
        })?;
        Ok(found)
    }

    /// Those that may hold a block. Of the others, of which there may be thousands, only the ends are read.
    pub(super) fn large_mappings(&self) -> Result<Vec<Mapping>, LookError> {
        let mut found = Vec::new();
        self.each_line("maps", MOST_MAPPINGS, |line| {
            let large = maps::ends(line).is_some_and(|(start, end, _)| end - start >= self.block);
            if let Some(Line::Mapping(mapping)) = large.then(|| maps::line(line, None)) {
                found.push(mapping);
            }
        })?;
        Ok(found)
    }

    fn each_line(
        &self,
        name: &'static str,
        most: usize,
        see: impl FnMut(&[u8]),
    ) -> Result<(), LookError> {
        let file = opened(self.pid, name)?;
        match read(file, most, see).map_err(|error| refused(self.pid, name, error))? {
            0 if !self.is_alive() => Err(LookError::Gone(self.pid)),
            _ => Ok(()),
        }
    }
}

/// Shows each line, at most so many; answers how many there were.
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

/// A file of `/proc/PID`.
pub(super) fn opened(pid: u32, name: &'static str) -> Result<File, LookError> {
    open::of_process(pid, name).map_err(|error| refused(pid, name, error))
}

pub(super) fn refused(pid: u32, what: &'static str, source: io::Error) -> LookError {
    use rustix::io::Errno;
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::SRCH) => LookError::Gone(pid),
        Some(Errno::ACCESS | Errno::PERM) => LookError::Denied(pid),
        _ => LookError::Kernel { pid, what, source },
    }
}
