// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the caller does with each page: [`Visit`].

use crate::Origin;

/// Sees pages, one after the other. Any `FnMut(&Origin, &[u8])` that may go to another thread is
/// one.
pub trait Visit: Send {
    /// One page; it is gone when this returns. All are of the host's page size: the last piece of
    /// a file that is no whole number of pages is filled up with zeros, as the page cache does it.
    fn page(&mut self, origin: &Origin, page: &[u8]);
}

impl<F: FnMut(&Origin, &[u8]) + Send> Visit for F {
    fn page(&mut self, origin: &Origin, page: &[u8]) {
        self(origin, page);
    }
}
