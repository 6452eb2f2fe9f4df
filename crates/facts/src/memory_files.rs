// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the processes that keep deleted files open whose contents are in memory.

use std::collections::BTreeMap;

use pagewise_model::{Bytes, DeletedFile, DeletedKind, MemoryFiles, Name};

/// A process with deleted files that are still open.
#[derive(Debug)]
pub struct Holder<'a> {
    /// Name of the process.
    pub process: &'a Name,
    /// Id of the process.
    pub pid: u32,
    /// The deleted files that the process keeps open, in the order of the Snapshot; never empty.
    pub files: Vec<&'a DeletedFile>,
    /// Size of these files together.
    pub bytes: Bytes,
}

/// Finds processes that keep deleted files of the chosen kinds open, the one with the most memory
/// in them first. A file that several processes keep open is counted for only one of them.
pub fn find_holders<'a>(
    files: &'a MemoryFiles,
    matches: impl Fn(DeletedKind) -> bool,
) -> Vec<Holder<'a>> {
    let mut by_process: BTreeMap<u32, Holder<'a>> = BTreeMap::new();
    for file in files.deleted.iter().filter(|file| matches(file.kind)) {
        let Some(bytes) = file.bytes.get() else { continue };
        let none = || Holder {
            process: &file.process,
            pid: file.pid,
            files: Vec::new(),
            bytes: Bytes::default(),
        };
        let holder = by_process.entry(file.pid).or_insert_with(none);
        holder.files.push(file);
        holder.bytes = holder.bytes.saturating_add(bytes);
    }
    let mut holders: Vec<Holder<'a>> = by_process.into_values().collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders
}
