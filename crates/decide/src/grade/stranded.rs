// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades memory that nothing can use: memory that was left behind, and memory that no counter
//! accounts for.

use pagewise_model::{Bytes, Level, Severity, Snapshot};

use super::headroom;

/// Stranded memory of at least this percentage of RAM is a warning even if memory is available.
const MUCH_PERCENT: f64 = 30.0;

/// Returns the severity of `size` of stranded RAM: a warning if that is much, or if memory is low.
pub(crate) fn severity(host: &Snapshot, size: Bytes) -> Severity {
    let is_low = headroom::level_of_host(host) > Some(Level::Calm);
    if is_much(host, size) || is_low { Severity::Warning } else { Severity::Info }
}

/// Whether `size` is so large a share of RAM that it matters even if memory is available.
pub(crate) fn is_much(host: &Snapshot, size: Bytes) -> bool {
    let share = host.memory.total.get().and_then(|total| size.percent_of(total));
    share.is_some_and(|share| share.get() >= MUCH_PERCENT)
}
