// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from the available memory how many of the pages all devices can hold at the same time.
//!
//! All devices are filled before the first one is measured, and the compression ratio is not known
//! yet. So each device is counted as if the pages did not compress at all.

use pagewise_model::Bytes;
use pagewise_observe::{HostRoot, Scope, snapshot};

use super::error::Error;

/// Minimum span in bytes: a smaller one would fit into a CPU's cache.
const LEAST: u64 = 2 << 20;
/// Unit of a shortened span in bytes: the largest block size.
const BLOCK: u64 = 32 << 10;
/// The available memory divided by this number is left free.
const LEFT: u64 = 8;

/// What needs memory during the measurement, in multiples of the span.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryNeeds {
    /// Number of devices that hold all pages.
    pub(super) devices: usize,
    /// Number of references of the same size, but at most [`super::reference::MOST`].
    pub(super) references: usize,
}

impl MemoryNeeds {
    /// Memory in bytes that a span needs. 1/32 is for the slot table (16 or 24 bytes per page) and
    /// zsmalloc's overhead.
    fn bytes_for(self, span: u64) -> u64 {
        let references = self.references as u64 * span.min(super::reference::MOST);
        let pages = (self.devices as u64).saturating_mul(span).saturating_add(references);
        pages.saturating_add(pages / 32)
    }
}

/// The largest span up to `requested` that fits into the available memory; a multiple of 32 KiB if
/// it had to be shortened.
pub(super) fn choose_span(
    host: &HostRoot,
    requested: Bytes,
    needs: MemoryNeeds,
) -> Result<Bytes, Error> {
    match snapshot(host, &Scope::glance()).memory.available.get() {
        Some(available) => fit_to_memory(available, requested, needs),
        None => Ok(requested),
    }
}

fn fit_to_memory(available: Bytes, requested: Bytes, needs: MemoryNeeds) -> Result<Bytes, Error> {
    let room = available.get() - available.get() / LEFT;
    let fits = |span: &u64| needs.bytes_for(*span) <= room;
    if fits(&requested.get()) {
        return Ok(requested);
    }
    let least = LEAST.min(requested.get());
    // this ends, because each span is smaller than the one before, down to the minimum
    let smaller = std::iter::successors(Some(requested.get()), |span| Some(span / 8 * 7));
    let found = smaller.take_while(|&span| span >= least).find(fits);
    let whole = |span: u64| Bytes::new(span - span % BLOCK);
    found.map(whole).ok_or(Error::NoRoom {
        needed: Bytes::new(needs.bytes_for(least) / (LEFT - 1) * LEFT),
        devices: needs.devices + needs.references,
        least: Bytes::new(least),
        available,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    proptest! {
        /// A span is refused only if the minimum does not fit. The result always fits, and a
        /// shortened span is at least 3/4 of the largest that would fit.
        #[test]
        fn the_span_fits(
            available in 0u64..(1 << 36),
            wanted in 1u64..(1 << 18),
            devices in 1usize..12,
            references in 0usize..3,
        ) {
            let requested = wanted * 4096;
            let needs = MemoryNeeds { devices, references };
            let room = available - available / LEFT;
            let found = fit_to_memory(Bytes::new(available), Bytes::new(requested), needs);
            let least = LEAST.min(requested);
            match found {
                Err(_) => prop_assert!(needs.bytes_for(least) > room * 3 / 4),
                Ok(span) => {
                    prop_assert!(needs.bytes_for(span.get()) <= room && span.get() <= requested);
                    let more = span.get() / 3 * 4 + 4096;
                    prop_assert!(span.get() == requested || needs.bytes_for(more) > room);
                }
            }
        }
    }

    #[test]
    fn a_machine_that_is_short_of_memory_holds_fewer_pages() {
        let needs = MemoryNeeds { devices: 3, references: 2 };
        let fit = |mib: u64| fit_to_memory(Bytes::new(mib * MIB), Bytes::new(256 * MIB), needs);
        assert_eq!(fit(2048).unwrap(), Bytes::new(256 * MIB));
        assert!(fit(400).unwrap() < Bytes::new(100 * MIB));
        let error = fit(8).unwrap_err().to_string();
        assert!(error.contains("5 devices of 2.0 MiB, found 8.0 MiB"), "{error}");
    }
}
