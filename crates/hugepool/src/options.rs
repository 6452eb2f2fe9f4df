// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a pool is created.

use crate::machine::Switch;

/// What a child by fork() gets of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fork {
    /// A copy, like of all memory. The first write to a page on either side after that copies 4 KiB and splits the
    /// huge page: [`Pool::collapse`](crate::Pool::collapse) makes it huge again.
    #[default]
    Copy,
    /// Nothing (`MADV_DONTFORK`): huge pages of the parent stay huge. In the child all calls are refused
    /// ([`Error::Forked`](crate::Error::Forked)), and access to a block ends it with SIGSEGV.
    Exclude,
}

/// How a pool is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The most bytes that the pool may map, beyond which [`Error::Limit`](crate::Error::Limit) is answered.
    pub limit: usize,
    /// Bytes of empty huge pages that are kept for later, instead of returned to the kernel.
    pub retain: usize,
    /// What a child by fork() gets.
    pub fork: Fork,
    /// What is done to get huge pages; without it `PAGEWISE_THP` and the machine decide.
    pub switch: Option<Switch>,
    /// Whether each release is checked under the lock (foreign blocks, double release, wrong size), without free
    /// blocks of threads. The default is true in debug builds and false in release builds.
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
    /// For objects that live long: a huge page is returned to the kernel when its last block is released.
    pub fn long_lived() -> Self {
        Self::default()
    }

    /// For objects that live briefly: 32 MiB of empty huge pages are kept for the next ones.
    pub fn short_lived() -> Self {
        Self { retain: 32 << 20, ..Self::default() }
    }
}
