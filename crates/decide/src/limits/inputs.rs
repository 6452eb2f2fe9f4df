// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sources from which idle memory is determined.

use pagewise_model::{GroupGenerations, Millis, Name, Reading, WatchedMemory};

/// What the advice on limits uses besides the interval.
#[derive(Debug)]
pub struct LimitInputs<'a> {
    /// The only group to survey; `None` surveys all of them.
    pub selected: Option<&'a Name>,
    /// Pages that were not used for this long are idle.
    pub age: Millis,
    /// The generations of multi-gen LRU, for each cgroup.
    pub generations: &'a Reading<Vec<GroupGenerations>>,
    /// Memory of the selected group that was watched by its accessed bits.
    pub watched: Option<&'a WatchedMemory>,
}
