// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether a host has memory to spare. If so, stalls may be caused by the limit of a
//! cgroup.

use pagewise_facts::zones;
use pagewise_model::{Interval, Level, Snapshot};

use super::{headroom, pressure};

/// Whether the host has memory to spare: its available memory is graded calm, and free memory in
/// all zones is above the low watermark.
pub(crate) fn has_memory_to_spare(host: &Snapshot) -> bool {
    headroom::level_of_host(host) == Some(Level::Calm) && zones::all_above_low(host) == Some(true)
}

/// The grade of the present memory pressure, if the host has memory to spare.
pub(crate) fn level_of_waiting(interval: &Interval) -> Option<Level> {
    let graded = pressure::grade(interval).filter(|graded| graded.ended.is_none())?;
    Some(graded.shortage).filter(|_| has_memory_to_spare(&interval.end))
}
