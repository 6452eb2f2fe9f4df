// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface by which the caller receives each page: [`Visit`].

use crate::Origin;

/// Receives the sampled pages, one after the other. Implemented by any `FnMut(&Origin, &[u8])` that
/// is `Send`.
pub trait Visit: Send {
    /// Receives one page, which is valid only during the call. All pages have the host's page size:
    /// the last piece of a file is padded with zeros, as in the page cache.
    fn page(&mut self, origin: &Origin, page: &[u8]);
}

impl<F: FnMut(&Origin, &[u8]) + Send> Visit for F {
    fn page(&mut self, origin: &Origin, page: &[u8]) {
        self(origin, page);
    }
}
