// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines for a live process which of its pages are in RAM, in swap and in huge pages, block by
//! block.
//!
//! [`Memory`] keeps the process's pagemap open. The open file belongs to the memory that the
//! process had when it was opened. It is empty once that memory is freed, even if the process id
//! was reused. No page contents are read. This works only on the live machine, because a recording
//! does not contain addresses.
//!
//! If the kernel has PAGEMAP_SCAN, a single pass over the page tables is sufficient, which takes 3
//! to 6 ms per GiB of base pages; the mappings are read from `maps`. Otherwise smaps says how much
//! of each mapping is in huge pages, and pagemap is read entry by entry (module `walk`). If only
//! the amount in huge pages is needed, [`measure_share`] takes a tenth of the time.
//!
//! All of this takes the process's mmap lock for reading, for at most a millisecond at a time. If
//! another task holds the lock, callers that cannot wait for it use [`run_with_timeout`].

mod blocks;
mod heaps;
mod memory;
mod pss;
mod share;
mod survey;
mod walk;
mod watch_sample;

use std::sync::mpsc::sync_channel;
use std::time::Duration;

pub use blocks::{Block, Exclusive};
pub use heaps::{Heaps, heaps};
pub use memory::{LookError, Memory};
pub use pss::{is_thp_allowed, read_proportional_size};
pub use share::{Share, measure_share};
pub use survey::survey_process;
pub use watch_sample::take_sample;

/// Runs `look` in a thread of its own and returns its result; `None` if it did not finish in time.
/// If it did not, another task holds the process's mmap lock, and the thread continues to wait for
/// it.
pub fn run_with_timeout<T: Send + 'static>(
    patience: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = sync_channel(1);
    let begun = std::thread::Builder::new().name("look".to_owned()).spawn(move || {
        // sending fails if the receiver has stopped waiting
        let _ = tell.send(look());
    });
    begun.ok()?;
    told.recv_timeout(patience).ok()
}
