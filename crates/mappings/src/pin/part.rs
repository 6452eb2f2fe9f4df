// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of a file that other processes map as code, mapped by this process as well.

use std::io;

use crate::Region;
use pagewise_model::Name;
use pagewise_procmem::backing::Mapping;
use pagewise_procmem::open::{open_mapped_file, read_mapped_name};
use pagewise_procmem::pagemap::{Entry, Pagemap};

/// Identifies a part of a file: the file, the offset in bytes, and the number of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartKey {
    device: (u32, u32),
    inode: u64,
    offset: u64,
    pages: usize,
}

impl PartKey {
    pub(crate) fn new(mapping: &Mapping, page: u64) -> Self {
        let pages = usize::try_from((mapping.end - mapping.start) / page).unwrap_or(usize::MAX);
        Self { device: mapping.device, inode: mapping.inode, offset: mapping.offset, pages }
    }
}

/// A mapped part of a file, and which of its pages are used and which are locked.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: Name,
    region: Region,
    used: Vec<bool>,
    locked: Vec<bool>,
}

impl Part {
    /// Maps the part of a file that the process has mapped at `mapping`. `None` if the file is not
    /// a regular file or has become shorter.
    pub(crate) fn open(pid: u32, mapping: &Mapping, key: &PartKey) -> io::Result<Option<Self>> {
        let file = open_mapped_file(pid, mapping)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let region = match Region::map_part_of_file(&file, key.offset, key.pages) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            mapped => mapped?,
        };
        let name = read_mapped_name(pid, mapping)?;
        let none = vec![false; key.pages];
        Ok(Some(Self { name, region, used: none.clone(), locked: none }))
    }

    /// Marks the pages as used that the process has mapped and that belong to the file. Pages that
    /// the process has written are private copies and are not marked. A page stays marked.
    pub(crate) fn note_used(&mut self, pagemap: &Pagemap, first: u64) -> io::Result<()> {
        let (mut entries, mut bytes) = (Vec::new(), Vec::new());
        pagemap.read(first, self.used.len(), &mut entries, &mut bytes)?;
        let is_used = |entry: &Entry| entry.is_present() && entry.is_of_file();
        for (used, entry) in self.used.iter_mut().zip(&entries) {
            *used |= is_used(entry);
        }
        Ok(())
    }

    pub(crate) fn used_pages(&self) -> u64 {
        self.used.iter().filter(|is| **is).count() as u64
    }

    pub(crate) fn locked_pages(&self) -> u64 {
        self.locked.iter().filter(|is| **is).count() as u64
    }

    /// Locks used pages into memory, at most `left` of them.
    pub(crate) fn lock(&mut self, left: &mut u64) -> io::Result<()> {
        for (first, pages) in runs_to_lock(&self.used, &self.locked) {
            let pages = pages.min(usize::try_from(*left).unwrap_or(usize::MAX));
            if pages == 0 {
                break;
            }
            self.region.lock(first, pages)?;
            self.locked[first..first + pages].fill(true);
            *left -= pages as u64;
        }
        Ok(())
    }
}

/// Returns runs of consecutive pages that are used but not locked: the first page and the number of
/// pages of each run.
fn runs_to_lock(used: &[bool], locked: &[bool]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let wanted = used.iter().zip(locked).map(|(used, locked)| *used && !*locked);
    for (at, _) in wanted.enumerate().filter(|(_, is_wanted)| *is_wanted) {
        match runs.last_mut() {
            Some((first, pages)) if *first + *pages == at => *pages += 1,
            _ => runs.push((at, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::runs_to_lock;

    #[test]
    fn runs_are_used_pages_that_are_not_locked() {
        let bits = |text: &str| text.chars().map(|c| c == '1').collect::<Vec<bool>>();
        assert_eq!(runs_to_lock(&bits("0110111"), &bits("0000010")), [(1, 2), (4, 1), (6, 1)]);
        assert!(
            runs_to_lock(&bits("11"), &bits("11")).is_empty() && runs_to_lock(&[], &[]).is_empty()
        );
    }
}
