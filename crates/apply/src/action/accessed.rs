// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clears the accessed bits of a process, to see which of its memory is used from then on.
//!
//! Clearing the bits changes no setting and no contents, so there is nothing to undo. But reclaim
//! reads the same bits, so for a while it treats memory in use as idle. The kernel walks all page
//! tables of the process with its mmap lock held for writing, and flushes the TLB.

use std::io;

use crate::live;

/// Clears the accessed bits of all pages that a process maps (`1` to `/proc/PID/clear_refs`).
/// Blocks while another task holds the mmap lock of the process.
///
/// # Errors
/// If the process has exited, belongs to another user and we are not root, or the kernel lacks the
/// file.
pub fn clear_accessed(pid: u32) -> io::Result<()> {
    live::write(&format!("/proc/{pid}/clear_refs"), "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_exist_is_refused() {
        let error = clear_accessed(4_000_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn own_bits_may_be_cleared_without_root() {
        clear_accessed(std::process::id()).unwrap();
    }
}
