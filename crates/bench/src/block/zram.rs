// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills a borrowed zram device with the pages, and reads the memory that it took for them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewise_model::lend::ZramDevice;
use pagewise_model::{Bytes, Pages as Count};
use pagewise_observe::{HostRoot, Scope, snapshot};

use super::pages::Pages;
use super::store::Store;

/// Bytes per write while filling; zram handles any size page by page.
const PIECE: u64 = 1 << 20;

/// What `mm_stat` of a device showed right after all pages were written once, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Filled {
    /// Original bytes per compressed byte, both without same-filled pages.
    pub original_per_compressed: Option<f64>,
    /// Memory that zram uses for the pages, including overhead: `mem_used_total` of `mm_stat`.
    pub memory_used: Option<Bytes>,
    /// Number of pages that consist of one repeated machine word.
    pub same_filled_pages: Option<Count>,
    /// Number of pages that zram stored uncompressed.
    pub huge_pages: Option<Count>,
    /// Time that writing all pages took, in seconds.
    pub seconds: f64,
}

/// Writes the pages up to `span` bytes to the device; `false` if the user stopped the run.
pub(super) fn fill(
    device: &dyn Store,
    pages: &Pages,
    span: Bytes,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let image = pages.bytes().len() as u64;
    let mut at = 0;
    while at < span.get() {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let until_repeat = image - at % image;
        let length = PIECE.min(span.get() - at).min(until_repeat);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        device.write_at(at, pages.slice_at(at, length))?;
        at += length as u64;
    }
    Ok(true)
}

/// Reads the device's counters as they are now.
pub(super) fn read_filled(
    host: &HostRoot,
    zram: &ZramDevice,
    began: Instant,
    page: Bytes,
) -> Filled {
    let seconds = began.elapsed().as_secs_f64();
    let devices = snapshot(host, &Scope::glance()).zram;
    let Some(device) = devices.into_iter().find(|device| device.id == zram.number) else {
        return Filled { seconds, ..Filled::default() };
    };
    let stat = device.mm_stat;
    let same = stat.same_filled_pages.get();
    let ratio = || {
        let original = stat.original.get()?.saturating_sub(same?.to_bytes(page));
        let compressed = stat.compressed.get().filter(|bytes| bytes.get() > 0)?;
        Some(original.get() as f64 / compressed.get() as f64)
    };
    Filled {
        original_per_compressed: ratio(),
        memory_used: stat.memory_used.get(),
        same_filled_pages: same,
        huge_pages: stat.huge_pages.get(),
        seconds,
    }
}
