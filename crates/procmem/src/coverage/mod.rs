// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live process → which of its pages are in RAM, in swap and in huge pages, block by block.
//!
//! [`Memory`] holds the process's pagemap open: it belongs to the memory that the process had then,
//! and reads as empty once that is gone, whatever has become of the process id. No page contents
//! are read. A recording holds no addresses, so this is for the machine itself only.
//!
//! Where the kernel has PAGEMAP_SCAN, one pass over the page tables finds everything, at 3 to 6 ms
//! per GiB of small pages; `maps` tells where mappings begin and end. Elsewhere smaps tells how much
//! of each mapping is huge, and pagemap is read entry by entry (`walk`). Who only wants to know how much
//! is huge asks for the [`share`], at a tenth of that.
//!
//! All of this takes the process's memory lock for reading, for a millisecond at a time at most. Who
//! cannot wait for a lock that somebody else holds asks through [`within`].

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
pub use pss::{proportional, thp_allowed};
pub use share::{Share, share};
pub use survey::process;
pub use watch_sample::moment;

/// What `look` answers, on a thread of its own; `None` where it did not answer in time: then
/// something holds the process's memory lock, and the thread is left behind waiting for it.
pub fn within<T: Send + 'static>(
    patience: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = sync_channel(1);
    let begun = std::thread::Builder::new().name("look".to_owned()).spawn(move || {
        // nobody may listen any more
        let _ = tell.send(look());
    });
    begun.ok()?;
    told.recv_timeout(patience).ok()
}
