// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of the whole host: `/proc/meminfo` and the counters of `/proc/vmstat`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading, Source};

/// The fields of `/proc/meminfo`, by the kernel's names.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's line of the same name")]
pub struct Memory {
    pub total: Reading<Bytes>,
    pub free: Reading<Bytes>,
    /// Memory that programs could use without swapping, as estimated by the kernel.
    pub available: Reading<Bytes>,
    pub buffers: Reading<Bytes>,
    /// Page cache including shmem. Shmem cannot be dropped; it can only be swapped out.
    pub cached: Reading<Bytes>,
    pub swap_cached: Reading<Bytes>,
    pub active_anon: Reading<Bytes>,
    pub inactive_anon: Reading<Bytes>,
    pub active_file: Reading<Bytes>,
    pub inactive_file: Reading<Bytes>,
    pub unevictable: Reading<Bytes>,
    pub mlocked: Reading<Bytes>,
    pub swap_total: Reading<Bytes>,
    pub swap_free: Reading<Bytes>,
    pub dirty: Reading<Bytes>,
    pub writeback: Reading<Bytes>,
    pub anon_pages: Reading<Bytes>,
    pub mapped: Reading<Bytes>,
    pub shmem: Reading<Bytes>,
    pub slab_reclaimable: Reading<Bytes>,
    pub slab_unreclaimable: Reading<Bytes>,
    pub kernel_stack: Reading<Bytes>,
    pub page_tables: Reading<Bytes>,
    pub secondary_page_tables: Reading<Bytes>,
    pub percpu: Reading<Bytes>,
    pub vmalloc_used: Reading<Bytes>,
    pub commit_limit: Reading<Bytes>,
    pub committed: Reading<Bytes>,
    pub anon_huge_pages: Reading<Bytes>,
    pub shmem_huge_pages: Reading<Bytes>,
    pub file_huge_pages: Reading<Bytes>,
    pub hugetlb: Reading<Bytes>,
    /// The cache of ZFS, which no line of `/proc/meminfo` counts.
    pub zfs_cache: ZfsCache,
    /// Lines of `/proc/meminfo` for which this type has no field, by the kernel's name; newer
    /// kernels add lines.
    pub other: BTreeMap<Name, Reading<Bytes>>,
    /// Lines of `/proc/meminfo` without a unit, by the kernel's name: counts such as
    /// `HugePages_Total`.
    pub counts: BTreeMap<Name, Reading<u64>>,
}

/// The cache of ZFS (ARC), from `/proc/spl/kstat/zfs/arcstats`; absent if ZFS is not in use.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ZfsCache {
    /// Size of the cache.
    pub size: Reading<Bytes>,
    /// The size down to which ZFS shrinks the cache when memory is short (`c_min`).
    pub min: Reading<Bytes>,
    /// The size up to which the cache grows (`c_max`).
    pub max: Reading<Bytes>,
}

impl ZfsCache {
    /// Memory that ZFS frees when memory is short; `MemAvailable` does not include it.
    pub fn reclaimable(&self) -> Option<Bytes> {
        Some(self.size.get()?.saturating_sub(self.min.get()?))
    }
}

/// Counters from a file of `name value` lines (`/proc/vmstat`, `memory.stat`), or from a folder
/// with one file per counter, by the kernel's name. They are in the kernel's units: pages, events
/// or bytes.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Counters {
    all: BTreeMap<Name, Reading<u64>>,
    /// Why counters that are not in `all` are missing, if their file could not be read.
    #[serde(skip)]
    #[schemars(skip)]
    unread: Option<Reading<u64>>,
}

impl Counters {
    /// Creates a set without counters, because their file could not be read: [`Counters::get`]
    /// returns `why` for each.
    pub fn unread(why: Reading<u64>) -> Self {
        Self { all: BTreeMap::new(), unread: Some(why) }
    }

    /// Adds to these counters the reason why others are missing: [`Counters::get`] returns `why`
    /// for any counter that is not in the set.
    #[must_use]
    pub fn with_unread_reason(self, why: Reading<u64>) -> Self {
        Self { unread: Some(why), ..self }
    }

    /// Returns the counter with this name. If the file has no line for it, the Reading is absent
    /// and names the counter; if the file was not read, the Reading says why.
    pub fn get(&self, name: &str) -> Reading<u64> {
        let missing =
            || Reading::absent(format!("this kernel has no counter {name}"), Source::none());
        let known = self.all.get(name);
        known.or(self.unread.as_ref()).cloned().unwrap_or_else(missing)
    }

    /// All counters, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Reading<u64>)> {
        self.all.iter()
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no counters: their file contained none or was not read.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl FromIterator<(Name, Reading<u64>)> for Counters {
    fn from_iter<I: IntoIterator<Item = (Name, Reading<u64>)>>(all: I) -> Self {
        Self { all: all.into_iter().collect(), unread: None }
    }
}
