// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was read earlier of processes and cgroups, so that what did nothing since then need not be read in
//! full again.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::process::KnownProcesses;

/// Belongs to a snapshot; the next one is read with it.
#[derive(Debug, Default)]
pub struct Known {
    pub(crate) processes: KnownProcesses,
    pub(crate) groups: KnownGroups,
    /// The ids of kernel threads that work for memory; `None` before the first reading.
    pub(crate) threads: Option<Vec<u32>>,
    pub(crate) khugepaged: Option<u32>,
}

/// The `memory.stat` of each cgroup when it was last read, by the path of its folder. Whatever the
/// processes of a cgroup do with its memory changes this file, and so does reclaim.
#[derive(Debug, Default)]
pub(crate) struct KnownGroups {
    stats: BTreeMap<String, u64>,
    /// The folders of the cgroups that were not read in full by the last reading.
    kept: BTreeSet<String>,
}

impl KnownGroups {
    /// Whether the cgroup had the `memory.stat` with this digest.
    pub(crate) fn has(&self, folder: &str, stat: u64) -> bool {
        self.stats.get(folder) == Some(&stat)
    }

    pub(crate) fn note(&mut self, folder: &str, stat: u64, is_kept: bool) {
        self.stats.insert(folder.to_owned(), stat);
        if is_kept {
            self.kept.insert(folder.to_owned());
        }
    }

    #[cfg(test)]
    pub(crate) fn stats_of(&self) -> usize {
        self.stats.len()
    }

    pub(crate) const fn kept(&self) -> &BTreeSet<String> {
        &self.kept
    }
}

/// A number that differs if the text does, except by a chance of 1 in 2⁶⁴.
pub(crate) fn digest(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
