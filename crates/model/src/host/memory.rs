// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of the whole host: `/proc/meminfo` and the counters of `/proc/vmstat`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading, Source};

/// `/proc/meminfo`, in its own words.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's line of the same name")]
pub struct Memory {
    pub total: Reading<Bytes>,
    pub free: Reading<Bytes>,
    /// What programs could still take without swapping, as the kernel estimates it.
    pub available: Reading<Bytes>,
    pub buffers: Reading<Bytes>,
    /// Page cache, and shmem with it: part of this cannot be dropped, only swapped.
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
    /// Lines that have no field above, by the kernel's name: newer kernels add some.
    pub other: BTreeMap<Name, Reading<Bytes>>,
    /// Lines without a unit, by the kernel's name: counts, as `HugePages_Total`.
    pub counts: BTreeMap<Name, Reading<u64>>,
}

/// Counters of a file of `name value` lines (`/proc/vmstat`, `memory.stat`) or of a folder with a
/// file for each, by the kernel's name. Their unit is the kernel's: pages, events or bytes.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Counters {
    all: BTreeMap<Name, Reading<u64>>,
    /// Why others are not here, where their file was not or could not be read.
    #[serde(skip)]
    #[schemars(skip)]
    unread: Option<Reading<u64>>,
}

impl Counters {
    /// No counters, because their file could not be read: [`Counters::get`] answers `why` for each.
    pub fn unread(why: Reading<u64>) -> Self {
        Self { all: BTreeMap::new(), unread: Some(why) }
    }

    /// These, and others that were not read: [`Counters::get`] answers `why` for each.
    #[must_use]
    pub fn and_unread(self, why: Reading<u64>) -> Self {
        Self { unread: Some(why), ..self }
    }

    /// The counter; an absence that names it where the file has no such line; why not, where it was
    /// not or could not be read.
    pub fn get(&self, name: &str) -> Reading<u64> {
        let missing =
            || Reading::absent(format!("this kernel has no counter {name}"), Source::none());
        let known = self.all.get(name);
        known.or(self.unread.as_ref()).cloned().unwrap_or_else(missing)
    }

    /// Every counter in order of its name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Reading<u64>)> {
        self.all.iter()
    }

    /// How many counters there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the file had no counter or was not read.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl FromIterator<(Name, Reading<u64>)> for Counters {
    fn from_iter<I: IntoIterator<Item = (Name, Reading<u64>)>>(all: I) -> Self {
        Self { all: all.into_iter().collect(), unread: None }
    }
}
