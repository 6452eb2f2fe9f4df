// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What idle times are found from.

use pagewise_model::{GroupGenerations, Millis, Name, Reading, WatchedMemory};

/// What is known beside the interval.
#[derive(Debug)]
pub struct LimitInputs<'a> {
    /// The only group that is asked for; `None` asks for all of them.
    pub selected: Option<&'a Name>,
    /// Pages that were not used for so long are idle.
    pub age: Millis,
    /// What multi-gen LRU knows.
    pub generations: &'a Reading<Vec<GroupGenerations>>,
    /// What was watched of the selected group.
    pub watched: Option<&'a WatchedMemory>,
}
