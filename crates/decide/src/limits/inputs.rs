// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Input for the advice on limits.

use pagewise_model::{GroupGenerations, Millis, Name, Reading, WatchedMemory};

/// Input for the advice on limits, in addition to the interval.
#[derive(Debug)]
pub struct LimitInputs<'a> {
    /// Path of the only group to survey; `None` to survey all groups.
    pub selected: Option<&'a Name>,
    /// Pages that were not used for this long are idle.
    pub age: Millis,
    /// The generations of multi-gen LRU, for each cgroup.
    pub generations: &'a Reading<Vec<GroupGenerations>>,
    /// Memory of the selected group whose accessed bits were cleared and read again later.
    pub watched: Option<&'a WatchedMemory>,
}
