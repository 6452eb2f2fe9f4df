// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a pool.

use crate::machine::Switch;

/// What a child by fork() gets of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fork {
    /// The child has a copy of the pool, as of all memory. The first write to a page on either side
    /// then copies 4 KiB and splits the huge page; [`Pool::collapse`](crate::Pool::collapse) makes
    /// it huge again.
    #[default]
    Copy,
    /// The child has nothing of the pool (`MADV_DONTFORK`): huge pages of the parent stay huge. In
    /// the child all calls are refused ([`Error::Forked`](crate::Error::Forked)), and access to a
    /// block ends it with SIGSEGV.
    Exclude,
}

/// The options of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Maximum bytes that the pool may map; an allocation beyond that is refused with
    /// [`Error::Limit`](crate::Error::Limit).
    pub limit: usize,
    /// Bytes of empty huge pages that are kept for later, instead of being returned to the kernel.
    pub retain: usize,
    /// What a child by fork() gets of the pool's memory.
    pub fork: Fork,
    /// How the pool requests huge pages; `None` if `PAGEWISE_THP` and the machine's setting decide.
    pub switch: Option<Switch>,
    /// Whether each release is checked under the lock (foreign blocks, double release, wrong size),
    /// without thread caches. The default is true in debug builds and false in release builds.
    pub checks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limit: usize::MAX,
            retain: 0,
            fork: Fork::Copy,
            switch: None,
            checks: cfg!(debug_assertions),
        }
    }
}

impl Options {
    /// Options for long-lived objects: a huge page is returned to the kernel when its last block is
    /// released.
    pub fn long_lived() -> Self {
        Self::default()
    }

    /// Options for short-lived objects: 32 MiB of empty huge pages are kept for later allocations.
    pub fn short_lived() -> Self {
        Self { retain: 32 << 20, ..Self::default() }
    }
}
