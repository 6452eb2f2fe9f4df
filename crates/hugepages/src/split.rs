// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits huge pages of another process into base pages.
//!
//! The kernel has no call for this. But advice about *part* of a huge page makes the kernel split
//! it, and MADV_COLD (this page is not needed soon) has hardly any other effect. Since Linux 6.12,
//! splitting also frees each base page that contains only zeros; before, such pages stay until
//! reclaim finds them. So the caller measures how much was freed and does not assume it.
//! `split_huge_pages` in debugfs would do the same, if it is mounted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewise_procmem::coverage::{LookError, Memory};
use rustix::io::Errno;

use crate::calls::cool_range;
use crate::subject::{ActError, open_handle};

/// Splits the huge pages at these addresses of a process; returns how many of them were advised.
///
/// # Errors
/// If the process is gone or belongs to another user. What was split before remains split.
pub fn split(pid: u32, block: u64, addresses: &[u64], stop: &AtomicBool) -> Result<u64, ActError> {
    let handle = open_handle(pid)?;
    let memory = Memory::open(pid, block)?;
    let scans = memory.can_scan();
    let page = rustix::param::page_size() as u64;
    let mut split = 0;
    for &address in addresses {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // the huge page may have been split or unmapped since its address was found
        if !memory.block_at(address, scans)?.huge {
            continue;
        }
        match cool_range(&handle, address, page) {
            Ok(()) => split += 1,
            Err(error) => tolerate_refusal(pid, error)?,
        }
    }
    Ok(split)
}

/// Ignores the error if a mapping does not accept the advice (locked memory), and returns others.
fn tolerate_refusal(pid: u32, error: io::Error) -> Result<(), ActError> {
    match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::NOMEM | Errno::AGAIN) => Ok(()),
        Some(Errno::SRCH) => Err(LookError::Gone(pid).into()),
        Some(Errno::PERM | Errno::ACCESS) => Err(ActError::NotAllowed(pid)),
        _ => Err(ActError::Kernel { pid, source: error }),
    }
}
