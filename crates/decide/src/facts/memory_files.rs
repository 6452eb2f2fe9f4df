// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files in memory: which mounts hold most of shmem, and who keeps deleted files open.

use std::collections::BTreeMap;

use pagewise_model::{Bytes, DeletedFile, DeletedKind, MemoryFiles, Snapshot, TmpfsMount};

/// Mounts and processes that are named.
const NAMED: usize = 3;
/// What holds less of shmem than this explains nothing.
const OF_SHMEM_PERCENT: f64 = 5.0;

/// Files of one process that no path leads to.
#[derive(Debug)]
pub(crate) struct Holder<'a> {
    /// The files, the largest first; never empty.
    pub(crate) files: Vec<&'a DeletedFile>,
    pub(crate) bytes: Bytes,
}

impl Holder<'_> {
    /// The process and its id, as sentences name it.
    pub(crate) fn name(&self) -> String {
        self.files.first().map_or_else(String::new, |file| {
            format!("{} (pid {})", crate::text::short(file.process.as_str()), file.pid)
        })
    }
}

/// Processes with deleted files of these kinds, the one with most first. A file that several processes
/// have open counts for one of them.
pub(crate) fn holders<'a>(
    files: &'a MemoryFiles,
    matches: impl Fn(DeletedKind) -> bool,
) -> Vec<Holder<'a>> {
    let mut by_process: BTreeMap<u32, Holder<'a>> = BTreeMap::new();
    for file in files.deleted.iter().filter(|file| matches(file.kind)) {
        let Some(bytes) = file.bytes.get() else { continue };
        let none = || Holder { files: Vec::new(), bytes: Bytes::default() };
        let holder = by_process.entry(file.pid).or_insert_with(none);
        holder.files.push(file);
        holder.bytes = holder.bytes.saturating_add(bytes);
    }
    let mut holders: Vec<Holder<'a>> = by_process.into_values().collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders
}

/// What holds a good part of shmem.
#[derive(Debug)]
pub(crate) struct ShmemHolder<'a> {
    pub(crate) mounts: Vec<&'a TmpfsMount>,
    pub(crate) holders: Vec<Holder<'a>>,
}

/// Mounts, and processes with files that never had a path: deleted ones count for their mount.
pub(crate) fn held_by(host: &Snapshot) -> ShmemHolder<'_> {
    let shmem = host.memory.shmem.get().unwrap_or_default();
    let is_part = |bytes: Bytes| {
        bytes > Bytes::default()
            && bytes.percent_of(shmem).is_some_and(|share| share.get() >= OF_SHMEM_PERCENT)
    };
    let files = &host.memory_files;
    let mounts = files.mounts.iter().filter(|mount| mount.used.get().is_some_and(is_part));
    let holders = holders(files, |kind| kind != DeletedKind::Tmpfs).into_iter();
    ShmemHolder {
        mounts: mounts.take(NAMED).collect(),
        holders: holders.filter(|holder| is_part(holder.bytes)).take(NAMED).collect(),
    }
}
