// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages of a process → small ones, without its help.
//!
//! There is no call for that. But advice about a *part* of a huge page makes the kernel split it, and
//! the mildest advice (MADV_COLD: this page is not needed soon) does. From Linux 6.12 on, splitting
//! also gives back each small page that stores nothing but zeros; before, it stays, and only reclaim
//! finds it. So the caller measures what came back and does not assume it. `split_huge_pages` in
//! debugfs would do the same, where that is mounted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewise_procmem::coverage::{LookError, Memory};
use rustix::io::Errno;

use crate::calls::cool_range;
use crate::subject::{ActError, handle};

/// Splits the huge pages at these addresses; answers how many were told to the kernel.
///
/// # Errors
/// Where the process is gone or another user's. What was split before that stays split.
pub fn split(pid: u32, block: u64, addresses: &[u64], stop: &AtomicBool) -> Result<u64, ActError> {
    let handle = handle(pid)?;
    let memory = Memory::open(pid, block)?;
    let scans = memory.can_scan();
    let page = rustix::param::page_size() as u64;
    let mut split = 0;
    for &address in addresses {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // it may have been split, or be something else by now
        if !memory.block_at(address, scans)?.huge {
            continue;
        }
        match cool_range(&handle, address, page) {
            Ok(()) => split += 1,
            Err(error) => refused(pid, error)?,
        }
    }
    Ok(split)
}

/// A mapping that does not take the advice (locked memory) is passed over.
fn refused(pid: u32, error: io::Error) -> Result<(), ActError> {
    match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::NOMEM | Errno::AGAIN) => Ok(()),
        Some(Errno::SRCH) => Err(LookError::Gone(pid).into()),
        Some(Errno::PERM | Errno::ACCESS) => Err(ActError::NotAllowed(pid)),
        _ => Err(ActError::Kernel { pid, source: error }),
    }
}
