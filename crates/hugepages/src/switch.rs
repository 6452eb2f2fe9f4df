// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disables huge pages for this process and all that it starts.
//!
//! There is nothing to undo: the setting ends with the processes. It also prevents that another
//! process collapses their memory.

use std::io;

use crate::calls::disable_thp;

/// Which memory may still be in huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// No memory may be in huge pages.
    Nothing,
    /// Memory for which the program requests them (MADV_HUGEPAGE).
    Advised,
}

/// Disables huge pages for this process and all that it starts, except for the allowed memory.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if this kernel does not know [`Allowed::Advised`].
pub fn disable_huge_pages(allowed: Allowed) -> io::Result<()> {
    disable_thp(allowed == Allowed::Advised)
}
