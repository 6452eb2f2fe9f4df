// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages switched off for this process and all that it starts.
//!
//! Not undone, and it needs no undoing: it ends with the processes. It counts for a collapse from
//! outside, too.

use std::io;

use crate::calls::disable_thp;

/// What may still be huge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Nothing.
    Nothing,
    /// Memory for which the program asks.
    Advised,
}

/// Switches huge pages off.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] where this kernel does not know [`Allowed::Advised`].
pub fn switch_off(allowed: Allowed) -> io::Result<()> {
    disable_thp(allowed == Allowed::Advised)
}
